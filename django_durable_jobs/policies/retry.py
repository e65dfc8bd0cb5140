"""How often a failed job is tried, and how long it waits before the next attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, get_args

from django_durable_jobs.durations import Duration, parse_duration
from django_durable_jobs.exceptions import ChoiceInvalid

from .bounds import finite_count

Backoff = Literal["exponential", "linear", "fixed"]
Jitter = Literal["equal", "full", "none"]
Random = Callable[[], float]
"""Chance, as ``random.random``: at least 0 and below 1."""

_MICROSECOND: Final = timedelta(microseconds=1)
_STATED_SPREAD: Final = 10


@dataclass(frozen=True, init=False)
class Retry:
    """The retry policy of a job. With d the delay and n the attempt that just failed:

    ===========  ==================  ======  =====================================
    backoff      waits               jitter  of that wait w
    ===========  ==================  ======  =====================================
    exponential  d * 2 to the n - 1  equal   w/2, and up to w/2 more by chance
    linear       d * n               full    anything from 0 to w
    fixed        d                   none    exactly w
    ===========  ==================  ======  =====================================

    No wait is longer than *max_delay*. A job out of attempts goes to the dead letters
    (state ``dead``) where an operator finds it; with ``dead_letter=False`` it ends
    ``failed`` instead.

    Args:
        attempts: How often the job is tried in all, at least 1.
        delay: The first wait: a timedelta, seconds, or text such as ``"2s"``.
        max_delay: The longest wait.

    Raises:
        NumberInvalid: *attempts* is not a whole number of at least 1.
        DurationInvalid: *delay* or *max_delay* is not a length of time.
        ChoiceInvalid: *backoff*, *jitter* or *dead_letter* is none of its values.
    """

    attempts: int
    backoff: Backoff
    delay: timedelta
    max_delay: timedelta
    jitter: Jitter
    dead_letter: bool

    def __init__(
        self,
        attempts: int = 5,
        backoff: Backoff = "exponential",
        delay: Duration = "2s",
        max_delay: Duration = "10m",
        jitter: Jitter = "equal",
        dead_letter: bool = True,
    ) -> None:
        _choose(backoff, get_args(Backoff), "Retry.backoff")
        _choose(jitter, get_args(Jitter), "Retry.jitter")
        if not isinstance(dead_letter, bool):
            raise ChoiceInvalid("Retry.dead_letter", ("True", "False"))
        values = {
            "attempts": finite_count(attempts, minimum=1, subject="Retry.attempts"),
            "backoff": backoff,
            "delay": parse_duration(delay, subject="Retry.delay"),
            "max_delay": parse_duration(max_delay, subject="Retry.max_delay"),
            "jitter": jitter,
            "dead_letter": dead_letter,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


def backoff(retry: Retry, attempt: int, random: Random) -> timedelta:
    """How long to wait after *attempt* (the first is 1) failed.

    Never negative and never above ``retry.max_delay``, however large the attempt.
    """
    wait = _curve(retry, max(attempt, 1))
    if retry.jitter == "full":
        wait = _share(wait, random)
    elif retry.jitter == "equal":
        half = wait // 2
        wait = half + _share(wait - half, random)
    return wait * _MICROSECOND


def stated_delay(retry: Retry, seconds: float, random: Random) -> timedelta:
    """How long to wait when the failing side said how long.

    Its word is kept up to ``retry.max_delay``, then up to a tenth is added by chance
    (unless jitter is ``none``), so that all who were told the same do not come back at once.
    Never shorter than what was said within that limit.
    """
    limit = retry.max_delay // _MICROSECOND
    wait = limit if seconds * 1_000_000 >= limit else int(seconds * 1_000_000)
    if retry.jitter != "none":
        most = timedelta.max // _MICROSECOND
        wait = min(wait + _share(wait // _STATED_SPREAD, random), most)
    return wait * _MICROSECOND


def _curve(retry: Retry, attempt: int) -> int:
    """The wait before chance, in whole microseconds: exact, and without overflow."""
    delay = retry.delay // _MICROSECOND
    limit = retry.max_delay // _MICROSECOND
    if retry.backoff == "fixed":
        return min(delay, limit)
    if retry.backoff == "linear":
        return min(delay * attempt, limit)
    if delay and attempt > limit.bit_length():
        # Doubled so often, any delay has passed the limit; the number itself would be huge.
        return limit
    return min(delay << (attempt - 1), limit) if delay else 0


def _share(wait: int, random: Random) -> int:
    return min(max(int(wait * random()), 0), wait)


def _choose(value: object, choices: tuple[str, ...], subject: str) -> None:
    if value not in choices:
        raise ChoiceInvalid(subject, tuple(f"'{choice}'" for choice in choices))
