"""Checkpoints, and the events that parked runs wait for."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django_durable_jobs import clock, states
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.store.rows import ClaimIdentity, EventRow, NewStep, StepRow, Wake

from .records import EventRecord, JobRecord
from .tables import Tables


class Waiting(Tables):
    def load_steps(self, job_id: UUID) -> list[StepRow]:
        with self._lock:
            stored = self._steps.get(job_id, {}) | self._blocks.pending_steps(job_id)
            return sorted(stored.values(), key=lambda step: (step.seq, step.started_at, step.name))

    def put_step(self, identity: ClaimIdentity, step: NewStep) -> StepRow:
        with self._lock:
            record = self._held(identity)
            if record is None:
                raise LeaseLost(identity.job_id, f"store step '{step.name}'")
            earlier = self._blocks.pending_steps(record.id).get(step.name)
            if earlier is None:
                earlier = self._steps.get(record.id, {}).get(step.name)
            row = self._checkpoint(step, earlier, record, clock.now())
            if self._blocks.stack:
                block = self._blocks.stack[-1]
                block.fences.append(identity)
                block.steps[record.id, step.name] = row
            else:
                self._steps.setdefault(record.id, {})[step.name] = row
            return row

    def publish(
        self,
        event_id: UUID,
        name: str,
        payload: str,
        *,
        key: str | None,
        ttl: timedelta,
        job_id: UUID | None = None,
    ) -> None:
        with self._lock:
            now = clock.now()
            self._events = [event for event in self._events if event.expires_at > now]
            self._events_published += 1
            stamp = now.replace(microsecond=now.microsecond // 1000 * 1000)
            self._events.append(
                EventRecord(
                    EventRow(event_id, name, key, payload, stamp), self._events_published, now + ttl
                )
            )
            for record in list(self._live.values()):
                self._wake_if_answered(record, now)

    def find_event(self, wait: StepRow) -> EventRow | None:
        with self._lock:
            return self._oldest_answer(wait, clock.now())

    def wake_waiters(self, job_ids: Collection[UUID]) -> int:
        with self._lock:
            now = clock.now()
            parked = [self._live[job_id] for job_id in job_ids if job_id in self._live]
            return sum(self._wake_if_answered(record, now) for record in parked)

    def wake_missed(self, *, limit: int) -> int:
        with self._lock:
            now = clock.now()
            woken = 0
            for job_id in sorted(self._live):
                if woken >= limit:
                    break
                woken += self._wake_if_answered(self._live[job_id], now)
            return woken

    def now(self) -> datetime:
        return clock.now()

    def _checkpoint(
        self, step: NewStep, earlier: StepRow | None, record: JobRecord, now: datetime
    ) -> StepRow:
        """The row as it will stand; what was first written about it stays."""
        is_finished = step.status in ("done", "timed_out", "failed")
        if earlier is not None:
            if earlier.finished_at is not None or not is_finished:
                return earlier
            wake_at, mark = earlier.wake_at, earlier.mark
        else:
            wake_at = step.until
            if wake_at is None and step.wait is not None:
                wake_at = now + step.wait
            mark = str(self._events_published) if step.status == "waiting" else None
        return StepRow(
            name=step.name,
            seq=step.seq,
            status=step.status,
            output=step.output,
            event=step.event if earlier is None else earlier.event,
            correlation_key=step.correlation_key if earlier is None else earlier.correlation_key,
            wake_at=wake_at,
            started_at=now - step.took if earlier is None else earlier.started_at,
            finished_at=now if is_finished else None,
            mark=mark,
            attempt=record.attempt,
            job_id=record.id,
        )

    def _wake_if_answered(self, record: JobRecord, now: datetime) -> bool:
        """Make a parked row due when its open wait has an event; whether it did."""
        if record.state != states.SUSPENDED or record.run_at <= now:
            return False
        waits = (
            step for step in self._steps.get(record.id, {}).values() if step.status == "waiting"
        )
        if not any(self._oldest_answer(wait, now) for wait in waits):
            return False
        self._wake_parked(record, now)
        return True

    def _wake_parked(self, record: JobRecord, now: datetime) -> None:
        record.become_due(now, now)
        self._wakes.send([Wake(record.new.queue)])

    def _oldest_answer(self, wait: StepRow, now: datetime) -> EventRow | None:
        answers = [
            event.row
            for event in self._events
            if event.answers(wait, now) and self._came_after(event, wait)
        ]
        return min(answers, key=lambda row: (row.published_at, row.id), default=None)

    def _came_after(self, event: EventRecord, wait: StepRow) -> bool:
        if wait.mark is None or int(wait.mark) > self._events_published:
            # No mark, or one of a store that this one knows nothing of.
            return event.row.published_at >= wait.started_at
        return event.order > int(wait.mark)
