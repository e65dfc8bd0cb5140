"""No page holds the database for longer than its budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import OperationalError, connections, transaction

SECONDS: Final = 5
_QUERY_CANCELED: Final = "57014"


class BudgetSpent(Exception):
    """A statement of the page ran into the budget and was stopped."""


@contextmanager
def statement_budget(alias: str) -> Iterator[None]:
    """Stop each statement on *alias* inside the block after ``SECONDS``.

    Render inside: a list's rows are fetched when its template asks for them.

    Raises:
        BudgetSpent: A statement was stopped.
    """
    try:
        with transaction.atomic(using=alias):
            with connections[alias].cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = '{SECONDS}s'")
            yield
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == _QUERY_CANCELED:
            raise BudgetSpent from error
        raise
