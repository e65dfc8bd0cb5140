"""What waits in the queues, and the workers that serve them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Depth of one queue; each row counts in exactly one state.

    Attributes:
        counts: State to number of jobs, for all but ``done`` and ``cancelled``.
        oldest_ready_seconds: Age of the oldest due job, None when none is due.
    """

    queue: str
    counts: dict[str, int]
    oldest_ready_seconds: float | None


@dataclass(frozen=True, slots=True)
class Probe:
    """What waits, asked in one statement.

    Attributes:
        queues: Those of the asked queues that hold a job to claim now.
        due_in: Seconds until the next waiting job falls due; None when none waits.
        lapse_in: Seconds until the next lease lapses unless renewed; None when none runs.
    """

    queues: frozenset[str]
    due_in: float | None
    lapse_in: float | None


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A sign of life of one worker process."""

    worker_id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    version: str


@dataclass(frozen=True, slots=True)
class Wake:
    """A queue got work, due in so many seconds (0 is now)."""

    queue: str
    due_in: float = 0.0
