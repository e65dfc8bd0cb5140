"""A payload in one short line, for a list that many people see."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Final

_TOKEN: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*("?)|[{}\[\],:]|[^\s{}\[\],:"]+)', re.DOTALL)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")
_HIDDEN: Final = '"…"'


def preview(json_text: str, limit: int = 200, *, redact: Collection[str] = ()) -> str:
    """Return *json_text* on one line of at most *limit* characters.

    The values under keys that name a secret are not shown, however deep the key and
    whatever the value. A key names one when the words of an entry of *redact* follow
    one another in it: ``api_key`` hides ``stripeApiKeys`` too. Text cut off in the
    middle, as a query may deliver it, is shown as far as it goes. Only as much is read
    as is shown or hidden.

    Args:
        redact: Names in lower case, usually ``DURABLE_JOBS["REDACT"]``.
    """
    names = [words for words in map(_words, redact) if words.strip()]
    shown = ""
    for piece in _pieces(json_text, names, limit):
        shown += piece
        if len(shown) > limit:
            return shown[: max(limit - 1, 0)] + "…"
    return shown


def _pieces(text: str, names: list[str], limit: int) -> Iterator[str]:
    open_objects: list[bool] = []
    at_key = hide_next = False
    hidden_above: int | None = None
    for match in _TOKEN.finditer(text):
        mark = match[1]
        depth = len(open_objects)
        if mark in "{[":
            open_objects.append(mark == "{")
        elif mark in "}]" and open_objects:
            open_objects.pop()
        if hidden_above is not None:
            if len(open_objects) == hidden_above:
                hidden_above = None
        elif hide_next and mark != ":":
            hide_next = False
            hidden_above = depth if mark in "{[" else None
            yield _HIDDEN
        else:
            if at_key and mark.startswith('"'):
                hide_next = _names_a_secret(mark, names)
            yield _printable(mark[: limit + 1]) + (" " if mark in ":," else "")
        at_key = bool(open_objects) and open_objects[-1] and mark in "{,"


def _names_a_secret(mark: str, names: list[str]) -> bool:
    try:
        key = json.loads(mark)
    except ValueError:
        # Cut off in the middle: what is left of it is all there is to judge by.
        key = mark
    words = _words(key)
    return any(name in words for name in names)


def _words(key: str) -> str:
    # Spaces on both sides, so that whole words are compared: "card" is not in "discard".
    words = (word.lower().removesuffix("s") for word in _WORD.findall(key))
    return f" {' '.join(words)} "


def _printable(mark: str) -> str:
    if mark.isprintable():
        return mark
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in mark)
