"""Numbers that people configure are finite and in bounds, or refused without being shown."""

from __future__ import annotations

import math

import pytest

from django_durable_jobs.exceptions import NumberInvalid
from django_durable_jobs.policies.bounds import finite_count, finite_option


def test_zero_is_a_legal_count_when_the_minimum_is_zero() -> None:
    assert finite_count(0, minimum=0, subject="limit") == 0


def test_a_whole_float_counts_and_comes_back_as_an_int() -> None:
    assert repr(finite_count(3.0, minimum=0, subject="limit")) == "3"


def test_a_huge_whole_count_stays_exact() -> None:
    assert finite_count(10**400, minimum=0, subject="limit") == 10**400


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "limit must be at least 0."),
        (2.5, "limit must be a whole number."),
        (math.nan, "limit must be a finite number."),
        (math.inf, "limit must be a finite number."),
        (True, "limit must be a number, not bool."),
        ("s3cret", "limit must be a number, not str."),
        (None, "limit must be a number, not NoneType."),
    ],
)
def test_a_count_that_is_no_whole_number_in_bounds_is_refused(value: object, message: str) -> None:
    with pytest.raises(NumberInvalid) as caught:
        finite_count(value, minimum=0, subject="limit")
    assert str(caught.value) == message


def test_an_option_may_be_fractional() -> None:
    assert finite_option(0.5, subject="rate", minimum=0) == 0.5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-0.5, "rate must be at least 0."),
        (math.nan, "rate must be a finite number."),
        (-math.inf, "rate must be a finite number."),
        (10**400, "rate must be a finite number."),
        (False, "rate must be a number, not bool."),
        ("1", "rate must be a number, not str."),
    ],
)
def test_an_option_that_is_not_finite_or_out_of_bounds_is_refused(
    value: object, message: str
) -> None:
    with pytest.raises(NumberInvalid) as caught:
        finite_option(value, subject="rate", minimum=0)
    assert str(caught.value) == message
