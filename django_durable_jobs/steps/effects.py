"""Keep the effects of an atomic block on the database that can hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from django.db import connections

from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import EffectsElsewhere

# What says nothing of the statement's kind: comments, and quoted texts and names.
_ASIDES: Final = re.compile(
    r"/\*.*?\*/|--[^\n]*|\$(\w*)\$.*?\$\1\$"
    r"|\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`",
    re.DOTALL,
)
# What may be asked of another database inside an atomic block: nothing that it keeps.
_READS: Final = re.compile(
    r"[\s(]*(?:select|values|table|show|with|explain|declare|fetch|close"
    r"|savepoint|release|rollback|begin|start|commit|set|reset)\b",
    re.IGNORECASE,
)
# Begin a write, also inside of a statement that begins like a read; "for update" is a lock.
_WRITES: Final = re.compile(
    r"(?<!for )(?<!for no key )\b(?:insert|update|delete|merge|into|create)\b", re.IGNORECASE
)
_SPACE: Final = re.compile(r"\s+")


@contextmanager
def only_on_jobs_database(what: str) -> Iterator[None]:
    """Refuse writes to any other database alias while the block runs on this thread.

    What another database commits cannot be taken back when the jobs' one rolls back, nor
    the other way round: done there, the effects would not happen exactly once. A statement
    is judged by its words, so a function that writes when it is selected passes; and so does
    what is not sent by a cursor's ``execute`` on this thread: COPY, ``callproc``, other threads.

    Args:
        what: The beginning of the refusal, such as "Step 'record'".

    Raises:
        EffectsElsewhere: Inside the block, where the write was tried; it did not take place.
    """
    others = [alias for alias in connections if alias != settings.DATABASE]
    if not others or settings.DRIVER == "memory":
        yield
        return
    with ExitStack() as stack:
        for alias in others:
            stack.enter_context(connections[alias].execute_wrapper(_refusing(what, alias)))
        yield


def _refusing(what: str, alias: str) -> Callable[..., Any]:
    def wrapper(
        execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        if is_write(_text(sql)):
            raise EffectsElsewhere(what, alias, settings.DATABASE)
        return execute(sql, params, many, context)

    return wrapper


def is_write(sql: str) -> bool:
    """Whether a text is, or holds, a statement that changes rows or tables."""
    bare = _SPACE.sub(" ", _ASIDES.sub(" ", sql))
    # Several may be sent as one text.
    statements = [each for each in bare.split(";") if each.strip()] or [""]
    return any(
        _READS.match(each) is None or _WRITES.search(each) is not None for each in statements
    )


def _text(sql: Any) -> str:
    if isinstance(sql, bytes):
        return sql.decode(errors="replace")
    # Statements that psycopg composes are objects of its own.
    written = getattr(sql, "as_string", None)
    return str(sql) if written is None else str(written(None))
