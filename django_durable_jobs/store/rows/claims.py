"""Who holds which job, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class ClaimIdentity:
    """Which claim of which job by which worker: the fence of every write.

    ``claim`` counts a job's claims and is never reset, so a worker's earlier body
    cannot settle the same worker's later claim.
    """

    job_id: UUID
    worker_id: str
    claim: int


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """How many jobs a claim may take from one queue."""

    queue: str
    count: int


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job held under a lease by this worker.

    Attributes:
        attempt: Number of this try, counted at the claim; 1 on the first.
        claimed_at: The database's time of the claim.
        unknown_since: When a worker first did not know its name, or first gave it back for
            the version that it awaits.
        code_version: Declared by the code that ran it last, or else enqueued it.
        generation: How often it was requeued from one of its steps.
        awaited_version: The version it was given back for last; "" when it was not.
    """

    identity: ClaimIdentity
    name: str
    queue: str
    input: str
    attempt: int
    max_attempts: int
    tenant_id: str
    enqueued_by: str
    trace_parent: str
    created_at: datetime
    claimed_at: datetime
    unknown_since: datetime | None
    code_version: str = ""
    generation: int = 0
    awaited_version: str = ""

    @property
    def may_have_steps(self) -> bool:
        """Whether an earlier claim could have stored steps."""
        return self.identity.claim > 1


@dataclass(frozen=True, slots=True)
class BuriedJob:
    """A job whose lease lapsed on its final attempt; settled by the statement that found it."""

    id: UUID
    name: str
    queue: str
    state: str
    input: str
    attempt: int
    max_attempts: int
    tenant_id: str
    error: str


@dataclass(frozen=True, slots=True)
class Rescued:
    """What one rescue found: lapsed jobs taken again, and those buried."""

    claimed: tuple[ClaimedJob, ...]
    buried: tuple[BuriedJob, ...]


@dataclass(frozen=True, slots=True)
class Renewal:
    """The answer to a renewal. A claim in neither set was locked: ask again next tick."""

    held: frozenset[ClaimIdentity]
    lost: frozenset[ClaimIdentity]
