"""A suspension passes through code that catches errors, alone and in groups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_durable_jobs.steps import Suspension, suspension_in
from django_durable_jobs.steps.suspension import merged

WHEN = datetime(2026, 7, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_except_exception_in_a_body_lets_a_suspension_pass():
    def body():
        try:
            raise Suspension("nap", run_at=WHEN)
        except Exception:
            return "swallowed"

    with pytest.raises(Suspension) as caught:
        body()

    assert (caught.value.step, caught.value.run_at, caught.value.waits) == ("nap", WHEN, False)


def test_an_ordinary_error_is_no_suspension():
    assert suspension_in(ValueError()) is None
    assert suspension_in(KeyboardInterrupt()) is None


def test_a_suspension_is_found_in_nested_groups():
    inner = Suspension("nap", run_at=WHEN)
    group = BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [inner])])

    assert suspension_in(group) is inner


def test_the_suspensions_of_a_group_are_one_that_ends_with_the_first_of_them():
    group = BaseExceptionGroup(
        "outer",
        [
            BaseExceptionGroup("inner", [Suspension("later", run_at=WHEN + HOUR)]),
            Suspension("nap", run_at=WHEN),
            Suspension("approval", waits=True),
            Suspension("ship", calls=True),
        ],
    )

    found = suspension_in(group)

    assert found is not None
    assert (found.step, found.run_at) == ("later, nap, approval, ship", WHEN)
    assert (found.waits, found.calls) == (True, True)


def test_one_suspension_that_stands_in_a_group_twice_counts_once():
    nap = Suspension("nap", run_at=WHEN)

    assert suspension_in(BaseExceptionGroup("tasks", [nap, BaseExceptionGroup("in", [nap])])) is nap


def test_the_shortest_delay_of_several_wins():
    found = merged([Suspension("a", delay=HOUR), Suspension("b", delay=2 * HOUR), Suspension("c")])

    assert (found.delay, found.run_at, found.waits, found.calls) == (HOUR, None, False, False)


def test_a_real_error_beside_a_suspension_is_not_hidden_by_it():
    group = BaseExceptionGroup("both", [Suspension("nap"), ValueError("real")])

    assert suspension_in(group) is None


def test_a_group_of_errors_is_no_suspension():
    assert suspension_in(ExceptionGroup("errors", [ValueError()])) is None
