"""Enqueue: one row per job, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg
from django.db import OperationalError

from django_durable_jobs.clock import shift
from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import JobDuplicate, KeyContended
from django_durable_jobs.store.rows import ConflictPolicy, Inserted, NewJob

from .session import Session

ROWS_AT_MOST: Final = 5_000
"""Rows of one insert statement."""

# 55P03 lock_not_available, 40P01 deadlock_detected
_CONTENDED: Final = ("55P03", "40P01")

_COLUMNS: Final[dict[str, Callable[[NewJob], Any]]] = {
    "ids": lambda job: job.id,
    "names": lambda job: job.name,
    "queues": lambda job: job.queue,
    "priorities": lambda job: job.priority,
    "tenant_ids": lambda job: job.tenant_id,
    "concurrency_keys": lambda job: job.concurrency_key,
    "idempotency_keys": lambda job: job.idempotency_key,
    "delays": lambda job: job.delay,
    "run_ats": lambda job: job.run_at,
    "max_attempts": lambda job: job.max_attempts,
    "inputs": lambda job: job.input,
    "input_previews": lambda job: job.input_preview,
    "enqueued_bys": lambda job: job.enqueued_by,
    "trace_parents": lambda job: job.trace_parent,
    "origins": lambda job: job.origin,
    "origin_ids": lambda job: job.origin_id,
    "parent_ids": lambda job: job.parent_id,
    "parent_steps": lambda job: job.parent_step,
    "family_ids": lambda job: job.family_id,
    "are_held": lambda job: job.is_held,
    "code_versions": lambda job: job.code_version,
}


class Inserts(Session):
    """The enqueue's verb."""

    def insert(self, jobs: Sequence[NewJob], *, on_conflict: ConflictPolicy) -> list[Inserted]:
        if any(job.idempotency_key is not None for job in jobs):
            return self._insert_keyed(jobs, on_conflict)
        if len(jobs) <= ROWS_AT_MOST:
            answers = self._insert(jobs)
        else:
            answers = {}
            with self.executor.transaction():
                for start in range(0, len(jobs), ROWS_AT_MOST):
                    answers |= self._insert(jobs[start : start + ROWS_AT_MOST])
        return [answers[job.id] for job in jobs]

    def _insert(self, jobs: Sequence[NewJob]) -> dict[Any, Inserted]:
        parameters = {name: [read(job) for job in jobs] for name, read in _COLUMNS.items()}
        rows = self.executor.fetch("insert", {"shift": shift(), **parameters})
        return {row[0]: Inserted(row[0], True, *row[1:]) for row in rows}

    def _insert_keyed(self, jobs: Sequence[NewJob], on_conflict: ConflictPolicy) -> list[Inserted]:
        # In one order everywhere, or two bulks with keys in common could deadlock.
        ordered = sorted(jobs, key=lambda job: (job.name, job.tenant_id, job.idempotency_key or ""))
        answers: dict[Any, Inserted] = {}
        waits = settings.ENQUEUE_LOCK_TIMEOUT
        try:
            # A savepoint inside the user's transaction: what fails here leaves it usable.
            with self.executor.transaction(), self._lock_timeout(waits.total_seconds()):
                for start in range(0, len(ordered), ROWS_AT_MOST):
                    chunk = ordered[start : start + ROWS_AT_MOST]
                    answers |= self._insert_or_find(chunk, on_conflict)
        except (OperationalError, psycopg.OperationalError) as error:
            if _sqlstate(error) in _CONTENDED:
                raise KeyContended(jobs[0].name, waits.total_seconds()) from error
            raise
        return [answers[job.id] for job in jobs]

    def _insert_or_find(
        self, jobs: Sequence[NewJob], on_conflict: ConflictPolicy
    ) -> dict[Any, Inserted]:
        answers = self._insert(jobs)
        missing = [job for job in jobs if job.id not in answers]
        if missing:
            answers |= self._holders(missing)
        if on_conflict == "raise":
            for job in missing:
                if job.id in answers:
                    raise JobDuplicate(job.name, str(answers[job.id].id))
        # The holder finished between the insert and the look: its key is free now.
        freed = [job for job in missing if job.id not in answers]
        if freed:
            answers |= self._insert(freed)
            answers |= self._holders([job for job in freed if job.id not in answers])
            for job in freed:
                if job.id not in answers:
                    raise KeyContended(job.name, 0)
        return answers

    def _holders(self, jobs: Sequence[NewJob]) -> dict[Any, Inserted]:
        if not jobs:
            return {}
        rows = self.executor.fetch(
            "find_holders",
            {
                "shift": shift(),
                "names": [job.name for job in jobs],
                "tenant_ids": [job.tenant_id for job in jobs],
                "idempotency_keys": [job.idempotency_key for job in jobs],
            },
        )
        return {jobs[row[0] - 1].id: Inserted(row[1], False, *row[2:]) for row in rows}


def _sqlstate(error: BaseException) -> str:
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    return getattr(cause, "sqlstate", None) or ""
