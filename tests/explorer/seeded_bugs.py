"""Bugs put into the product on purpose, to see that the explorer finds them on its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from django_durable_jobs import clock
from django_durable_jobs.drivers.postgres import PostgresStore, executor
from django_durable_jobs.drivers.postgres.statements import Statement, load
from django_durable_jobs.steps.execution import Execution
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import NewStep, StepRow

FENCES = {
    "put_step": ("and j.claims = %(claim)s::bigint and j.worker_id = %(worker_id)s\n", "\n"),
    "settle": ("and g.claim = j.claims and g.worker_id = j.worker_id\n", "\n"),
    "settle_children": ("and g.claim = j.claims and g.worker_id = j.worker_id\n", "\n"),
}


@contextmanager
def no_fence(*statements: str) -> Iterator[None]:
    """These statements land whoever holds the job."""

    def unfenced(name: str) -> Statement:
        statement = load(name)
        if name not in statements:
            return statement
        fence, nothing = FENCES[name]
        assert fence in statement.query
        return replace(statement, query=statement.query.replace(fence, nothing))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "load", unfenced)
        yield


@contextmanager
def no_look_after_the_park() -> Iterator[None]:
    """Nobody looks for an event that was published while the run parked."""

    def look_at_nothing(store: PostgresStore, job_ids: Any) -> int:
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresStore, "wake_waiters", look_at_nothing)
        yield


@contextmanager
def no_look_after_the_commit() -> Iterator[None]:
    """Nobody looks for a run that parked while the publisher's transaction was open."""

    def look_at_nothing(store: PostgresStore, event: Any, woken: Any) -> None:
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresStore, "_wake_after_commit", look_at_nothing)
        yield


@contextmanager
def step_after_the_next_one_began() -> Iterator[None]:
    """A step returns before its output is stored: that is written with the next one's."""
    put = Execution.put
    late: dict[UUID, NewStep] = {}

    def put_late(execution: Execution, step: NewStep, *, store: JobStore | None = None) -> StepRow:
        job_id = execution.claimed.identity.job_id
        if earlier := late.pop(job_id, None):
            put(execution, earlier)
        if store is not None or step.output is None or step.event:
            return put(execution, step, store=store)
        late[job_id] = step
        return StepRow(
            name=step.name,
            seq=step.seq,
            status=step.status,
            output=None,
            event="",
            correlation_key=None,
            wake_at=None,
            started_at=clock.now(),
            finished_at=clock.now(),
            mark=None,
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Execution, "put", put_late)
        yield
