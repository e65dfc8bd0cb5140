"""What the store holds, its one lock, and the moves that several verbs share."""

from __future__ import annotations

import heapq
import threading
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django_durable_jobs.store.rows import AttemptRow, ClaimIdentity, StepRow, Wake, WorkerBeat

from .listener import Wakes
from .records import EventRecord, JobRecord
from .transaction import Blocks


@dataclass(slots=True)
class Family:
    """The live children of one step.

    Attributes:
        held: A heap of those that were held when they came; some may be so no more.
    """

    live: set[UUID] = field(default_factory=set)
    held: list[UUID] = field(default_factory=list)


class Tables:
    """Every row of the store, guarded by ``_lock``."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._jobs: dict[UUID, JobRecord] = {}
        # Claims and wakes look at live rows only, however many finished ones are kept.
        self._live: dict[UUID, JobRecord] = {}
        self._keys: dict[tuple[str, str, str], UUID] = {}
        # By the first child's id; a family without a live child is not among them.
        self._families: dict[UUID, Family] = {}
        self._steps: dict[UUID, dict[str, StepRow]] = {}
        self._attempts: dict[UUID, list[AttemptRow]] = {}
        self._events: list[EventRecord] = []
        self._events_published = 0
        self._paused: set[str] = set()
        self._workers: dict[str, WorkerBeat] = {}
        # Where the walk over the lanes of a queue and priority goes on.
        self._turns: dict[tuple[str, int], tuple[str, str]] = {}
        self._wakes = Wakes()
        self._blocks = Blocks()

    def _held(self, claim: ClaimIdentity) -> JobRecord | None:
        """The job that *claim* still holds; the read that every fenced write begins with."""
        record = self._live.get(claim.job_id)
        return record if record is not None and record.is_held_by(claim) else None

    def _enliven(self, record: JobRecord) -> None:
        self._live[record.id] = record
        if record.key is not None:
            self._keys[record.key] = record.id
        if record.new.family_id is not None:
            family = self._families.setdefault(record.new.family_id, Family())
            family.live.add(record.id)
            if record.is_held():
                heapq.heappush(family.held, record.id)

    def _forget_live(self, record: JobRecord) -> None:
        self._live.pop(record.id, None)
        if record.new.family_id in self._families:
            family = self._families[record.new.family_id]
            family.live.discard(record.id)
            if not family.live:
                del self._families[record.new.family_id]
        if record.key is not None and self._keys.get(record.key) == record.id:
            del self._keys[record.key]

    def _wake_parked(self, record: JobRecord, now: datetime) -> None:
        """Make *record* due now, and tell the listeners."""
        record.become_due(now, now)
        self._wakes.send([Wake(record.new.queue)])

    def _remember_attempt(
        self,
        record: JobRecord,
        outcome: str,
        now: datetime,
        *,
        message: str,
        code: str = "",
        error_class: str = "",
        traceback: str = "",
    ) -> None:
        """Note how the running attempt of *record* ended; call it before the claim ends."""
        self._attempts.setdefault(record.id, []).append(
            AttemptRow(
                claim=record.claims,
                attempt=record.attempt,
                outcome=outcome,
                code=code,
                error_class=error_class,
                message=message,
                traceback=traceback,
                worker_id=record.worker_id or "",
                started_at=record.started_at,
                finished_at=now,
            )
        )
