"""What the store holds, its one lock, and the moves that several verbs share."""

from __future__ import annotations

import threading
from datetime import datetime
from uuid import UUID

from django_durable_jobs.store.rows import AttemptRow, ClaimIdentity, StepRow, WorkerBeat

from .listener import Wakes
from .records import EventRecord, JobRecord
from .transaction import Blocks


class Tables:
    """Every row of the store, guarded by ``_lock``."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._jobs: dict[UUID, JobRecord] = {}
        # Claims and wakes look at live rows only, however many finished ones are kept.
        self._live: dict[UUID, JobRecord] = {}
        self._keys: dict[tuple[str, str, str], UUID] = {}
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

    def _finish(self, record: JobRecord, state: str, now: datetime) -> None:
        """Make *record* final, and free its key."""
        record.state = state
        record.is_armed = False
        record.finished_at = now
        record.lease_expires_at = None
        self._forget_live(record)

    def _forget_live(self, record: JobRecord) -> None:
        self._live.pop(record.id, None)
        if record.key is not None and self._keys.get(record.key) == record.id:
            del self._keys[record.key]

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
