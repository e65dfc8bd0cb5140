"""A payment gateway that behaves like a real one: slow, sometimes down, sometimes half down.

Every call is written down on a database connection of the gateway's own, which commits at once:
what happened outside cannot be rolled back by the caller. (For the same reason its rows outlive
a ``TestCase``; test it with ``TransactionTestCase``.)
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal

from django.conf import settings
from django.db import connection
from django.db.backends.utils import CursorWrapper

from .models import GatewayCall

Outcome = GatewayCall.Outcome


class GatewayUnavailable(Exception):
    """The gateway gave no answer; whether it charged is unknown, so ask again by the same key."""

    def __init__(self, idempotency_key: str) -> None:
        super().__init__(f"The payment gateway did not answer for {idempotency_key}.")


def charge(idempotency_key: str, amount: Decimal) -> str:
    """Take *amount* and return the charge's reference.

    A key is charged at most once; a second call with it returns the first one's reference.

    Raises:
        GatewayUnavailable: No answer came. The amount may have been taken all the same.
    """
    with _books() as books:
        call = _write_down(books, idempotency_key, amount)
        time.sleep(_behaviour("GATEWAY_SECONDS", 0.0))
        round_, place = divmod(call, int(_behaviour("GATEWAY_FAILS_EVERY", 7)))
        fails = place == 0
        # Every second failure is the nasty one: the money is taken and the answer is lost.
        if fails and round_ % 2 == 1:
            _conclude(books, call, Outcome.UNAVAILABLE)
            raise GatewayUnavailable(idempotency_key)
        reference, is_new = _take(books, idempotency_key, amount)
        if fails:
            _conclude(books, call, Outcome.ANSWER_LOST)
            raise GatewayUnavailable(idempotency_key)
        _conclude(books, call, Outcome.CHARGED if is_new else Outcome.REPEATED)
        return reference


def _behaviour(name: str, default: float) -> float:
    shop: dict[str, float] = getattr(settings, "SHOP", {})
    return shop.get(name, default)


@contextmanager
def _books() -> Iterator[CursorWrapper]:
    with closing(connection.copy()) as own, own.cursor() as cursor:
        yield cursor


def _write_down(books: CursorWrapper, key: str, amount: Decimal) -> int:
    books.execute(
        "INSERT INTO payments_gatewaycall (key, amount, pid) VALUES (%s, %s, %s) RETURNING id",
        [key, amount, os.getpid()],
    )
    return int(books.fetchone()[0])


def _take(books: CursorWrapper, key: str, amount: Decimal) -> tuple[str, bool]:
    books.execute(
        "INSERT INTO payments_charge (key, amount) VALUES (%s, %s) ON CONFLICT (key) DO NOTHING",
        [key, amount],
    )
    is_new = books.rowcount == 1
    books.execute("SELECT id FROM payments_charge WHERE key = %s", [key])
    return f"charge-{books.fetchone()[0]}", is_new


def _conclude(books: CursorWrapper, call: int, outcome: Outcome) -> None:
    books.execute("UPDATE payments_gatewaycall SET outcome = %s WHERE id = %s", [outcome, call])
