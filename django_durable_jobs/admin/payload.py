"""Stored JSON as text for a page: redacted, cut, indented, and never evaluated.

The text comes from PostgreSQL as it stands and is never parsed into numbers, so
9007199254740993 keeps its last digit.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Final

from django.db.models import CharField, F, TextField
from django.db.models.functions import Cast, Left, Length

from django_durable_jobs.conf import settings
from django_durable_jobs.payloads import preview

SHOWN: Final = 8 * 1024
"""Characters of a payload on a page; the rest is a download."""

_WHOLE: Final = sys.maxsize - 1
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
# Deeper levels are not pushed further to the right.
_DEEPEST_INDENT: Final = 24


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload as a page shows it.

    Attributes:
        size: Characters of the stored text.
        is_cut: Only its beginning is here.
    """

    text: str
    size: int
    is_cut: bool


def text_of(column: str) -> Cast:
    """The expression for the stored text of a JSON column."""
    return Cast(F(column), TextField())


def beginning_of(column: str, characters: int) -> Left:
    """The expression for the first *characters* of a column's text, read by the database."""
    return Left(text_of(column), characters, output_field=CharField())


def size_of(column: str) -> Length:
    """The expression for how long a JSON column's text is."""
    return Length(text_of(column))


def shown(beginning: str | None, size: int | None) -> Payload | None:
    """Return what a page shows of a payload whose text starts with *beginning*."""
    if beginning is None:
        return None
    text = preview(beginning, SHOWN, redact=settings.REDACT)
    length = size if size is not None else len(beginning)
    return Payload(indented(text), length, length > SHOWN)


def whole(text: str) -> str:
    """Return all of a payload, redacted and indented."""
    return indented(preview(text, _WHOLE, redact=settings.REDACT))


def names_a_secret(key: str) -> bool:
    """Whether the value under *key* is never shown."""
    # Asked of the same rule that hides it, so that the two cannot differ.
    return preview(json.dumps({key: 0}), _WHOLE, redact=settings.REDACT).endswith('"…"}')


def indented(text: str) -> str:
    """Return JSON text with one member on each line; text that was cut goes as far as it goes."""
    parts: list[str] = []
    depth = 0
    is_fresh = False
    for match in _TOKEN.finditer(text):
        mark = match[0]
        if mark in ("}", "]"):
            depth = max(depth - 1, 0)
            if not is_fresh:
                parts.append(_line(depth))
        elif is_fresh:
            parts.append(_line(depth))
        is_fresh = mark in ("{", "[")
        parts.append(mark)
        if is_fresh:
            depth += 1
        elif mark == ",":
            parts.append(_line(depth))
        elif mark == ":":
            parts.append(" ")
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + "  " * min(depth, _DEEPEST_INDENT)
