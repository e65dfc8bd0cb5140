"""Run jobs in a test: here and now, in the test's own thread and transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connections, transaction

from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import JobUnknown
from django_durable_jobs.jobs import JobDefinition, declared_queues, get_job
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.settle import announce_settled
from django_durable_jobs.states import DEAD, FAILED, READY
from django_durable_jobs.store import JobStore, get_store
from django_durable_jobs.store.rows import ClaimedJob, QueueDemand, Settlement
from django_durable_jobs.worker.execute import Executed, execute

# Django 6.1 gave it another name.
_create_savepoint: Final[Callable[..., Any]] = getattr(
    transaction, "savepoint_create", transaction.savepoint
)

WORKER_ID: Final = "run_jobs"
LEASE: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Ran:
    """One execution.

    Attributes:
        state: What became of the job: ``done``, ``ready`` (it is tried again), ``suspended``,
            ``dead`` or ``failed``.
        error: What the body raised.
    """

    id: UUID
    name: str
    attempt: int
    state: str
    error: BaseException | None


def run_jobs(
    *, queues: Collection[str] | None = None, limit: int = 1_000, raise_errors: bool = True
) -> list[Ran]:
    """Run every job that is due, and those they enqueue, until none is; what ran, in order.

    Everything happens in the calling thread on Django's own connection, so it works
    without a commit: in ``TestCase`` and pytest's ``django_db`` jobs are seen and run inside
    the test's transaction and vanish with it. Retries, sleeps and waits that are not due
    stay where they are; move the clock (``django_durable_jobs.clock.move``) and call again.

    Inside a test's transaction each body runs in a savepoint. It is rolled back, steps
    stored in that attempt included, only when an error of the database made the transaction
    unusable.

    Args:
        queues: Only these; all declared ones if omitted.
        limit: Executions at most, so that a job which enqueues itself ends the test.
        raise_errors: Raise what a body raised if its job is given up by it; with False,
            look at the answers.

    Raises:
        RuntimeError: *limit* executions were not enough.
        JobUnknown: A due job's name is declared nowhere; the job waits on, unspent.
    """
    store = get_store()
    wanted = [QueueDemand(queue, 1) for queue in (queues or declared_queues())]
    ran: list[Ran] = []
    while True:
        store.arm(limit=100)
        claimed = store.claim(WORKER_ID, wanted, lease=LEASE, limit=1)
        if not claimed:
            return ran
        if len(ran) >= limit:
            _give_back(store, claimed[0])
            raise RuntimeError(
                f"{limit} executions were not enough to finish all jobs; is one enqueueing itself?"
            )
        ran.append(_run(store, claimed[0]))
        error = ran[-1].error
        if raise_errors and error is not None and ran[-1].state in (DEAD, FAILED):
            raise error


def _give_back(store: JobStore, claimed: ClaimedJob) -> None:
    store.settle([Settlement(claimed.identity, READY, give_back=True)])


def _run(store: JobStore, claimed: ClaimedJob) -> Ran:
    definition = get_job(claimed.name)
    if definition is None:
        _give_back(store, claimed)
        raise JobUnknown(claimed.name)
    executed = _execute(store, claimed, definition)
    settlement = executed.settlement
    landed = executed.has_landed
    if settlement is not None and not landed:
        landed = bool(store.settle([settlement])[0])
    if settlement is not None and landed:
        announce_settled(definition, claimed, settlement)
    row = store.show(claimed.identity.job_id)
    return Ran(
        id=claimed.identity.job_id,
        name=claimed.name,
        attempt=claimed.attempt,
        state="removed" if row is None else row.state,
        error=executed.error,
    )


def _execute(store: JobStore, claimed: ClaimedJob, definition: JobDefinition[..., Any]) -> Executed:
    with _usable_transaction():
        return execute(
            claimed,
            definition,
            store=store,
            user_store=store,
            signal=CancelSignal(claimed.identity.job_id),
        )


@contextmanager
def _usable_transaction() -> Iterator[None]:
    """Keep the test's transaction usable whatever statement fails inside."""
    connection = connections[settings.DATABASE]
    if settings.DRIVER != "postgres" or not connection.in_atomic_block:
        yield
        return
    savepoint = _create_savepoint(using=settings.DATABASE)
    yield
    if connection.needs_rollback or not _accepts_statements():
        connection.needs_rollback = False
        transaction.savepoint_rollback(savepoint, using=settings.DATABASE)
    else:
        transaction.savepoint_commit(savepoint, using=settings.DATABASE)


def _accepts_statements() -> bool:
    raw = connections[settings.DATABASE].connection
    # 3 is libpq's "in a failed transaction".
    return raw is None or int(raw.info.transaction_status) != 3
