"""Values keep their type and their digits from the call through the database to the body."""

from __future__ import annotations

import dataclasses
import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest
from django.db import connection

from django_durable_jobs import job
from django_durable_jobs.exceptions import InputInvalid
from django_durable_jobs.testing import run_jobs
from tests.integration.declared import stored

pytestmark = pytest.mark.django_db


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal
    tags: frozenset[str] = frozenset()


VALUES: list[tuple[Any, object]] = [
    (UUID, UUID(int=7)),
    (Decimal, Decimal("19.99000000000000000001")),
    (datetime, datetime(2026, 7, 1, 9, 0, 0, 123456, tzinfo=UTC)),
    (date, date(2026, 7, 1)),
    (timedelta, timedelta(days=1, microseconds=1)),
    (bytes, b"\x00\xff"),
    (set[int], {1, 2}),
    (tuple[int, str], (1, "a")),
    (Colour, Colour.RED),
    (int, 2**53 + 1),
    (int, 10**400),
    (int, -(2**63) - 1),
    (float, 0.1),
    (bool, True),
    (str, "2026-01-01T00:00:00Z"),
    (str, "19.990"),
    (str, "  \u2028 é e\u0301 🚚 \\u0000 \\x00"),
    (dict[str, Any], {"1": "b", "": None, "é": [1, 2.5, "x", True]}),
    (dict[int, str], {1: "a", 2: "b"}),
    (list[Line], [Line("a", Decimal("1.10"), frozenset({"x"}))]),
    (Literal["a", "b"], "b"),
    (int | None, None),
    (int | str, "7"),
    (Any, 2**53 + 1),
    (Any, "2026-01-01"),
    (Any, {"a": [1, "1", None, 1.0]}),
]


def declared(annotation: Any, ran: list[object]):
    def echo(value):
        ran.append(value)
        return value

    echo.__annotations__ = {"value": annotation, "return": annotation}
    return job(name="types.echo")(echo)


@pytest.mark.parametrize(
    ("annotation", "value"), VALUES, ids=[f"{hint} {value!r}"[:40] for hint, value in VALUES]
)
def test_a_value_is_the_same_in_the_body_and_in_the_result(annotation, value):
    ran: list[object] = []
    echo = declared(annotation, ran)

    result = echo.enqueue(value=value)
    run_jobs()
    result.refresh()
    inline = echo.call(value=value)

    assert ran == [value, value]
    assert [*ran, result.return_value, inline] == [value] * 4
    assert {type(one) for one in (*ran, result.return_value, inline)} == {type(value)}


def test_big_numbers_keep_their_last_digit_in_the_database():
    result = declared(Any, []).enqueue(value=2**53 + 1)

    with connection.cursor() as cursor:
        cursor.execute("select input->>'value' from x_jobs where id = %s", [result.id])
        assert cursor.fetchone() == ("9007199254740993",)


def test_negative_zero_comes_back_as_zero_as_postgresql_stores_it():
    ran: list[object] = []

    declared(float, ran).enqueue(value=-0.0)
    run_jobs()

    assert [repr(value) for value in ran] == ["0.0"]


@pytest.mark.parametrize("value", [(1, 2), [1, 2]])
def test_an_untyped_tuple_comes_back_as_a_list_in_both_ways(value):
    ran: list[object] = []
    echo = declared(Any, ran)

    echo.enqueue(value=value)
    run_jobs()

    assert ran == [[1, 2]]
    assert echo.call(value=value) == [1, 2]


@pytest.mark.parametrize(
    "value",
    [{1: "a", "1": "b"}, {True: 1}, {1: "a"}, {1, 2}, b"x", Decimal(1), UUID(int=1), Colour.RED],
    ids=repr,
)
def test_what_json_would_change_is_refused_where_no_type_says_how_to_keep_it(value):
    echo = declared(Any, [])

    with pytest.raises(InputInvalid) as at_enqueue:
        echo.enqueue(value=value)
    with pytest.raises(InputInvalid) as at_call:
        echo.call(value=value)

    assert str(at_enqueue.value) == str(at_call.value)
    assert at_enqueue.value.problems[0][0] == "value"
    assert stored() == []


def test_a_body_cannot_change_what_the_caller_holds():
    given = {"lines": [1]}

    @job(name="types.change")
    def change(value: dict[str, list[int]]) -> None:
        value["lines"].append(2)

    change.enqueue(value=given)
    given["lines"].append(3)
    run_jobs()
    change.call(value=given)

    assert given == {"lines": [1, 3]}
