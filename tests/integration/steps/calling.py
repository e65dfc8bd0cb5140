"""Jobs that the tests of calls have for children."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pytest

from django_durable_jobs import Retry, job
from django_durable_jobs.steps import Suspension

ONCE = Retry(attempts=1)


@dataclass(frozen=True)
class Parcel:
    order: int
    weight: Decimal


class OutOfStock(Exception):
    code = "X_SHOP_OUT_OF_STOCK"


@pytest.fixture
def ship(declaring):
    @job(name="shop.ship")
    def ship(order: int) -> Parcel:
        return Parcel(order, Decimal("1.50"))

    return ship


@pytest.fixture
def failing(declaring):
    @job(name="shop.failing", retry=ONCE)
    def failing() -> int:
        raise OutOfStock("none left of article 7")

    return failing


def answers(bench, body):
    """What the call answered on the run that first saw the child's end, and on its replay."""
    seen = []

    def watched(ctx):
        try:
            answer = body(ctx)
        except Suspension:
            raise
        except BaseException as error:
            seen.append(error)
            raise
        seen.append(answer)
        if ctx.attempt == 1:
            raise ValueError("crash after the call")

    bench.attempt(watched)
    bench.work()
    bench.attempt(watched)
    bench.attempt(watched)
    return seen
