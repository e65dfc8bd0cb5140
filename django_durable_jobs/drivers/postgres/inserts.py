"""Enqueue: one row per job, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import Any, Final

import psycopg
from django.db import OperationalError

from django_durable_jobs.clock import shift
from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import JobDuplicate, KeyContended
from django_durable_jobs.store.rows import ConflictPolicy, Inserted, NewJob

from .executor import sqlstate_of
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
        parts = list(_parts(jobs))
        answers: dict[Any, Inserted] = {}
        with self.executor.transaction() if len(parts) > 1 else nullcontext():
            for part in parts:
                answers |= self._insert_or_find(part, on_conflict)
        return [answers[job.id] for job in jobs]

    def _insert(self, jobs: Sequence[NewJob]) -> dict[Any, Inserted]:
        """Insert *jobs*, of one kind; those that meet what is there are left out."""
        parameters = {name: [read(job) for job in jobs] for name, read in _COLUMNS.items()}
        statement = "insert_children" if _is_child(jobs[0]) else "insert"
        rows = self.executor.fetch(statement, {"shift": shift(), **parameters})
        return {row[0]: Inserted(row[0], True, *row[1:]) for row in rows}

    def _insert_keyed(self, jobs: Sequence[NewJob], on_conflict: ConflictPolicy) -> list[Inserted]:
        # In one order everywhere, or two bulks with keys in common could deadlock.
        ordered = sorted(jobs, key=lambda job: (job.name, job.tenant_id, job.idempotency_key or ""))
        answers: dict[Any, Inserted] = {}
        waits = settings.ENQUEUE_LOCK_TIMEOUT
        try:
            # A savepoint inside the user's transaction: what fails here leaves it usable.
            with self.executor.transaction(), self._lock_timeout(waits.total_seconds()):
                for part in _parts(ordered):
                    answers |= self._insert_or_find(part, on_conflict)
        except (OperationalError, psycopg.OperationalError) as error:
            if sqlstate_of(error) in _CONTENDED:
                raise KeyContended(jobs[0].name, waits.total_seconds()) from error
            raise
        return [answers[job.id] for job in jobs]

    def _insert_or_find(
        self, jobs: Sequence[NewJob], on_conflict: ConflictPolicy
    ) -> dict[Any, Inserted]:
        answers = self._insert(jobs)
        missing = [job for job in jobs if job.id not in answers]
        answers |= self._found(missing)
        if on_conflict == "raise":
            for job in missing:
                # A child that is there under its own id holds no key of another.
                if job.id in answers and answers[job.id].id != job.id:
                    raise JobDuplicate(job.name, str(answers[job.id].id))
        # The holder finished between the insert and the look: its key is free now.
        freed = [job for job in missing if job.id not in answers]
        if freed:
            answers |= self._insert(freed)
            answers |= self._found([job for job in freed if job.id not in answers])
            for job in freed:
                if job.id not in answers:
                    raise KeyContended(job.name, 0)
        return answers

    def _found(self, jobs: Sequence[NewJob]) -> dict[Any, Inserted]:
        """What *jobs* met: the children that are there already, the holders of the keys."""
        answers: dict[Any, Inserted] = {}
        ids = [job.id for job in jobs if _is_child(job)]
        if ids:
            rows = self.executor.fetch("find_jobs", {"shift": shift(), "ids": ids})
            answers = {row[0]: Inserted(row[0], False, *row[1:]) for row in rows}
        keyed = [job for job in jobs if job.idempotency_key is not None and job.id not in answers]
        return answers | self._holders(keyed)

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


def _is_child(job: NewJob) -> bool:
    return job.family_id is not None


def _parts(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """Cut *jobs* into what one statement inserts: not too many, and children apart."""
    for _, alike in groupby(jobs, key=_is_child):
        part = list(alike)
        for start in range(0, len(part), ROWS_AT_MOST):
            yield part[start : start + ROWS_AT_MOST]
