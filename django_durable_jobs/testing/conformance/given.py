"""Where a test starts from: jobs enqueued, claimed, parked or settled, in one line each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from django_durable_jobs import clock as moved_clock
from django_durable_jobs import states
from django_durable_jobs.events.cursor import refuse
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.ids import family_id, new_id, sibling_id
from django_durable_jobs.store.rows import (
    AttemptRow,
    ClaimedJob,
    ClaimIdentity,
    EventRow,
    Failure,
    Inserted,
    JobFilter,
    JobRow,
    NewJob,
    NewStep,
    QueueDemand,
    Settlement,
    StepRow,
)

T = TypeVar("T")

LEASE: Final = timedelta(seconds=60)
TTL: Final = timedelta(days=7)
BOOM: Final = Failure("X_BOOM", "shop.Boom", "The gateway is away.", "Traceback …", "f1")


class Clock:
    """Moves the store's time; nothing sleeps."""

    def advance(self, **parts: float) -> None:
        """``clock.advance(seconds=31)``: any keywords of ``timedelta``."""
        moved_clock.move(timedelta(**parts))


@dataclass(frozen=True)
class Everything:
    """All that the store remembers of one job; equal before and after a write that did nothing."""

    job: JobRow | None
    steps: list[StepRow]
    attempts: list[AttemptRow]


@dataclass(frozen=True)
class Family:
    """A parent's claim, the step in which it waits, and its children in order."""

    parent: ClaimIdentity
    step: str
    ids: list[UUID]


def new_job(**options: Any) -> NewJob:
    """A job named ``shop.pay`` in queue ``default``, due now, with three attempts."""
    plain: dict[str, Any] = {
        "id": new_id(),
        "name": "shop.pay",
        "queue": "default",
        "input": '{"order": 7}',
        "max_attempts": 3,
    }
    return NewJob(**{**plain, **options})


def enqueue(store: JobStore, **options: Any) -> UUID:
    return insert(store, new_job(**options))[0].id


def insert(store: JobStore, *jobs: NewJob) -> list[Inserted]:
    return store.insert(jobs, on_conflict="existing")


def claim(
    store: JobStore, count: int = 10, *, worker: str = "worker-1", queue: str = "default"
) -> list[ClaimedJob]:
    """One claim round: arm what fell due, then claim."""
    store.arm(limit=1000)
    return store.claim(worker, [QueueDemand(queue, count)], lease=LEASE)


def claim_id(
    store: JobStore, job_id: UUID, *, worker: str = "worker-1", queue: str = "default"
) -> ClaimIdentity:
    """Claim *job_id*, which must be the only due job of its queue."""
    claimed = claim(store, worker=worker, queue=queue)
    assert [job.identity.job_id for job in claimed] == [job_id]
    return claimed[0].identity


def claimed(
    store: JobStore, *, worker: str = "worker-1", queue: str = "default", **options: Any
) -> ClaimIdentity:
    """A job enqueued and claimed."""
    job_id = enqueue(store, queue=queue, **options)
    return claim_id(store, job_id, worker=worker, queue=queue)


def settle(store: JobStore, identity: ClaimIdentity, state: str, **options: Any) -> bool:
    return bool(store.settle([Settlement(identity, state, **options)])[0])


def put_wait(store: JobStore, identity: ClaimIdentity, **options: Any) -> StepRow:
    """An open wait for the event ``approved``, without a key unless given."""
    plain: dict[str, Any] = {"name": "approval", "seq": 1, "status": "waiting"}
    return store.put_step(identity, NewStep(**{**plain, "event": "approved", **options}))


def parked(store: JobStore, *, queue: str = "default", **wait: Any) -> tuple[UUID, StepRow]:
    """A run suspended without an end on an open wait; its id and the wait."""
    identity = claimed(store, queue=queue)
    step = put_wait(store, identity, **wait)
    assert settle(store, identity, states.SUSPENDED, give_back=True, waits=True)
    return identity.job_id, step


