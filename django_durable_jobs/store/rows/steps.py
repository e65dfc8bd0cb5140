"""The checkpoints of a run, and the children that its steps wait for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from .events import Cursor, EventFilter

StepStatus = Literal["done", "sleeping", "waiting", "calling", "timed_out", "failed"]
"""``sleeping``, ``waiting`` and ``calling`` are open; the others are final."""


@dataclass(frozen=True, slots=True)
class NewStep:
    """A checkpoint about to be written under the fence.

    Attributes:
        seq: Place of the step in this execution, from 1.
        output: JSON text, for ``done`` and ``failed``.
        alternatives: Further events that end the wait.
        since_run: The wait takes also what was committed after the job's enqueue.
        cursor: What the open wait has refused; None leaves what is stored.
        family_id: For ``calling``: its first child.
        children: For ``calling``: how many.
        children_at_once: For ``calling``: how many run side by side; None for all.
        wait: For ``sleeping`` until the wake, for ``waiting`` until the timeout; the store
            stamps the instant. None waits for ever.
        until: The same as an instant; wins over *wait*.
        took: How long its function ran, by the process's own measure; sets when it started.
    """

    name: str
    seq: int
    status: StepStatus
    output: str | None = None
    event: str = ""
    correlation_key: str | None = None
    wait: timedelta | None = None
    until: datetime | None = None
    took: timedelta = timedelta(0)
    alternatives: tuple[EventFilter, ...] = ()
    since_run: bool = False
    cursor: Cursor | None = None
    family_id: UUID | None = None
    children: int | None = None
    children_at_once: int | None = None


@dataclass(frozen=True, slots=True)
class StepRow:
    """A stored checkpoint.

    Attributes:
        wake_at: When a sleep ends or a wait times out; None is never.
        started_at: When it was first reached, by the database's clock. Of a wait that counts
            from the enqueue it is the time of that.
        mark: The snapshot a wait began under, or that of the enqueue; opaque text of the
            driver.
    """

    name: str
    seq: int
    status: StepStatus
    output: str | None
    event: str
    correlation_key: str | None
    wake_at: datetime | None
    started_at: datetime
    finished_at: datetime | None
    mark: str | None
    attempt: int = 0
    alternatives: tuple[EventFilter, ...] = ()
    cursor: Cursor | None = None
    family_id: UUID | None = None
    children: int | None = None
    children_at_once: int | None = None
    job_id: UUID | None = None

    @property
    def is_open(self) -> bool:
        """Whether the run still waits in it."""
        return self.finished_at is None

    @property
    def filters(self) -> tuple[EventFilter, ...]:
        """Every event that ends the wait."""
        return (EventFilter(self.event, self.correlation_key), *self.alternatives)


@dataclass(frozen=True, slots=True)
class ChildRow:
    """What became of a child, as far as its parent needs it.

    Attributes:
        state: Final, or one of the live states.
        result: JSON text of a ``done`` child.
        message: Why it was given up; its reason when it was cancelled.
    """

    id: UUID
    name: str
    state: str
    result: str | None
    code: str
    error_class: str
    message: str
