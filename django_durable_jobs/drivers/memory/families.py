"""Children: what became of them, and the parents that wait for their end."""

from __future__ import annotations

import heapq
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django_durable_jobs import clock, states
from django_durable_jobs.store.asked import steps_of
from django_durable_jobs.store.rows import ChildRow, StepRow

from .records import JobRecord
from .tables import Tables


class Families(Tables):
    def children(self, family_id: UUID, count: int) -> list[ChildRow]:
        with self._lock:
            ids = (UUID(int=family_id.int + place) for place in range(count))
            records = (self._jobs.get(child_id) for child_id in ids)
            return [
                record.child_row()
                for record in records
                if record is not None and record.new.family_id == family_id
            ]

    def wake_parents(self, job_ids: Collection[UUID]) -> int:
        with self._lock:
            now = clock.now()
            steps = steps_of(job_ids)
            return sum(
                self._wake_if_childless(job_id, now, steps[job_id]) for job_id in sorted(steps)
            )

    def _wake_missed_parents(self, limit: int) -> int:
        """Wake parents whose children all ended, and start children that nobody would start."""
        now = clock.now()
        woken = 0
        for job_id in sorted(self._live):
            if woken >= limit:
                break
            woken += self._wake_if_childless(job_id, now)
        for step in [step for steps in self._steps.values() for step in steps.values()]:
            if step.status != "calling" or step.children_at_once is None:
                continue
            places = step.children_at_once - self._count_started(step)
            for _ in range(min(places, limit - woken)):
                woken += self._start_next(step.family_id, now)
        return woken

    def _finish(self, record: JobRecord, state: str, now: datetime) -> None:
        """Make *record* final, and free its key; a child's end starts the next or wakes its parent.

        No other way leads to a final state.
        """
        was_held = record.is_held()
        record.state = state
        record.is_armed = False
        record.finished_at = now
        record.lease_expires_at = None
        self._forget_live(record)
        self._end_child(record, now, was_held=was_held)

    def _end_child(self, record: JobRecord, now: datetime, *, was_held: bool) -> None:
        """Follow the end of *record*, which stands among the live no more."""
        family_id, parent_id = record.new.family_id, record.new.parent_id
        if family_id is None or parent_id is None:
            return
        if not was_held:
            self._start_next(family_id, now)
        step = self._steps.get(parent_id, {}).get(record.new.parent_step)
        if step is not None and step.family_id == family_id:
            self._wake_caller(parent_id, step, now)

    def _start_next(self, family_id: UUID | None, now: datetime) -> bool:
        """Make the first held child of a family due, if there is one; whether there was."""
        family = None if family_id is None else self._families.get(family_id)
        while family is not None and family.held:
            record = self._live.get(heapq.heappop(family.held))
            # Or it was cancelled or promoted while it was held.
            if record is not None and record.is_held():
                self._wake_parked(record, now)
                return True
        return False

    def _count_started(self, step: StepRow) -> int:
        family = None if step.family_id is None else self._families.get(step.family_id)
        if family is None:
            return 0
        return sum(not self._live[child_id].is_held() for child_id in family.live)

    def _wake_if_childless(self, job_id: UUID, now: datetime, names: Collection[str] = ()) -> bool:
        """Do so for the steps of these names; for all if empty."""
        return any(
            self._wake_caller(job_id, step, now)
            for step in self._steps.get(job_id, {}).values()
            if not names or step.name in names
        )

    def _wake_caller(self, job_id: UUID, step: StepRow, now: datetime) -> bool:
        """Make a parked job due when none of the children that *step* waits for is left."""
        record = self._live.get(job_id)
        if (
            record is None
            or record.state != states.SUSPENDED
            or record.is_armed
            or step.status != "calling"
            or step.family_id in self._families
        ):
            return False
        self._wake_parked(record, now)
        return True
