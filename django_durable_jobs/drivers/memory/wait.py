"""Checkpoints, and the events that parked runs wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django_durable_jobs import clock, states
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.store.asked import steps_of
from django_durable_jobs.store.rows import ClaimIdentity, EventRow, NewStep, StepRow

from .families import Families
from .matching import ends, mark_of, to_millisecond
from .records import EventRecord, JobRecord


class Waiting(Families):
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
            # No supervisor serves this store, so nobody else would.
            self._events = [event for event in self._events if event.expires_at > now]
            self._events_published += 1
            row = EventRow(event_id, name, key, payload, to_millisecond(now), job_id)
            event = EventRecord(row, self._events_published, now + ttl)
            self._events.append(event)
            if self._blocks.stack:
                self._blocks.stack[-1].published.add(event.order)
            for record in list(self._live.values()):
                self._wake_if_answered(record, now, [event])

    def find_event(self, wait: StepRow) -> EventRow | None:
        with self._lock:
            oldest = min(
                self._answers(wait, clock.now()),
                key=lambda row: (row.published_at, row.id),
                default=None,
            )
            return oldest and replace(oldest, mark=mark_of(self._events_published))

    def wake_waiters(self, job_ids: Collection[UUID]) -> int:
        with self._lock:
            now = clock.now()
            steps = steps_of(job_ids)
            parked = [self._live[job_id] for job_id in steps if job_id in self._live]
            return sum(
                self._wake_if_answered(record, now, names=steps[record.id]) for record in parked
            )

    def wake_missed(self, *, limit: int) -> int:
        with self._lock:
            now = clock.now()
            woken = 0
            for job_id in sorted(self._live):
                if woken >= limit:
                    break
                woken += self._wake_if_answered(self._live[job_id], now)
            return woken + self._wake_missed_parents(limit - woken)

    def set_waits_aside(self, *, limit: int) -> int:
        # A publisher looks at the waits of live jobs alone.
        return 0

    def purge_events(self, *, limit: int) -> int:
        with self._lock:
            now = clock.now()
            expired = [event for event in self._events if event.expires_at <= now]
            oldest_first = sorted(expired, key=lambda event: event.expires_at)
            gone = {event.order for event in oldest_first[:limit]}
            self._events = [event for event in self._events if event.order not in gone]
            return len(gone)

    def now(self) -> datetime:
        return clock.now()

    def _checkpoint(
        self, step: NewStep, earlier: StepRow | None, record: JobRecord, now: datetime
    ) -> StepRow:
        """The row as it will stand; what was first written about it stays."""
        is_final = step.status in ("done", "timed_out", "failed")
        if earlier is None:
            return self._begun(step, record, now, is_final=is_final)
        if not earlier.is_open:
            return earlier
        if is_final:
            return replace(
                earlier,
                status=step.status,
                output=step.output,
                finished_at=now,
                attempt=record.attempt,
                cursor=step.cursor or earlier.cursor,
            )
        if earlier.status == step.status == "waiting" and step.cursor is not None:
            return replace(earlier, cursor=step.cursor)
        return earlier

    def _begun(self, step: NewStep, record: JobRecord, now: datetime, *, is_final: bool) -> StepRow:
        wake_at = step.until
        if wake_at is None and step.wait is not None:
            wake_at = now + step.wait
        mark = None
        if step.status == "waiting":
            mark = record.mark if step.since_run else mark_of(self._events_published)
        return StepRow(
            name=step.name,
            seq=step.seq,
            status=step.status,
            output=step.output,
            event=step.event,
            correlation_key=step.correlation_key,
            wake_at=wake_at,
            started_at=record.created_at if step.since_run else now - step.took,
            finished_at=now if is_final else None,
            mark=mark,
            attempt=record.attempt,
            alternatives=step.alternatives,
            cursor=step.cursor,
            family_id=step.family_id,
            children=step.children,
            children_at_once=step.children_at_once,
            job_id=record.id,
        )

    def _wake_if_answered(
        self,
        record: JobRecord,
        now: datetime,
        events: Iterable[EventRecord] | None = None,
        *,
        names: Collection[str] = (),
    ) -> bool:
        """Make a parked row due when one of *events* ends its open wait; whether it did.

        Args:
            events: All that there are, if omitted.
            names: The steps to look at; all if empty.
        """
        if record.state != states.SUSPENDED or record.is_armed:
            return False
        waits = [
            step
            for step in self._steps.get(record.id, {}).values()
            if step.status == "waiting" and (not names or step.name in names)
        ]
        if not any(self._answers(wait, now, events) for wait in waits):
            return False
        self._wake_parked(record, now)
        return True

    def _answers(
        self, wait: StepRow, now: datetime, events: Iterable[EventRecord] | None = None
    ) -> list[EventRow]:
        """Those of *events* that end *wait*."""
        return [
            event.row
            for event in (self._events if events is None else events)
            if ends(event, wait, now, self._events_published)
        ]
