"""A job that is one transaction: its effects and its end are committed together, or neither."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction

from django_durable_jobs import JobContext, Retry, job
from django_durable_jobs.exceptions import Draining
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.models import Job
from django_durable_jobs.store import get_store
from django_durable_jobs.testing.conformance import given
from django_durable_jobs.worker.execute import execute
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL, REAL_ON_BOTH

pytestmark = REAL

NO_DELAY = Retry(attempts=2, delay=0, jitter="none")


def names() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


def test_an_on_commit_hook_that_fails_leaves_the_job_done_and_is_logged(caplog):
    told: list[str] = []
    runs: list[int] = []

    @job(
        name="atomic.hook",
        atomic=True,
        retry=NO_DELAY,
        on_settled=lambda settled: told.append(settled.outcome),
    )
    def body(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        Group.objects.create(name="kept")
        transaction.on_commit(lambda: 1 / 0)

    result = body.enqueue()
    with caplog.at_level(logging.WARNING, "django_durable_jobs"):
        work_until_idle(slots=1)

    assert (Job.objects.get(pk=result.id).state, names()) == ("done", ["kept"])
    assert (told, runs) == (["completed"], [1])
    assert any("division by zero" in record.getMessage() for record in caplog.records)
    assert not any("jobs.settle.lost" in record.getMessage() for record in caplog.records)


def test_a_lease_that_was_lost_rolls_the_effects_back():
    store = get_store()
    worker_store = store.for_worker()

    @job(name="atomic.lost", atomic=True)
    def body(ctx: JobContext) -> None:
        Group.objects.create(name="never")
        worker_store.lapse([claimed.identity])
        worker_store.rescue(
            "other", ["default"], limit=1, lease=timedelta(minutes=1), drop_exhausted=()
        )

    result = body.enqueue()
    (claimed,) = given.claim(worker_store)
    executed = execute(
        claimed, body, store=worker_store, user_store=store, signal=CancelSignal(result.id)
    )

    assert (executed.settlement, executed.has_landed, names()) == (None, False, [])
    row = Job.objects.get(pk=result.id)
    assert (row.state, row.worker_id) == ("running", "other")
    worker_store.close()


def test_effects_that_cannot_be_committed_are_an_attempt_that_failed():
    """A constraint that is checked at the commit alone."""

    @job(name="atomic.deferred", atomic=True, retry=NO_DELAY)
    def body(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            Group.permissions.through.objects.create(group_id=-1, permission_id=-1)
        Group.objects.create(name=f"attempt {ctx.attempt}")

    result = body.enqueue()
    work_until_idle(slots=1)

    assert (Job.objects.get(pk=result.id).state, names()) == ("done", ["attempt 2"])


def test_a_body_that_returns_while_its_worker_drains_is_done():
    store = get_store()
    worker_store = store.for_worker()

    @job(name="atomic.drained", atomic=True)
    def body(ctx: JobContext) -> None:
        ctx.signal.cancel(Draining())
        Group.objects.create(name="kept")

    result = body.enqueue()
    (claimed,) = given.claim(worker_store)
    executed = execute(
        claimed, body, store=worker_store, user_store=store, signal=CancelSignal(result.id)
    )

    assert executed.has_landed
    assert (Job.objects.get(pk=result.id).state, names()) == ("done", ["kept"])
    worker_store.close()


def leave_a_transaction() -> None:
    transaction.atomic().__enter__()
    Group.objects.create(name="never")


def turn_autocommit_off() -> None:
    transaction.set_autocommit(False)
    Group.objects.create(name="never")


def close_inside_a_block() -> None:
    transaction.atomic().__enter__()
    Group.objects.create(name="never")
    connection.close()


def lose_the_connection_inside_a_block() -> None:
    with transaction.atomic():
        Group.objects.create(name="never")
        with connection.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(pg_backend_pid())")


def break_a_statement_in_a_block_and_leave_it() -> None:
    transaction.atomic().__enter__()
    with connection.cursor() as cursor:
        cursor.execute("select 1 / 0")


def leave_hooks_behind() -> None:
    transaction.atomic().__enter__()
    transaction.on_commit(lambda: Group.objects.create(name="never"))


def take_the_connection_away() -> None:
    connection.connection.close()


WEIRD = [
    leave_a_transaction,
    turn_autocommit_off,
    close_inside_a_block,
    lose_the_connection_inside_a_block,
    break_a_statement_in_a_block_and_leave_it,
    leave_hooks_behind,
    take_the_connection_away,
]


@pytest.fixture
def kept_connections(monkeypatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", None)


@pytest.mark.usefixtures("kept_connections")
@pytest.mark.parametrize("weird", WEIRD, ids=lambda weird: weird.__name__)
def test_whatever_a_body_does_to_its_connection_the_next_body_finds_a_good_one(
    weird: Callable[[], None],
):
    seen: list[tuple[bool, bool]] = []

    @job(name="connections.weird", retry=Retry(attempts=1), priority=1)
    def first() -> None:
        # Made by this very slot, so that there is something to spoil.
        Group.objects.count()
        weird()

    @job(name="connections.plain", retry=Retry(attempts=1))
    def second() -> None:
        Group.objects.create(name="kept")
        seen.append((connection.in_atomic_block, connection.get_autocommit()))
        # Outside a block hooks run at once.
        transaction.on_commit(lambda: Group.objects.create(name="hooked"))
        connection.close()

    first.enqueue()
    result = second.enqueue()
    work_until_idle(slots=1)

    assert Job.objects.get(pk=result.id).state == "done"
    assert (names(), seen) == (["hooked", "kept"], [(False, True)])


@REAL_ON_BOTH
def test_a_write_to_another_database_is_refused_and_the_effects_rolled_back():
    """No transaction holds both, so it would not happen exactly once."""

    @job(name="atomic.elsewhere", atomic=True, retry=NO_DELAY)
    def body() -> None:
        Group.objects.create(name="never")
        assert Group.objects.using("other").count() == 0
        Group.objects.using("other").create(name="never")

    result = body.enqueue()
    work_until_idle(slots=1)

    row = Job.objects.get(pk=result.id)
    assert (row.state, names()) == ("dead", [])
    assert row.last_error.startswith(
        "The atomic job 'atomic.elsewhere' wrote to the database 'other'"
    )
    assert not Group.objects.using("other").exists()
