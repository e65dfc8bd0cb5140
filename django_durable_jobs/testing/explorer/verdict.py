"""Judges a run that was disturbed by one that was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django_durable_jobs.states import DONE

from .history import CALLED, RETURNED, Note, read_history
from .observer import Observer


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of the flow ended, as its ``check`` is told.

    Attributes:
        result: What the job returned, decoded; None if it did not end done.
        history: What its bodies did, in order; see ``note``.
    """

    job_id: UUID
    state: str
    result: Any
    history: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """What a run left in the database."""

    state: str
    result: str | None
    error: str
    jobs: Counter[tuple[str, str, str]]
    steps: Counter[tuple[str, str, str]]
    effects: Counter[str]


def read_left(observer: Observer, job_id: UUID) -> Left:
    ((state, result, error),) = observer.ask(
        "select state, result::text, last_error from x_jobs where id = %(id)s", {"id": job_id}
    )
    jobs = observer.ask("select name, state, parent_step from x_jobs")
    steps = observer.ask(
        "select j.name, s.name, s.status from x_job_steps s join x_jobs j on j.id = s.job_id"
    )
    effects = observer.ask("select effect from explorer_effects")
    return Left(
        state=state,
        result=result,
        error=error,
        jobs=Counter((name, each, step) for name, each, step in jobs),
        steps=Counter((name, step, status) for name, step, status in steps),
        effects=Counter(name for (name,) in effects),
    )


def differences(undisturbed: Left, left: Left) -> list[str]:
    """How a disturbed run ended otherwise than the undisturbed one."""
    found = []
    if left.state != undisturbed.state:
        reason = f" ({left.error})" if left.state != DONE and left.error else ""
        found.append(f"The run ended {left.state}{reason}, not {undisturbed.state}.")
    elif left.result != undisturbed.result:
        found.append(f"The result is {left.result}, undisturbed it is {undisturbed.result}.")
    for kind, ours, theirs in (
        ("Effect", left.effects, undisturbed.effects),
        ("Job", left.jobs, undisturbed.jobs),
        ("Step", left.steps, undisturbed.steps),
    ):
        for what in sorted({*ours, *theirs}, key=str):
            if ours[what] != theirs[what]:
                found.append(f"{kind} {what} is there {ours[what]} times, not {theirs[what]}.")
    return found


def repeated_steps(notes: Sequence[Note]) -> list[str]:
    """Steps whose function ran again after they were finished."""
    found = []
    returned: set[tuple[UUID | None, str]] = set()
    for each in notes:
        place = each.job_id, each.step
        if each.act == RETURNED:
            returned.add(place)
        elif each.act == CALLED and each.is_stored:
            found.append(f"Step '{each.step}' ran again after its checkpoint was committed.")
        elif each.act == CALLED and place in returned:
            found.append(f"Step '{each.step}' ran again after it had returned to the body.")
    return found


def history_of(observer: Observer) -> tuple[Note, ...]:
    return tuple(read_history(observer))
