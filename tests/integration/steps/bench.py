"""Runs bodies attempt by attempt on a real store, as a worker does, in the test's own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

from django_durable_jobs.exceptions import RunFault, StoreUnavailable, SuspensionSwallowed
from django_durable_jobs.jobs import get_job
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.policies.retry import Retry
from django_durable_jobs.settle import AttemptEnd, Parked, Returned, settlement_of
from django_durable_jobs.steps import JobContext, Suspension, suspension_in
from django_durable_jobs.steps.current import running
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import (
    ClaimedJob,
    ClaimIdentity,
    JobFilter,
    JobRow,
    NewJob,
    QueueDemand,
    Settlement,
    StepRow,
)
from django_durable_jobs.worker.execute import Executed, execute

# Real commits, since a worker's connections must see them.
REAL = pytest.mark.django_db(
    transaction=True,
    available_apps=[
        "django_durable_jobs",
        "django.contrib.auth",
        "django.contrib.contenttypes",
    ],
)

LEASE = timedelta(seconds=60)
Body = Callable[[JobContext], Any]


@dataclass(frozen=True)
class Declared:
    """A declaration as plain data; a failed attempt is due again at once."""

    retry: Retry = field(default_factory=lambda: Retry(attempts=5, delay=0, jitter="none"))
    name: str = "shop.pay"
    queue: str = "default"
    timeout: timedelta | None = None
    on_settled: None = None

    def load_input(self, text: str) -> Any:
        return text

    def load_result(self, text: str) -> Any:
        return text


@dataclass(frozen=True)
class Attempt:
    """How one attempt went.

    Attributes:
        value: What the body returned.
        error: What it raised, a suspension included.
        settlement: None when the attempt was not this worker's to settle.
    """

    ctx: JobContext
    value: Any
    error: BaseException | None
    settlement: Settlement | None
    landed: bool


@dataclass(frozen=True)
class Worked:
    """One execution of a declared job: what became of it, and what it raised."""

    id: UUID
    name: str
    state: str
    error: BaseException | None


class Bench:
    """One job at a time: enqueue it, then run a body for each attempt."""

    def __init__(self, store: JobStore) -> None:
        self.store = store
        self.worker_store = store.for_worker()

    def close(self) -> None:
        self.worker_store.close()

    def enqueue(self, **options: Any) -> UUID:
        plain: dict[str, Any] = {
            "id": new_id(),
            "name": "shop.pay",
            "queue": "default",
            "input": "{}",
            "max_attempts": 5,
        }
        (answer,) = self.store.insert([NewJob(**{**plain, **options})], on_conflict="existing")
        return answer.id

    def claim(self, worker: str = "worker-1") -> ClaimedJob:
        """Claim the one job that is due."""
        self.worker_store.arm(limit=100)
        (claimed,) = self.worker_store.claim(worker, [QueueDemand("default", 9)], lease=LEASE)
        return claimed

    def claim_any(self) -> ClaimedJob:
        """Claim one of the jobs that are due."""
        (claimed,) = self.worker_store.claim("worker-1", [QueueDemand("default", 1)], lease=LEASE)
        return claimed

    def nothing_is_due(self) -> bool:
        self.worker_store.arm(limit=100)
        return not self.worker_store.claim("worker-1", [QueueDemand("default", 9)], lease=LEASE)

    def context(self, claimed: ClaimedJob, **options: Any) -> JobContext:
        plain: dict[str, Any] = {
            "store": self.worker_store,
            "user_store": self.store,
            "signal": CancelSignal(claimed.identity.job_id),
        }
        return JobContext(claimed, **{**plain, **options})

    def attempt(self, body: Body, claimed: ClaimedJob | None = None, **options: Any) -> Attempt:
        """Claim (unless that was done), run and settle."""
        if claimed is None:
            claimed = self.claim()
        ctx = self.context(claimed, **options)
        value, error = None, None
        end: AttemptEnd
        try:
            with running(ctx.job_id):
                value = body(ctx)
        except BaseException as raised:
            error = raised
            parked = suspension_in(raised)
            end = raised
            if parked:
                end = Parked(
                    parked.run_at, parked.delay, parked.waits, parked.calls, ctx.waiting_steps
                )
        else:
            end = Returned("null")
            if ctx.suspended is not None:
                end = error = SuspensionSwallowed(ctx.name, ctx.suspended.step)
        reason: RunFault | None = ctx.signal.reason
        ctx.signal.end()
        settlement = settlement_of(
            end, claimed=claimed, definition=Declared(), reason=reason, random=lambda: 0.0
        )
        landed = settlement is not None and bool(self.worker_store.settle([settlement])[0])
        if settlement is not None and settlement.waits:
            self.worker_store.wake_waiters({settlement.identity.job_id: settlement.steps})
        return Attempt(ctx, value, error, settlement, landed)

    def interrupt(self, body: Body) -> None:
        """Run *body* up to its wait; it is due again at once, before the wait is over."""
        claimed = self.claim()
        with pytest.raises(Suspension):
            body(self.context(claimed))
        assert self.worker_store.settle(
            [Settlement(claimed.identity, "ready", delay=timedelta(0), give_back=True)]
        ) == [True]

    def work(self, *, slots: int = 9, times: int = 1) -> list[Worked]:
        """Claim, run and settle declared jobs as a worker does, *slots* in a round."""
        worked: list[Worked] = []
        for _ in range(times):
            self.worker_store.arm(limit=1_000)
            demand = [QueueDemand("default", slots)]
            claimed = self.worker_store.claim("worker-1", demand, lease=LEASE)
            worked += self.run(*claimed)
        return worked

    def work_off(self, *, slots: int = 9) -> list[Worked]:
        """The same until nothing is due."""
        worked: list[Worked] = []
        while some := self.work(slots=slots):
            worked += some
        return worked

    def run(self, *claimed: ClaimedJob) -> list[Worked]:
        """Run the declared bodies of claimed jobs, and settle them together."""
        ends = [self._execute(each) for each in claimed]
        self.worker_store.settle(
            [end.settlement for end in ends if end.settlement and not end.has_landed]
        )
        worked = []
        for each, end in zip(claimed, ends, strict=True):
            row = self.row(each.identity.job_id)
            worked.append(Worked(row.id, row.name, row.state, end.error))
        return worked

    def _execute(self, claimed: ClaimedJob) -> Executed:
        definition = get_job(claimed.name)
        assert definition is not None, f"{claimed.name} is not declared; run it with attempt()"
        return execute(
            claimed,
            definition,
            store=self.worker_store,
            user_store=self.store,
            signal=CancelSignal(claimed.identity.job_id),
        )

    def jobs(self, name: str, state: str | None = None) -> list[JobRow]:
        """Those of a name, in the order of their ids."""
        rows: list[JobRow] = []
        where = JobFilter(name=name, state=state)
        while page := self.worker_store.list_jobs(
            where, limit=200, after=rows[-1].id if rows else None, before=None
        ):
            rows += page
        return rows[::-1]

    def steal(self, job_id: UUID, worker: str = "thief") -> None:
        """Let the lease of the running job lapse and another worker take it."""
        row = self.row(job_id)
        identity = claim_of(row)
        assert self.worker_store.lapse([identity]) == 1
        rescued = self.worker_store.rescue(
            worker, ["default"], limit=1, lease=LEASE, drop_exhausted=()
        )
        assert [claimed.identity.job_id for claimed in rescued.claimed] == [job_id]

    def row(self, job_id: UUID) -> JobRow:
        row = self.worker_store.show(job_id)
        assert row is not None
        return row

    def steps(self, job_id: UUID) -> dict[str, StepRow]:
        """What is committed."""
        return {row.name: row for row in self.worker_store.load_steps(job_id)}


def claim_of(row: JobRow) -> ClaimIdentity:
    assert row.worker_id is not None
    return ClaimIdentity(row.id, row.worker_id, row.claims)


class Stand:
    """A store in which single verbs are replaced; everything else is the bench's own."""

    def __init__(self, store: JobStore, **verbs: Callable[..., Any]) -> None:
        self._store = store
        self._verbs = verbs

    def __getattr__(self, verb: str) -> Any:
        return self._verbs.get(verb) or getattr(self._store, verb)


def losing_the_answer(store: JobStore) -> Stand:
    """A store whose commits take effect, and whose callers hear of none."""

    @contextmanager
    def atomic() -> Iterator[None]:
        with store.atomic():
            yield
        raise StoreUnavailable("The answer to the commit was lost.")

    return Stand(store, atomic=atomic)


def dying_at(store: JobStore, *verbs: str) -> Stand:
    """A store at whose *verbs* the process dies before they took effect."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    return Stand(store, **dict.fromkeys(verbs, die))


class Killed(BaseException):
    """Stands for a process that is gone: no ``except Exception`` of a body sees it."""


def in_threads(branches: Sequence[Callable[[], None]], at_once: int) -> None:
    """Run branches side by side, each with database connections of its own."""

    def run(branch: Callable[[], None]) -> None:
        try:
            branch()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=at_once) as pool:
        runs = [pool.submit(copy_context().run, run, branch) for branch in branches]
    for each in runs:
        each.result()


class Meeting:
    """A point that all of *count* threads must reach before any goes on."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)

    def __call__(self, value: Any = None) -> Any:
        self._barrier.wait(timeout=20)
        return value
