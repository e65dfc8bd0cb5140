"""Enqueue, and the caller's transaction as far as this store has one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from django_durable_jobs import clock, states
from django_durable_jobs.exceptions import JobDuplicate, LeaseLost
from django_durable_jobs.store.rows import ConflictPolicy, Inserted, NewJob, Wake

from .listener import MemoryListener
from .matching import mark_of
from .records import NEVER, JobRecord
from .tables import Tables
from .transaction import Block

logger = logging.getLogger("django_durable_jobs")


class Inserting(Tables):
    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Write the block's checkpoints together at its end, if every fence still holds.

        Not undone: jobs inserted and events published in the block, and whatever its body
        did elsewhere.

        Raises:
            LeaseLost: A claim that the block relied on no longer holds its job; none of its
                checkpoints was written.
        """
        stack = self._blocks.stack
        block = Block()
        stack.append(block)
        try:
            yield
        finally:
            stack.pop()
        if stack:
            stack[-1].absorb(block)
            return
        with self._lock:
            for claim in block.fences:
                if self._held(claim) is None:
                    raise LeaseLost(claim.job_id, "commit")
            for (job_id, name), step in block.steps.items():
                self._steps.setdefault(job_id, {})[name] = step
        for act in block.acts:
            _run_logged(act)

    def in_atomic_block(self) -> bool:
        return bool(self._blocks.stack)

    def on_commit(self, act: Callable[[], object]) -> None:
        if self._blocks.stack:
            self._blocks.stack[-1].acts.append(act)
        else:
            _run_logged(act)

    def insert(self, jobs: Sequence[NewJob], *, on_conflict: ConflictPolicy) -> list[Inserted]:
        with self._lock:
            now = clock.now()
            if on_conflict == "raise":
                self._refuse_held_keys(jobs)
            return [self._insert(job, now) for job in jobs]

    def wake(self, wakes: Sequence[Wake]) -> None:
        self._wakes.send(wakes)

    def listen(self) -> MemoryListener:
        return self._wakes.listen()

    def _refuse_held_keys(self, jobs: Sequence[NewJob]) -> None:
        """Refuse before anything is stored, so that a refusal leaves nothing behind."""
        keys = dict(self._keys)
        for job in jobs:
            if job.idempotency_key is None:
                continue
            holder = keys.setdefault((job.name, job.tenant_id, job.idempotency_key), job.id)
            if holder != job.id:
                raise JobDuplicate(job.name, str(holder))

    def _insert(self, job: NewJob, now: datetime) -> Inserted:
        record = _new_record(job, now)
        record.mark = mark_of(self._events_published, self._blocks.published())
        holder = self._jobs.get(job.id)
        if holder is None and record.key in self._keys:
            holder = self._jobs[self._keys[record.key]]
        if holder is None:
            self._jobs[record.id] = record
            self._enliven(record)
        answer = holder or record
        return Inserted(
            id=answer.id,
            created=holder is None,
            state=answer.state,
            queue=answer.new.queue,
            due_in=(answer.run_at - now).total_seconds(),
        )


def _new_record(job: NewJob, now: datetime) -> JobRecord:
    run_at = NEVER if job.is_held else job.run_at
    if run_at is None:
        run_at = now if job.delay is None else now + job.delay
    is_due = run_at <= now
    return JobRecord(
        new=job,
        state=states.READY if is_due else states.DELAYED,
        run_at=run_at,
        is_armed=is_due,
        created_at=now,
        max_attempts=job.max_attempts,
        code_version=job.code_version,
    )


def _run_logged(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception:
        # The commit stands whatever its announcement did; workers find the job by polling.
        logger.exception("An act after commit failed.")