def family(
    store: JobStore,
    count: int,
    *,
    at_once: int | None = None,
    parent: ClaimIdentity | None = None,
    step: str = "ship",
    generation: int = 0,
    **child: Any,
) -> Family:
    """A running parent that has called *count* children in queue ``children``, not parked yet."""
    parent = parent or claimed(store)
    jobs = new_children(parent, count, at_once=at_once, step=step, generation=generation, **child)
    insert(store, *jobs)
    store.put_step(
        parent,
        NewStep(step, 1, "calling", family_id=jobs[0].id, children=count, children_at_once=at_once),
    )
    return Family(parent, step, [job.id for job in jobs])


def new_children(
    parent: ClaimIdentity,
    count: int,
    *,
    at_once: int | None = None,
    step: str = "ship",
    generation: int = 0,
    **options: Any,
) -> list[NewJob]:
    """The children of a step, those beyond *at_once* held."""
    first = family_id(parent.job_id, step, generation)
    return [
        new_job(
            id=sibling_id(first, index),
            parent_id=parent.job_id,
            parent_step=step,
            family_id=first,
            is_held=at_once is not None and index >= at_once,
            **{"name": "shop.ship", "queue": "children", **options},
        )
        for index in range(count)
    ]


def parked_family(store: JobStore, count: int, **options: Any) -> Family:
    """A parent suspended without an end on a call of *count* children, all of them waiting."""
    made = family(store, count, **options)
    park_calling(store, made.parent)
    return made


def park_calling(store: JobStore, parent: ClaimIdentity) -> None:
    assert settle(store, parent, states.SUSPENDED, give_back=True, calls=True)


def publish(
    store: JobStore,
    name: str = "approved",
    payload: str = '{"by": "ann"}',
    *,
    key: str | None = None,
    ttl: timedelta = TTL,
    event_id: UUID | None = None,
    job_id: UUID | None = None,
) -> UUID:
    event_id = event_id or new_id()
    store.publish(event_id, name, payload, key=key, ttl=ttl, job_id=job_id)
    return event_id


def refuse_found(store: JobStore, identity: ClaimIdentity, wait: StepRow) -> StepRow:
    """Refuse the event that *wait* would take; the wait with its new cursor."""
    event = store.find_event(wait)
    assert event is not None
    step = NewStep(
        wait.name, wait.seq, "waiting", event=wait.event, cursor=refuse(wait.cursor, event)
    )
    return store.put_step(identity, step)


def park_unlooked(store: JobStore, identity: ClaimIdentity) -> None:
    """Park a run as if it waited for nothing, so that the store does not look once more."""
    assert settle(store, identity, states.SUSPENDED, give_back=True)


def found(store: JobStore, wait: StepRow) -> UUID | None:
    """The id of the event that *wait* would take."""
    event: EventRow | None = store.find_event(wait)
    return None if event is None else event.id


def shown(store: JobStore, job_id: UUID) -> JobRow:
    row = store.show(job_id)
    assert row is not None
    return row


def every_job(store: JobStore) -> list[JobRow]:
    return store.list_jobs(JobFilter(), limit=200, after=None, before=None)


def everything(store: JobStore, job_id: UUID) -> Everything:
    return Everything(store.show(job_id), store.load_steps(job_id), store.attempts(job_id))


def finished(store: JobStore, state: str, **options: Any) -> UUID:
    """A job that ended in *state*."""
    if state == states.CANCELLED:
        job_id = enqueue(store, **options)
        assert store.cancel(job_id, reason="by hand") == states.READY
        return job_id
    identity = claimed(store, **options)
    outcome: dict[str, Any] = (
        {"result": '"ok"'} if state == states.DONE else {"failure": BOOM, "stop_reason": "given up"}
    )
    assert settle(store, identity, state, **outcome)
    return identity.job_id


def at_once(store: JobStore, acts: int, act: Callable[[JobStore, int], T]) -> list[T]:
    """Run *act* in so many threads on connections of their own; the answers in order."""
    with closing(store.for_worker()) as shared, ThreadPoolExecutor(acts) as threads:
        return list(threads.map(lambda number: act(shared, number), range(acts)))
