"""Turn the end of an attempt into what becomes of the job."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

from django_durable_jobs.states import DEAD, DONE, FAILED, READY, SUSPENDED

from .classification import Facts, RetryAfter, Terminal, classify
from .retry import Random, Retry, backoff, stated_delay

State = Literal["done", "ready", "suspended", "dead", "failed"]

_AT_ONCE: Final = timedelta(0)


@dataclass(frozen=True)
class Completed:
    """The body returned; *result* is its JSON text."""

    result: str | None = None


@dataclass(frozen=True)
class Raised:
    """The body raised, or could not be given its input."""

    facts: Facts = field(default_factory=Facts)


@dataclass(frozen=True)
class Suspended:
    """A step parked the run; *wake_in* is None when only an event or a child wakes it."""

    wake_in: timedelta | None = None


@dataclass(frozen=True)
class Interrupted:
    """The worker had to stop before the body ended, through no fault of the job."""


@dataclass(frozen=True)
class TimedOut:
    """The attempt outlived the job's timeout."""


Outcome = Completed | Raised | Suspended | Interrupted | TimedOut


@dataclass(frozen=True)
class Decision:
    """What becomes of the job.

    Attributes:
        state: Where it goes.
        delay: How long until it is due again; None when no time is set.
        give_back: The attempt was not spent.
        stop_reason: Why it gets no further attempt; None unless it ends ``dead`` or ``failed``.
    """

    state: State
    delay: timedelta | None = None
    give_back: bool = False
    stop_reason: str | None = None


def decide(
    outcome: Outcome, *, retry: Retry, attempt: int, max_attempts: int, random: Random
) -> Decision:
    """Say what becomes of a job whose attempt ended.

    Args:
        attempt: The attempt that ended; the first is 1.
        max_attempts: Of the row, which may differ from the policy's.
        random: Chance for the jitter, as ``random.random``.
    """
    match outcome:
        case Completed():
            return Decision(DONE)
        case Suspended(wake_in=wake_in):
            return Decision(SUSPENDED, delay=wake_in, give_back=True)
        case Interrupted():
            return Decision(READY, delay=_AT_ONCE, give_back=True)
        case TimedOut():
            facts = Facts(code="X_JOB_TIMEOUT")
        case Raised(facts=facts):
            pass
    answer = classify(facts)
    if isinstance(answer, Terminal):
        return _stop(retry, answer.reason)
    if attempt >= max_attempts:
        return _stop(retry, exhausted_reason(max_attempts))
    if isinstance(answer, RetryAfter):
        return Decision(READY, delay=stated_delay(retry, answer.seconds, random))
    return Decision(READY, delay=backoff(retry, attempt, random))


def exhausted_reason(max_attempts: int) -> str:
    """The stop reason of a job that failed on its last attempt."""
    if max_attempts <= 1:
        return "The only attempt failed."
    return f"The last of {max_attempts} attempts failed."


def _stop(retry: Retry, reason: str) -> Decision:
    return Decision(DEAD if retry.dead_letter else FAILED, stop_reason=reason)
