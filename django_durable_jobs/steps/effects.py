"""Keep the effects of an atomic block on the database that can hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from django.db import connections

from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import EffectsElsewhere

# What may be asked of another database inside an atomic block: nothing that it keeps.
_READS: Final = re.compile(
    r"\s*(?:/\*.*?\*/\s*|--[^\n]*\n\s*)*"
    r"(?:\(*\s*select\b|show\b|explain\b|values\b|savepoint\b|release\b|rollback\b|begin\b|set\b)",
    re.IGNORECASE | re.DOTALL,
)
_WITH: Final = re.compile(r"\s*with\b", re.IGNORECASE)
_WRITES: Final = re.compile(r"\b(?:insert|update|delete|merge)\b", re.IGNORECASE)


@contextmanager
def only_on_jobs_database(what: str) -> Iterator[None]:
    """Refuse writes to any other database alias while the block runs on this thread.

    What another database commits cannot be taken back when the jobs' one rolls back, nor
    the other way round: done there, the effects would not happen exactly once.

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
        if _is_write(str(sql)):
            raise EffectsElsewhere(what, alias, settings.DATABASE)
        return execute(sql, params, many, context)

    return wrapper


def _is_write(sql: str) -> bool:
    if _WITH.match(sql):
        return _WRITES.search(sql) is not None
    return _READS.match(sql) is None
