"""Lengths of time are read as people write them, or refused without being shown."""

from __future__ import annotations

import contextlib
import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_durable_jobs.durations import parse_duration
from django_durable_jobs.exceptions import DurationInvalid


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0), (1.5, 1.5), (timedelta(minutes=2), 120), ("30s", 30), ("5m", 300),
        ("1h30m", 5400), ("1h 30m", 5400), ("3d", 259_200), ("250ms", 0.25), ("1w", 604_800),
        ("1.5h", 5400),
    ],
)  # fmt: skip
def test_a_duration_is_read_as_written(written: Any, seconds: float) -> None:
    assert parse_duration(written, subject="delay") == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (True, "is a bool, not a duration."),
        (None, "is a NoneType, not a duration."),
        (math.nan, "is not finite."),
        (math.inf, "is not finite."),
        (10**400, "is not finite."),
        (-1, "is negative."),
        (timedelta(seconds=-1), "is negative."),
        (1e15, "is longer than a timedelta can hold."),
        ("9" * 20 + "w", "is longer than a timedelta can hold."),
        ("9" * 400 + "w", "is not finite."),
        ("", "is not a duration."),
        (" ", "is not a duration."),
        ("-5s", "is not a duration."),
        ("5", "is not a duration."),
        ("s3cret", "is not a duration."),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_duration_is_refused_with_the_accepted_forms(written: Any, reason: str) -> None:
    with pytest.raises(DurationInvalid) as caught:
        parse_duration(written, subject="Job 'a': delay")
    assert str(caught.value) == (
        f"Job 'a': delay {reason} "
        'Give a timedelta, a number of seconds, or text such as "30s", "5m" or "1h30m".'
    )


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(DurationInvalid):
        assert parse_duration(text, subject="delay") >= timedelta(0)


@given(st.timedeltas(timedelta(0)))
def test_a_timedelta_stays_what_it_is(value: timedelta) -> None:
    assert parse_duration(value, subject="delay") == value
