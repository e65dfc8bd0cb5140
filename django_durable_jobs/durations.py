"""Lengths of time as people write them."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from .exceptions import DurationInvalid

Duration = timedelta | int | float | str

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def parse_duration(value: Duration, *, subject: str) -> timedelta:
    """Read a timedelta, a number of seconds, or text such as ``"1h30m"``.

    Args:
        subject: What the value is for, as the error should name it.

    Raises:
        DurationInvalid: Not a duration, not finite, negative, or beyond ``timedelta``.
    """
    seconds = _seconds(value, subject)
    if not math.isfinite(seconds):
        raise DurationInvalid(subject, "is not finite.")
    if seconds < 0:
        raise DurationInvalid(subject, "is negative.")
    if isinstance(value, timedelta):
        # Through seconds as a float it could lose its microseconds.
        return value
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise DurationInvalid(subject, "is longer than a timedelta can hold.") from None


def _seconds(value: Duration, subject: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise DurationInvalid(subject, f"is a {type(value).__name__}, not a duration.")
    if isinstance(value, str):
        text = value.replace(" ", "")
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise DurationInvalid(subject, "is not a duration.")
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        return float(value)
    except OverflowError:
        return math.inf
