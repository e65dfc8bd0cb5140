"""What people ask and do."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import psycopg
from django.db import IntegrityError

from django_durable_jobs.clock import shift
from django_durable_jobs.exceptions import (
    JobDuplicate,
    JobNotFound,
    JobNotPromotable,
    JobNotRemovable,
    JobNotRequeueable,
    StepNotFound,
)
from django_durable_jobs.states import REQUEUEABLE_STATES
from django_durable_jobs.store.asked import page_limit
from django_durable_jobs.store.rows import AttemptRow, JobFilter, JobRow, QueueStats, Wake

from .families import Families
from .rowmaps import attempt_row, job_row

_LOOKS: Final = 3
"""How often a requeue is asked for whose job somebody else moved at that moment."""


class Operating(Families):
    """The verbs of operators."""

    def show(self, job_id: UUID) -> JobRow | None:
        rows = self.executor.fetch("show", {"job_id": job_id})
        return job_row(rows[0]) if rows else None

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: UUID | None, before: UUID | None
    ) -> list[JobRow]:
        limit = page_limit(limit, after=after, before=before)
        bounds = _prefix_bounds(where.id_prefix)
        if bounds is None:
            return []
        rows = self.executor.fetch(
            "list_jobs",
            {
                "queue": where.queue,
                "name": where.name,
                "state": where.state,
                "tenant_id": where.tenant_id,
                "id_from": bounds[0],
                "id_to": bounds[1],
                "created_from": where.created_from,
                "created_to": where.created_to,
                "after": after,
                "before": before,
                "limit": limit,
            },
        )
        jobs = [job_row(row) for row in rows]
        return jobs if before is None else jobs[::-1]

    def attempts(self, job_id: UUID) -> list[AttemptRow]:
        return [attempt_row(row) for row in self.executor.fetch("attempts", {"job_id": job_id})]

    def requeue(
        self, job_id: UUID, *, max_attempts: int | None = None, from_step: str | None = None
    ) -> JobRow:
        parameters = {
            "shift": shift(),
            "job_id": job_id,
            "max_attempts": max_attempts,
            "from_step": from_step,
        }
        for _ in range(_LOOKS):
            try:
                with self.executor.transaction():
                    rows = self.executor.fetch("requeue", parameters)
            except (IntegrityError, psycopg.IntegrityError) as error:
                job = self._known(job_id)
                raise JobDuplicate(job.name, self._holder_of(job)) from error
            if rows:
                return job_row(rows[0])
            state = self._known(job_id).state
            if state not in REQUEUEABLE_STATES:
                break
            if from_step is not None:
                stored = [row[0] for row in self.executor.fetch("load_steps", {"job_id": job_id})]
                if from_step not in stored:
                    raise StepNotFound(job_id, from_step, stored)
        raise JobNotRequeueable(job_id, state)

    def cancel(self, job_id: UUID, *, reason: str) -> str | None:
        rows = self.executor.fetch("cancel", {"shift": shift(), "job_id": job_id, "reason": reason})
        self._follow_ends(row[1:4] for row in rows)
        return str(rows[0][0]) if rows else None

    def promote(self, job_id: UUID) -> JobRow:
        rows = self.executor.fetch("promote", {"shift": shift(), "job_id": job_id})
        if not rows:
            raise JobNotPromotable(job_id, self._known(job_id).state)
        return job_row(rows[0])

    def remove(self, job_id: UUID) -> None:
        rows = self.executor.fetch("remove", {"shift": shift(), "job_id": job_id})
        self._follow_ends(row[1:4] for row in rows)
        if not rows:
            raise JobNotRemovable(job_id, self._known(job_id).state, "Cancel it first.")

    def pause_queue(self, queue: str, *, by: str, reason: str) -> None:
        self.executor.fetch(
            "pause_queue", {"shift": shift(), "queue": queue, "by": by, "reason": reason}
        )

    def resume_queue(self, queue: str) -> None:
        if self.executor.fetch("resume_queue", {"queue": queue}):
            self.on_commit(lambda: self.wake([Wake(queue)]))

    def stats(self) -> list[QueueStats]:
        counts: dict[str, dict[str, int]] = {}
        oldest: dict[str, float] = {}
        for queue, state, jobs, age in self.executor.fetch("stats", {"shift": shift()}):
            counts.setdefault(queue, {})[state] = jobs
            if age is not None:
                oldest[queue] = max(age, oldest.get(queue, 0.0), 0.0)
        return [QueueStats(queue, counts[queue], oldest.get(queue)) for queue in counts]

    def version_waits(self) -> dict[tuple[str, str], int]:
        rows = self.executor.fetch("version_waits", {})
        return {(name, version): count for name, version, count in rows}

    def _known(self, job_id: UUID) -> JobRow:
        job = self.show(job_id)
        if job is None:
            raise JobNotFound(job_id)
        return job

    def _holder_of(self, job: JobRow) -> str:
        rows = self.executor.fetch(
            "find_holders",
            {
                "shift": shift(),
                "names": [job.name],
                "tenant_ids": [job.tenant_id],
                "idempotency_keys": [job.idempotency_key],
            },
        )
        return str(rows[0][1]) if rows else "a job that has finished since"


def _prefix_bounds(prefix: str | None) -> tuple[UUID | None, UUID | None] | None:
    """The range of ids that begin with *prefix*; None when no id can."""
    if prefix is None:
        return None, None
    digits = prefix.replace("-", "").lower()
    if len(digits) > 32 or not set(digits) <= set("0123456789abcdef"):
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
