"""What people ask of the store."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django_durable_jobs import clock, states
from django_durable_jobs.exceptions import (
    JobDuplicate,
    JobNotFound,
    JobNotPromotable,
    JobNotRemovable,
    JobNotRequeueable,
    StepNotFound,
)
from django_durable_jobs.store.asked import page_limit
from django_durable_jobs.store.rows import AttemptRow, JobFilter, JobRow, QueueStats, Wake

from .copies import copies_of
from .families import Families
from .records import JobRecord


class Operating(Families):
    def show(self, job_id: UUID) -> JobRow | None:
        with self._lock:
            record = self._jobs.get(job_id)
            return None if record is None else record.row()

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: UUID | None, before: UUID | None
    ) -> list[JobRow]:
        limit = page_limit(limit, after=after, before=before)
        with self._lock:
            # Ids grow with time, and a cursor whose job is gone still says where to go on.
            newest_first = sorted(
                (
                    record
                    for record in self._jobs.values()
                    if _matches(record, where)
                    and (after is None or record.id < after)
                    and (before is None or record.id > before)
                ),
                key=lambda record: record.id,
                reverse=True,
            )
            if before is not None:
                # Those next to the cursor, not the newest of all.
                newest_first = newest_first[max(len(newest_first) - limit, 0) :]
            return [record.row() for record in newest_first[:limit]]

    def attempts(self, job_id: UUID) -> list[AttemptRow]:
        with self._lock:
            return sorted(
                self._attempts.get(job_id, []), key=lambda attempt: attempt.claim, reverse=True
            )

    def requeue(
        self, job_id: UUID, *, max_attempts: int | None = None, from_step: str | None = None
    ) -> JobRow:
        with self._lock:
            record = self._known(job_id)
            if record.state not in states.REQUEUEABLE_STATES:
                raise JobNotRequeueable(job_id, record.state)
            holder = None if record.key is None else self._keys.get(record.key)
            if holder is not None:
                raise JobDuplicate(record.new.name, str(holder))
            now = clock.now()
            if from_step is not None:
                self._take_back(record, from_step, now)
            record.state = states.READY
            record.become_due(now, now)
            record.attempt = 0
            if max_attempts is not None:
                record.max_attempts = max_attempts
            record.result = record.unknown_since = record.finished_at = None
            record.last_error = record.stop_reason = record.awaited_version = ""
            record.error_code = record.error_class = ""
            self._enliven(record)
            self._wakes.send([Wake(record.new.queue)])
            return record.row()

    def cancel(self, job_id: UUID, *, reason: str) -> str | None:
        with self._lock:
            record = self._live.get(job_id)
            if record is None:
                return None
            former = record.state
            record.stop_reason = reason
            self._finish(record, states.CANCELLED, clock.now())
            return former

    def promote(self, job_id: UUID) -> JobRow:
        with self._lock:
            record = self._known(job_id)
            now = clock.now()
            is_backing_off = record.state == states.READY and record.run_at > now
            if record.state != states.DELAYED and not is_backing_off:
                raise JobNotPromotable(job_id, record.state)
            record.state = states.READY
            record.become_due(now, now)
            self._wakes.send([Wake(record.new.queue)])
            return record.row()

    def remove(self, job_id: UUID) -> None:
        with self._lock:
            record = self._known(job_id)
            if record.state not in states.REMOVABLE_STATES:
                raise JobNotRemovable(job_id, record.state, "Cancel it first.")
            was_live, was_held = job_id in self._live, record.is_held()
            self._forget_live(record)
            del self._jobs[job_id]
            self._steps.pop(job_id, None)
            self._attempts.pop(job_id, None)
            if was_live:
                self._end_child(record, clock.now(), was_held=was_held)

    def pause_queue(self, queue: str, *, by: str, reason: str) -> None:
        with self._lock:
            self._paused.add(queue)

    def resume_queue(self, queue: str) -> None:
        with self._lock:
            if queue in self._paused:
                self._paused.remove(queue)
                self._wakes.send([Wake(queue)])

    def stats(self) -> list[QueueStats]:
        with self._lock:
            now = clock.now()
            counts: dict[str, Counter[str]] = {}
            oldest: dict[str, datetime] = {}
            for record in self._jobs.values():
                if record.state in (states.DONE, states.CANCELLED):
                    continue
                queue = record.new.queue
                counts.setdefault(queue, Counter())[record.state] += 1
                if record.is_waiting() and record.run_at <= now:
                    oldest[queue] = min(record.run_at, oldest.get(queue, record.run_at))
            return [
                QueueStats(
                    queue,
                    dict(counts[queue]),
                    (now - oldest[queue]).total_seconds() if queue in oldest else None,
                )
                for queue in sorted(counts)
            ]

    def version_waits(self) -> dict[tuple[str, str], int]:
        with self._lock:
            waiting = Counter(
                (record.new.name, record.awaited_version)
                for record in self._live.values()
                if record.awaited_version and record.state == states.READY
            )
            return dict(sorted(waiting.items()))

    def _take_back(self, record: JobRecord, from_step: str, now: datetime) -> None:
        """Move this step and the later ones to the attempt of the last claim."""
        stored = sorted(
            self._steps.get(record.id, {}).values(),
            key=lambda step: (step.seq, step.started_at, step.name),
        )
        names = [step.name for step in stored]
        if from_step not in names:
            raise StepNotFound(record.id, from_step, names)
        first = stored[names.index(from_step)].seq
        taken = [step for step in stored if step.seq >= first]
        for step in taken:
            del self._steps[record.id][step.name]
        record.generation += 1
        attempts = self._attempts.setdefault(record.id, [])
        if not any(attempt.claim == record.claims for attempt in attempts):
            self._remember_attempt(record, "requeued", now, message="")
        self._attempts[record.id] = [
            replace(attempt, steps=copies_of(taken, after=attempt.steps))
            if attempt.claim == record.claims
            else attempt
            for attempt in attempts
        ]

    def _known(self, job_id: UUID) -> JobRecord:
        record = self._jobs.get(job_id)
        if record is None:
            raise JobNotFound(job_id)
        return record


def _matches(record: JobRecord, where: JobFilter) -> bool:
    exact = (
        (where.queue, record.new.queue),
        (where.name, record.new.name),
        (where.state, record.state),
        (where.tenant_id, record.new.tenant_id),
    )
    return (
        all(wanted is None or wanted == found for wanted, found in exact)
        and (where.id_prefix is None or str(record.id).startswith(where.id_prefix))
        and (where.created_from is None or where.created_from <= record.created_at)
        and (where.created_to is None or record.created_at < where.created_to)
    )
