"""How long a failed job waits: the exact curve, spread by chance, always in bounds."""

from __future__ import annotations

import dataclasses
import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_durable_jobs.exceptions import ChoiceInvalid, DurationInvalid, NumberInvalid
from django_durable_jobs.policies.retry import Retry, backoff, stated_delay

NEVER = timedelta(0)


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def low() -> float:
    return 0.0


def high() -> float:
    return math.nextafter(1.0, 0.0)


def test_the_defaults_are_five_attempts_on_an_exponential_curve_with_equal_jitter() -> None:
    retry = Retry()

    assert dataclasses.astuple(retry) == (
        5, "exponential", seconds(2), timedelta(minutes=10), "equal", True,
    )  # fmt: skip


def test_durations_are_kept_as_timedelta_whatever_way_they_were_written() -> None:
    retry = Retry(delay=1.5, max_delay="1h30m")

    assert (retry.delay, retry.max_delay) == (seconds(1.5), timedelta(hours=1, minutes=30))
    assert dataclasses.replace(retry, attempts=2).delay == seconds(1.5)


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Retry().attempts = 6  # type: ignore[misc]  # on purpose


@pytest.mark.parametrize("attempts", [0, -1, 2.5, math.nan, math.inf, True, "5", None])
def test_attempts_that_are_no_whole_finite_number_of_at_least_one_are_refused(
    attempts: Any,
) -> None:
    with pytest.raises(NumberInvalid, match=r"^Retry\.attempts must be a"):
        Retry(attempts=attempts)


@pytest.mark.parametrize("delay", [-1, math.nan, math.inf, "", "soon", True, None])
def test_a_delay_that_is_no_length_of_time_is_refused(delay: Any) -> None:
    with pytest.raises(DurationInvalid, match=r"^Retry\.delay "):
        Retry(delay=delay)
    with pytest.raises(DurationInvalid, match=r"^Retry\.max_delay "):
        Retry(max_delay=delay)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backoff": "random"}, "Retry.backoff must be one of 'exponential', 'linear', 'fixed'."),
        ({"jitter": False}, "Retry.jitter must be one of 'equal', 'full', 'none'."),
        ({"dead_letter": 1}, "Retry.dead_letter must be one of True, False."),
    ],
)
def test_an_unknown_choice_is_refused_with_the_choices(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ChoiceInvalid) as caught:
        Retry(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("curve", "waits"),
    [
        ("fixed", [2, 2, 2, 2, 2]),
        ("linear", [2, 4, 6, 8, 10]),
        ("exponential", [2, 4, 8, 16, 30]),
    ],
)
def test_without_jitter_the_wait_is_exactly_the_curve(curve: Any, waits: list[int]) -> None:
    retry = Retry(backoff=curve, delay=2, max_delay=30, jitter="none")

    assert [backoff(retry, n, high) for n in range(1, 6)] == [seconds(w) for w in waits]


def test_full_jitter_spreads_from_nothing_to_the_whole_wait() -> None:
    retry = Retry(backoff="fixed", delay=8, jitter="full")

    assert backoff(retry, 1, low) == NEVER
    assert backoff(retry, 1, lambda: 0.25) == seconds(2)
    assert seconds(7.99) < backoff(retry, 1, high) <= seconds(8)


def test_equal_jitter_spreads_over_the_upper_half_of_the_wait() -> None:
    retry = Retry(backoff="fixed", delay=8, jitter="equal")

    assert backoff(retry, 1, low) == seconds(4)
    assert backoff(retry, 1, lambda: 0.5) == seconds(6)
    assert seconds(7.99) < backoff(retry, 1, high) <= seconds(8)


RETRIES = st.builds(
    Retry,
    backoff=st.sampled_from(["exponential", "linear", "fixed"]),
    jitter=st.sampled_from(["equal", "full", "none"]),
    delay=st.timedeltas(NEVER, timedelta(days=365_000)),
    max_delay=st.timedeltas(NEVER, timedelta(days=365_000)),
)
CHANCE = st.floats(0, 1, exclude_max=True)


@given(RETRIES, st.integers(1, 10**6), CHANCE)
def test_a_wait_is_never_negative_and_never_above_the_longest(
    retry: Retry, attempt: int, chance: float
) -> None:
    assert NEVER <= backoff(retry, attempt, lambda: chance) <= retry.max_delay


@given(RETRIES, st.integers(1, 10**6))
def test_without_jitter_a_later_attempt_never_waits_less(retry: Retry, attempt: int) -> None:
    plain = dataclasses.replace(retry, jitter="none")

    assert backoff(plain, attempt, low) <= backoff(plain, attempt + 1, low)


@given(RETRIES, st.integers(1, 200))
def test_the_curve_equals_its_formula(retry: Retry, attempt: int) -> None:
    factor = {"fixed": 1, "linear": attempt, "exponential": 2 ** (attempt - 1)}[retry.backoff]
    unit = timedelta(microseconds=1)
    expected = min(retry.delay // unit * factor, retry.max_delay // unit)

    assert backoff(dataclasses.replace(retry, jitter="none"), attempt, low) // unit == expected


def test_a_stated_delay_is_spread_upwards_by_at_most_a_tenth() -> None:
    retry = Retry(max_delay=100)

    assert stated_delay(retry, 30, low) == seconds(30)
    assert seconds(32.9) < stated_delay(retry, 30, high) <= seconds(33)
    assert stated_delay(Retry(jitter="none"), 30, high) == seconds(30)


@given(RETRIES, st.floats(0, allow_infinity=False), CHANCE)
def test_a_stated_delay_is_kept_up_to_the_longest(
    retry: Retry, stated: float, chance: float
) -> None:
    wait = stated_delay(retry, stated, lambda: chance)
    floor = min(stated, retry.max_delay.total_seconds())

    assert wait.total_seconds() >= floor - 1e-3
    assert wait <= retry.max_delay * 1.1 + timedelta(microseconds=1)
