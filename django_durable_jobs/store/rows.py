"""The frozen values that cross the store's port.

Payloads cross as JSON text (``input``, ``result``, ``output``): what a body sees is
always the decoded text, never the object that was handed in. Times are aware
datetimes; durations are ``timedelta``.
"""

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


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt did not end well; kept in the attempt's history.

    Attributes:
        code: Stable error code, "" when the exception has none.
        error_class: Qualified class name, as text; never rebuilt into a class.
        fingerprint: Same for failures that look alike, to group by.
    """

    code: str
    error_class: str
    message: str
    traceback: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of one attempt, as one fenced transition.

    Attributes:
        state: ``done``, ``ready``, ``suspended``, ``dead`` or ``failed``.
        delay: For ``ready`` and ``suspended``: due after this long, by the database's clock.
        run_at: The same as an instant; wins over *delay*.
        give_back: The attempt is not counted.
        result: JSON text, for ``done``.
        stop_reason: Why nothing more will happen, for the final states.
        unknown_name: The worker did not know the name; the row remembers since when.
        waits: The suspended run has an open wait for an event.
        calls: The suspended run waits for children.
        steps: Names of the steps in which it waits; empty for all that it has open. Changed
            code may never come back to an open one, which then must not end its waits.
        code_version: Declared by the code that ran the attempt; None leaves what is stored.
        awaited_version: For ``ready``: the run goes on only under this version of its code;
            the row remembers since when.
        replay_warning: How the run differs from the steps it had stored; None leaves what
            is stored.
    """

    identity: ClaimIdentity
    state: str
    delay: timedelta | None = None
    run_at: datetime | None = None
    give_back: bool = False
    result: str | None = None
    failure: Failure | None = None
    stop_reason: str = ""
    unknown_name: bool = False
    waits: bool = False
    calls: bool = False
    steps: tuple[str, ...] = ()
    code_version: str | None = None
    awaited_version: str = ""
    replay_warning: str | None = None


StepStatus = Literal["done", "sleeping", "waiting", "calling", "timed_out", "failed"]
"""``sleeping``, ``waiting`` and ``calling`` are open; the others are final."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """An event that a wait takes: of this name, and of this key unless it is None."""

    event: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a wait has refused what it found. Compared, never looked up.

    Attributes:
        at, id: The pair of the last refused event; what is not after it is refused.
        mark: The snapshot of the search that found it: an event behind the pair that was
            not visible there is still owed, unless it is one of *refused*.
        refused: Ids of events refused behind the pair.
    """

    at: datetime
    id: UUID
    mark: str | None
    refused: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class NewStep:
    """A checkpoint about to be written under the fence.

    Attributes:
        seq: Place of the step in this execution, from 1.
        output: JSON text, for ``done`` and ``failed``.
        alternatives: Further events that end the wait.
        since_run: The wait takes also what was committed after the job's enqueue.
        cursor: What the open wait has refused; None leaves what is stored.
        family_id: For ``calling``: its first child.
        children: For ``calling``: how many.
        children_at_once: For ``calling``: how many run side by side; None for all.
        wait: For ``sleeping`` until the wake, for ``waiting`` until the timeout; the store
            stamps the instant. None waits for ever.
        until: The same as an instant; wins over *wait*.
        took: How long its function ran, by the process's own measure; sets when it started.
    """

    name: str
    seq: int
    status: StepStatus
    output: str | None = None
    event: str = ""
    correlation_key: str | None = None
    wait: timedelta | None = None
    until: datetime | None = None
    took: timedelta = timedelta(0)
    alternatives: tuple[EventFilter, ...] = ()
    since_run: bool = False
    cursor: Cursor | None = None
    family_id: UUID | None = None
    children: int | None = None
    children_at_once: int | None = None


@dataclass(frozen=True, slots=True)
class StepRow:
    """A stored checkpoint.

    Attributes:
        wake_at: When a sleep ends or a wait times out; None is never.
        started_at: When it was first reached, by the database's clock. Of a wait that counts
            from the enqueue it is the time of that.
        mark: The snapshot a wait began under, or that of the enqueue; opaque text of the
            driver.
    """

    name: str
    seq: int
    status: StepStatus
    output: str | None
    event: str
    correlation_key: str | None
    wake_at: datetime | None
    started_at: datetime
    finished_at: datetime | None
    mark: str | None
    attempt: int = 0
    alternatives: tuple[EventFilter, ...] = ()
    cursor: Cursor | None = None
    family_id: UUID | None = None
    children: int | None = None
    children_at_once: int | None = None
    job_id: UUID | None = None

    @property
    def is_open(self) -> bool:
        """Whether the run still waits in it."""
        return self.finished_at is None

    @property
    def filters(self) -> tuple[EventFilter, ...]:
        """Every event that ends the wait."""
        return (EventFilter(self.event, self.correlation_key), *self.alternatives)


@dataclass(frozen=True, slots=True)
class EventRow:
    """A published event.

    Attributes:
        mark: The snapshot of the search that found it; None outside a search.
    """

    id: UUID
    name: str
    correlation_key: str | None
    payload: str
    published_at: datetime
    job_id: UUID | None = None
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class ChildRow:
    """What became of a child, as far as its parent needs it.

    Attributes:
        state: Final, or one of the live states.
        result: JSON text of a ``done`` child.
        message: Why it was given up; its reason when it was cancelled.
    """

    id: UUID
    name: str
    state: str
    result: str | None
    code: str
    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One try that did not end ``done``, or whose steps were taken back later.

    Attributes:
        steps: JSON text: the steps that a requeue from a step took back, in order.
    """

    claim: int
    attempt: int
    outcome: str
    code: str
    error_class: str
    message: str
    traceback: str
    worker_id: str
    started_at: datetime | None
    finished_at: datetime
    steps: str | None = None


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


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Depth of one queue; each row counts in exactly one state.

    Attributes:
        counts: State to number of jobs, for all but ``done`` and ``cancelled``.
        oldest_ready_seconds: Age of the oldest due job, None when none is due.
    """

    queue: str
    counts: dict[str, int]
    oldest_ready_seconds: float | None


@dataclass(frozen=True, slots=True)
class Probe:
    """What waits, asked in one statement.

    Attributes:
        queues: Those of the asked queues that hold a job to claim now.
        due_in: Seconds until the next waiting job falls due; None when none waits.
        lapse_in: Seconds until the next lease lapses unless renewed; None when none runs.
    """

    queues: frozenset[str]
    due_in: float | None
    lapse_in: float | None


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A sign of life of one worker process."""

    worker_id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    version: str


@dataclass(frozen=True, slots=True)
class Wake:
    """A queue got work, due in so many seconds (0 is now)."""

    queue: str
    due_in: float = 0.0
