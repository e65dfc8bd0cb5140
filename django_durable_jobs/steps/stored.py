"""What the verbs check alike of names, lengths of time and stored steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django_durable_jobs.durations import Duration, parse_duration
from django_durable_jobs.exceptions import DurationInvalid, StepRefused
from django_durable_jobs.store.rows import StepRow

from .execution import Entered, Execution

# Further than this, the database's own calendar is at its end.
MAX_WAIT: Final = timedelta(days=36_525)


def bounded(value: Duration, *, subject: str) -> timedelta:
    """A length of time that the database can add to its clock.

    Raises:
        DurationInvalid: *value* is not a length of time, or above 100 years.
    """
    length = parse_duration(value, subject=subject)
    if length > MAX_WAIT:
        raise DurationInvalid(subject, "is longer than 100 years.")
    return length


def is_of_a_sleep(stored: StepRow) -> bool:
    """Whether a finished step was a sleep: no other keeps a time without an event."""
    return stored.wake_at is not None and not stored.event


def other_verb(stored: StepRow) -> StepRefused:
    """The refusal of a step whose name was stored by another verb."""
    return StepRefused(
        stored.name,
        f"was stored by another verb ({stored.status}) in an earlier run of this job.",
        "Give the new step a name of its own.",
    )


def require_recorded(execution: Execution, step: Entered) -> None:
    """Refuse a wait in a body that is called inline.

    Raises:
        StepRefused: It is.
    """
    if not execution.recorded:
        raise StepRefused(
            step.name,
            "would wait, and a job that is called inline cannot.",
            "Enqueue the job, or pass what it waits for.",
        )
