"""Numbers that people configure, refused unless they are finite and in bounds."""

from __future__ import annotations

import math

from django_durable_jobs.exceptions import NumberInvalid


def finite_option(value: object, *, subject: str, minimum: float | None = None) -> float:
    """Return *value* as a float, for a bound that may be fractional.

    Raises:
        NumberInvalid: Not a number, not finite, or below *minimum*.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NumberInvalid(subject, f"must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise NumberInvalid(subject, "must be a finite number")
    if minimum is not None and number < minimum:
        raise NumberInvalid(subject, f"must be at least {minimum:g}")
    return number


def finite_count(value: object, *, subject: str, minimum: int) -> int:
    """Return *value* as an int, for a count; ``3.0`` counts as 3 and 2.5 is refused.

    Raises:
        NumberInvalid: Not a number, not finite, not whole, or below *minimum*.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        count = int(value)
    else:
        number = finite_option(value, subject=subject)
        if not number.is_integer():
            raise NumberInvalid(subject, "must be a whole number")
        count = int(number)
    if count < minimum:
        raise NumberInvalid(subject, f"must be at least {minimum}")
    return count
