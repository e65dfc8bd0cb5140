"""A job: about to be inserted, inserted, and whole."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

ConflictPolicy = Literal["existing", "raise"]
"""What an enqueue does when a live job holds its key: answer that job, or refuse."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job about to be inserted.

    Attributes:
        delay: Wait this long by the database's clock; ignored when *run_at* is given.
        run_at: Due at this instant; due now when both are absent.
        tenant_id: The enqueuer's tenant, "" for none; part of the key's namespace and
            of the lane.
        concurrency_key: Second part of the lane, "" for none.
        origin: What caused it, such as ``request``, ``schedule``, ``job`` or ``operator``.
        parent_step: The step of the parent that waits for it; "" when none does.
        family_id: The first child of that step, itself for the first: the children whose
            end the step waits for.
        is_held: Not due until a sibling ends, which makes one held sibling due.
    """

    id: UUID
    name: str
    queue: str
    input: str
    max_attempts: int
    priority: int = 0
    delay: timedelta | None = None
    run_at: datetime | None = None
    tenant_id: str = ""
    idempotency_key: str | None = None
    concurrency_key: str = ""
    enqueued_by: str = ""
    trace_parent: str = ""
    input_preview: str = ""
    origin: str = ""
    origin_id: str = ""
    parent_id: UUID | None = None
    parent_step: str = ""
    family_id: UUID | None = None
    is_held: bool = False
    code_version: str = ""


@dataclass(frozen=True, slots=True)
class Inserted:
    """The answer to one enqueue.

    Attributes:
        id: The new job's id, or that of the live job which holds the key.
        created: False when a live job already held the key.
        due_in: Seconds until it is due by the database's clock; 0 or less is due now.
    """

    id: UUID
    created: bool
    state: str
    queue: str
    due_in: float


@dataclass(frozen=True, slots=True)
class JobRow:
    """A whole job, for people and for ``refresh()``."""

    id: UUID
    name: str
    queue: str
    state: str
    priority: int
    tenant_id: str
    idempotency_key: str | None
    concurrency_key: str
    input: str
    result: str | None
    progress: str | None
    attempt: int
    max_attempts: int
    claims: int
    worker_id: str | None
    lease_expires_at: datetime | None
    run_at: datetime
    last_error: str
    error_code: str
    stop_reason: str
    enqueued_by: str
    trace_parent: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    is_armed: bool
    parent_id: UUID | None = None
    parent_step: str = ""
    code_version: str = ""
    awaited_version: str = ""
    replay_warning: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list shows; every given field must match."""

    queue: str | None = None
    name: str | None = None
    state: str | None = None
    tenant_id: str | None = None
    id_prefix: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
