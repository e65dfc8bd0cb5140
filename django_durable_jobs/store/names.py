"""Names that people give and the store compares: of steps, events and keys; and other text."""

from __future__ import annotations

from typing import Final

MAX_NAME_BYTES: Final = 200
"""Longest name, as UTF-8: index entries stay small, and pages can show it whole."""


def name_fault(name: object) -> str | None:
    """What is wrong with *name*, to continue "The name …"; None if it can be stored exactly."""
    if not isinstance(name, str):
        return f"is of type {type(name).__name__}, not text"
    if not name.strip():
        return "is blank"
    if "\0" in name:
        return "holds a NUL character, which PostgreSQL cannot store"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "holds a lone surrogate, which is not valid text"
    if size > MAX_NAME_BYTES:
        return f"takes {size} bytes as UTF-8; the limit is {MAX_NAME_BYTES}"
    return None


def storable(text: str) -> str:
    """*text* with the characters escaped that PostgreSQL cannot keep; for what is only shown."""
    return text.replace("\0", "\\x00").encode(errors="backslashreplace").decode()
