"""Loads the statements: one ``.sql`` file per verb, runnable in ``psql``.

Parameters are written as ``:'name'`` with a cast, which psql takes after
``\\set name value``; here they become psycopg's ``%(name)s``. A text that several
statements share is a file of ``sql/fragments``, which psql reads with
``\\set name `cat fragments/name.sql` `` and puts in where the statement says ``:name``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_PARAMETER: Final = re.compile(r":'(\w+)'")
_COMMENT: Final = re.compile(r"^[ \t]*--.*\n?", re.MULTILINE)
_FRAGMENT: Final = re.compile(r"^\\set (\w+) `cat fragments/(\w+)\.sql`\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    Attributes:
        source: The file's text with its fragments in place.
        query: What is sent: that without its comments, and with psycopg's parameters.
    """

    name: str
    source: str
    query: str


def parse(name: str, source: str) -> Statement:
    """Make a statement of a file's text.

    Raises:
        FileNotFoundError: It names a fragment that does not exist.
    """
    source = _with_fragments(source)
    text = _COMMENT.sub("", source).strip().removesuffix(";").replace("%", "%%")
    query = _PARAMETER.sub(r"%(\1)s", text)
    return Statement(name, source, f"/* {name} */ {query}")


@cache
def load(name: str) -> Statement:
    """Read ``sql/{name}.sql``, once."""
    return parse(name, _read(f"{name}.sql"))


def names() -> list[str]:
    """Every statement there is, sorted."""
    return sorted(
        path.name.removesuffix(".sql")
        for path in files(__package__).joinpath("sql").iterdir()
        if path.name.endswith(".sql")
    )


def _with_fragments(text: str) -> str:
    for variable, fragment in _FRAGMENT.findall(text):
        inside = _with_fragments(_read("fragments", f"{fragment}.sql"))
        # Here, since put in behind other text its first comment begins no line any more.
        inside = _COMMENT.sub("", inside).rstrip("\n")
        # Not a replacement text, which would read the fragment's backslashes.
        text = inside.join(re.split(rf"(?<!:):{variable}\b", text))
    return _FRAGMENT.sub("", text)


def _read(*path: str) -> str:
    return files(__package__).joinpath("sql", *path).read_text(encoding="utf-8")
