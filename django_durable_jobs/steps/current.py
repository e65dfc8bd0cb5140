"""Which job's body is running here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

_current: ContextVar[UUID | None] = ContextVar("durable_jobs_current_job", default=None)


def current_job_id() -> UUID | None:
    """Id of the job whose body the caller runs in; None outside one."""
    return _current.get()


@contextmanager
def running(job_id: UUID) -> Iterator[None]:
    """Mark what is called inside as the body of this job."""
    token = _current.set(job_id)
    try:
        yield
    finally:
        _current.reset(token)
