"""The rows as they are kept: changed only under the store's lock, copied out frozen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django_durable_jobs import states
from django_durable_jobs.store.rows import (
    BuriedJob,
    ChildRow,
    ClaimedJob,
    ClaimIdentity,
    EventRow,
    JobRow,
    NewJob,
)

NEVER: Final = datetime.max.replace(tzinfo=UTC)
"""Due time of a run that is parked without an end."""


@dataclass(slots=True)
class JobRecord:
    """One job: what its enqueue decided (``new``) and what happened since.

    Attributes:
        mark: Which events were there at its enqueue, for waits that count from then.
    """

    new: NewJob
    state: str
    run_at: datetime
    is_armed: bool
    created_at: datetime
    max_attempts: int
    attempt: int = 0
    claims: int = 0
    worker_id: str | None = None
    lease_expires_at: datetime | None = None
    unknown_since: datetime | None = None
    result: str | None = None
    progress: str | None = None
    last_error: str = ""
    error_code: str = ""
    error_class: str = ""
    stop_reason: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    code_version: str = ""
    awaited_version: str = ""
    replay_warning: str = ""
    generation: int = 0
    mark: str = "0"

    @property
    def id(self) -> UUID:
        return self.new.id

    @property
    def key(self) -> tuple[str, str, str] | None:
        """What at most one live job may hold; None for a job without a key."""
        if self.new.idempotency_key is None:
            return None
        return (self.new.name, self.new.tenant_id, self.new.idempotency_key)

    @property
    def identity(self) -> ClaimIdentity:
        return ClaimIdentity(self.id, self.worker_id or "", self.claims)

    def is_held(self) -> bool:
        """Whether only the end of a sibling makes it due."""
        return self.state == states.DELAYED and self.run_at == NEVER

    def is_waiting(self) -> bool:
        return self.state in states.WAITING_STATES

    def is_held_by(self, claim: ClaimIdentity) -> bool:
        """The fence: running, this worker, this claim. The lease's time is no part of it."""
        return (
            self.state == states.RUNNING
            and self.worker_id == claim.worker_id
            and self.claims == claim.claim
        )

    def has_lapsed(self, now: datetime) -> bool:
        return (
            self.state == states.RUNNING
            and self.lease_expires_at is not None
            and self.lease_expires_at <= now
        )

    def take(self, worker_id: str, now: datetime, lease: timedelta) -> ClaimedJob:
        """Hold the row for *worker_id* under a new claim."""
        self.state = states.RUNNING
        self.is_armed = False
        self.attempt += 1
        self.claims += 1
        self.worker_id = worker_id
        self.lease_expires_at = now + lease
        self.started_at = now
        return ClaimedJob(
            identity=self.identity,
            name=self.new.name,
            queue=self.new.queue,
            input=self.new.input,
            attempt=self.attempt,
            max_attempts=self.max_attempts,
            tenant_id=self.new.tenant_id,
            enqueued_by=self.new.enqueued_by,
            trace_parent=self.new.trace_parent,
            created_at=self.created_at,
            claimed_at=now,
            unknown_since=self.unknown_since,
            code_version=self.code_version,
            generation=self.generation,
            awaited_version=self.awaited_version,
        )

    def become_due(self, run_at: datetime, now: datetime) -> None:
        self.run_at = run_at
        self.is_armed = run_at <= now

    def buried(self) -> BuriedJob:
        return BuriedJob(
            id=self.id,
            name=self.new.name,
            queue=self.new.queue,
            state=self.state,
            input=self.new.input,
            attempt=self.attempt,
            max_attempts=self.max_attempts,
            tenant_id=self.new.tenant_id,
            error=self.last_error,
        )

    def child_row(self) -> ChildRow:
        is_cancelled = self.state == states.CANCELLED
        return ChildRow(
            id=self.id,
            name=self.new.name,
            state=self.state,
            result=self.result,
            code=self.error_code,
            error_class=self.error_class,
            message=self.stop_reason if is_cancelled else self.last_error,
        )

    def row(self) -> JobRow:
        return JobRow(
            id=self.id,
            name=self.new.name,
            queue=self.new.queue,
            state=self.state,
            priority=self.new.priority,
            tenant_id=self.new.tenant_id,
            idempotency_key=self.new.idempotency_key,
            concurrency_key=self.new.concurrency_key,
            input=self.new.input,
            result=self.result,
            progress=self.progress,
            attempt=self.attempt,
            max_attempts=self.max_attempts,
            claims=self.claims,
            worker_id=self.worker_id,
            lease_expires_at=self.lease_expires_at,
            run_at=self.run_at,
            last_error=self.last_error,
            error_code=self.error_code,
            stop_reason=self.stop_reason,
            enqueued_by=self.new.enqueued_by,
            trace_parent=self.new.trace_parent,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            is_armed=self.is_armed,
            parent_id=self.new.parent_id,
            parent_step=self.new.parent_step,
            code_version=self.code_version,
            awaited_version=self.awaited_version,
            replay_warning=self.replay_warning,
            generation=self.generation,
        )


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A published event.

    Attributes:
        order: Its place among all events of this store. A wait remembers the last place
            before it began, as PostgreSQL's wait remembers its snapshot.
    """

    row: EventRow
    order: int
    expires_at: datetime
