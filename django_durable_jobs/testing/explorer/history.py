"""What bodies did, written through a connection of their own to tables the product knows not.

A note is committed the moment it is written, whatever becomes of the run, its transaction
or its process. So the history holds what happened and not what a transaction kept.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connections

from django_durable_jobs.conf import settings
from django_durable_jobs.steps import TimedSteps
from django_durable_jobs.steps.asynchronous import AsyncTimedSteps
from django_durable_jobs.steps.current import current_job_id
from django_durable_jobs.steps.execution import Execution

from .observer import Observer, own_observer

CALLED: Final = "called"
RETURNED: Final = "returned"

TABLES: Final = """
create table if not exists explorer_history (
  id bigserial primary key,
  job_id uuid,
  job text not null default '',
  claim bigint not null default 0,
  act text not null,
  step text not null,
  is_stored boolean not null default false,
  at timestamptz not null default clock_timestamp());
create table if not exists explorer_effects (
  id bigserial primary key,
  job_id uuid,
  effect text not null);
"""


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the history.

    Attributes:
        act: ``called``: a step called its function. ``returned``: the step's verb returned to
            the body. Anything else a body wrote itself with ``note``.
        is_stored: Whether the step was committed as done at that moment.
    """

    job_id: UUID | None
    job: str
    claim: int
    act: str
    step: str
    is_stored: bool

    def __str__(self) -> str:
        tail = " (its checkpoint was committed)" if self.act == CALLED and self.is_stored else ""
        return f"{self.job} {self.job_id} claim {self.claim}: {self.act} {self.step}{tail}"


def note(act: str, step: str = "") -> None:
    """Write a line into the history, from a body or from a step's function.

    It stays, also when the transaction that is open there rolls back.
    """
    _write(own_observer(), current_job_id(), "", 0, act, step)


def effect(name: str) -> None:
    """Leave an effect in the caller's transaction, on Django's connection.

    Called by the function of an atomic step, it must be there exactly once in the end.
    """
    with connections[settings.DATABASE].cursor() as cursor:
        cursor.execute(
            "insert into explorer_effects (job_id, effect) values (%s, %s)",
            [current_job_id(), name],
        )


def read_history(observer: Observer) -> list[Note]:
    """All notes, in the order they were written."""
    rows = observer.ask(
        "select job_id, job, claim, act, step, is_stored from explorer_history order by id"
    )
    return [Note(*row) for row in rows]


@contextmanager
def noted_steps() -> Iterator[None]:
    """Have every step write into the history when it calls its function and when it returns."""
    sync_run, sync_atomic, async_run = TimedSteps.run, TimedSteps.atomic, AsyncTimedSteps.run
    TimedSteps.run = _noted(sync_run)  # type: ignore[method-assign]  # put back below
    TimedSteps.atomic = _noted(sync_atomic)  # type: ignore[method-assign]  # put back below
    AsyncTimedSteps.run = _noted_async(async_run)  # type: ignore[method-assign]  # put back below
    try:
        yield
    finally:
        TimedSteps.run, TimedSteps.atomic = sync_run, sync_atomic  # type: ignore[method-assign]  # as it was
        AsyncTimedSteps.run = async_run  # type: ignore[method-assign]  # as it was


def _noted(verb: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(verb)
    def noted(steps: TimedSteps, name: str, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        value = verb(steps, name, _noting(steps._execution, name, fn), *args, **kwargs)
        _note_step(steps._execution, RETURNED, name)
        return value

    return noted


def _noted_async(verb: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(verb)
    async def noted(
        steps: AsyncTimedSteps, name: str, fn: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        value = await verb(steps, name, _noting(steps._execution, name, fn), *args, **kwargs)
        _note_step(steps._execution, RETURNED, name)
        return value

    return noted


def _noting(execution: Execution, name: str, fn: Any) -> Any:
    """*fn*, which notes that it was called; whatever else was given, for the verb to refuse."""
    if not callable(fn):
        return fn

    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def noting_async(*args: Any, **kwargs: Any) -> Any:
            _note_step(execution, CALLED, name)
            return await fn(*args, **kwargs)

        return noting_async

    @functools.wraps(fn)
    def noting(*args: Any, **kwargs: Any) -> Any:
        _note_step(execution, CALLED, name)
        return fn(*args, **kwargs)

    return noting


def _note_step(execution: Execution, act: str, name: str) -> None:
    if not execution.recorded:
        return
    identity = execution.claimed.identity
    _write(own_observer(), identity.job_id, execution.claimed.name, identity.claim, act, name)


def _write(
    observer: Observer, job_id: UUID | None, job: str, claim: int, act: str, step: str
) -> None:
    observer.ask(
        "insert into explorer_history (job_id, job, claim, act, step, is_stored)"
        " select %(job_id)s, %(job)s, %(claim)s, %(act)s, %(step)s, exists (select"
        " from x_job_steps where job_id = %(job_id)s and name = %(step)s and status = 'done')",
        {"job_id": job_id, "job": job, "claim": claim, "act": act, "step": step},
    )


__all__ = ["CALLED", "RETURNED", "TABLES", "Note", "effect", "note", "noted_steps", "read_history"]
