"""Loads the statements: one ``.sql`` file per verb, runnable in ``psql``.

Parameters are written as ``:'name'`` with a cast, which psql takes after
``\\set name value``; here they become psycopg's ``%(name)s``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_PARAMETER: Final = re.compile(r":'(\w+)'")
_COMMENT: Final = re.compile(r"^--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    Attributes:
        source: The file's text.
        query: What is sent: the text without its comments, with psycopg's parameters.
    """

    name: str
    source: str
    query: str


def parse(name: str, source: str) -> Statement:
    """Make a statement of a file's text."""
    text = _COMMENT.sub("", source).strip().removesuffix(";").replace("%", "%%")
    query = _PARAMETER.sub(r"%(\1)s", text)
    return Statement(name, source, f"/* {name} */ {query}")


@cache
def load(name: str) -> Statement:
    """Read ``sql/{name}.sql``, once."""
    source = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    return parse(name, source)


def names() -> list[str]:
    """Every statement there is, sorted."""
    return sorted(
        path.name.removesuffix(".sql")
        for path in files(__package__).joinpath("sql").iterdir()
        if path.name.endswith(".sql")
    )
