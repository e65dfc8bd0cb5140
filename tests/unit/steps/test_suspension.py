"""A suspension passes through code that catches errors, alone and in groups."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from django_durable_jobs.steps import Suspension, suspension_in

WHEN = datetime(2026, 7, 1, tzinfo=UTC)


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
    group = BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [inner]), Suspension("other")])

    assert suspension_in(group) is inner


def test_a_real_error_beside_a_suspension_is_not_hidden_by_it():
    group = BaseExceptionGroup("both", [Suspension("nap"), ValueError("real")])

    assert suspension_in(group) is None


def test_a_group_of_errors_is_no_suspension():
    assert suspension_in(ExceptionGroup("errors", [ValueError()])) is None
