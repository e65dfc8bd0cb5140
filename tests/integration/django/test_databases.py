"""Several databases: jobs live on the alias that the settings name, whatever routers say."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import connections, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client, override_settings

from django_durable_jobs import JobContext, Retry, clock, job, operations, publish_event
from django_durable_jobs.exceptions import TransactionNotCovered
from django_durable_jobs.models import Job
from django_durable_jobs.store import get_store
from django_durable_jobs.store.rows import JobFilter
from django_durable_jobs.testing import run_jobs
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL_ON_BOTH, heard, stored

pytestmark = REAL_ON_BOTH

IN_A_TRANSACTION = pytest.mark.django_db(databases=["default", "other"])

ROUTERS = "tests.integration.django.routers"
NOT_COVERED = (
    "Job 'shop.greet' was enqueued inside a transaction on the database 'other', which the jobs "
    "on 'default' cannot join: the job could run before that transaction commits. "
    "Enqueue after it (transaction.on_commit), or say that the job may run whatever becomes of "
    "it: .using(transactional=False)."
)


class Refused(Exception):
    pass


@pytest.fixture
def greet():
    @job(name="shop.greet")
    def greet(name: str = "") -> str:
        Group.objects.get_or_create(name=name)
        return name

    return greet


@pytest.fixture
def flow():
    @job(name="shop.flow", retry=Retry(attempts=2, delay=0))
    def flow(ctx: JobContext) -> Any:
        ctx.step.run("first", lambda: 1)
        ctx.step.sleep("cool off", "1h")
        event = ctx.step.wait_for_event("approval", event="order.approved", key="7")
        return event.payload["by"] if event else "nobody"

    return flow


def work_through(flow) -> None:
    """Take a flow through its sleep and its event with the worker's own connections."""
    result = flow.enqueue()
    work_until_idle()
    clock.move(timedelta(hours=1, seconds=1))
    work_until_idle()
    publish_event("order.approved", {"by": "ann"}, key="7")
    work_until_idle()

    result.refresh()
    assert (result.state, result.return_value) == ("done", "ann")


# -- reads that a router sends elsewhere -------------------------------------------------------


@override_settings(DATABASE_ROUTERS=[f"{ROUTERS}.ReadsJobsFromOther"])
def test_a_router_that_sends_reads_to_a_lagging_replica_changes_nothing(greet, flow):
    result = greet.using(idempotency_key="x").enqueue(name="Ann")
    assert greet.using(idempotency_key="x").enqueue(name="Ann").id == result.id
    work_through(flow)

    result.refresh()
    assert (result.state, result.return_value) == ("done", "Ann")
    assert greet.get_result(result.id).state == "done"
    assert {row.name for row in operations.list_jobs(JobFilter())} == {
        "shop.greet",
        "shop.flow",
    }
    assert operations.requeue(result.id).state == "ready"
    assert operations.cancel(result.id, reason="a test") == "ready"
    operations.remove(result.id)
    waiting = greet.using(delay="1h").enqueue(name="Bob")
    assert operations.promote(waiting.id).state == "ready"
    assert [ran.id for ran in run_jobs()] == [waiting.id]
    assert stored("other") == []


@IN_A_TRANSACTION
@override_settings(DATABASE_ROUTERS=[f"{ROUTERS}.ReadsJobsFromOther"])
def test_the_admin_shows_the_jobs_themselves_and_not_what_a_replica_knows(greet):
    result = greet.enqueue(name="Ann")
    client = Client()
    client.force_login(User.objects.create_superuser("ann"))

    page = client.get(f"/admin/durable_jobs/job/{result.id}/change/")

    assert "shop.greet" in client.get("/admin/durable_jobs/job/").content.decode()
    assert page.status_code == 200
    assert "shop.greet" in page.content.decode()


@pytest.fixture
def bare_other():
    """The second database without our tables; put back at the end."""
    call_command("migrate", "durable_jobs", "zero", database="other", verbosity=0)
    yield connections["other"]
    MigrationRecorder(connections["other"]).migration_qs.filter(app="durable_jobs").delete()
    call_command("migrate", "durable_jobs", database="other", verbosity=0)


def test_a_database_that_a_router_keeps_free_of_jobs_gets_no_table(bare_other):
    with override_settings(DATABASE_ROUTERS=[f"{ROUTERS}.NoJobsOnOther"]):
        call_command("migrate", database="other", verbosity=0)

    tables = bare_other.introspection.table_names()
    assert [table for table in tables if table.startswith("x_")] == []
    assert "auth_group" in tables


# -- transactions of another database ----------------------------------------------------------


def test_an_enqueue_in_a_transaction_of_another_database_is_refused(greet):
    with transaction.atomic(using="other"):
        Group.objects.using("other").create(name="before")
        with pytest.raises(TransactionNotCovered) as refused:
            greet.enqueue(name="Ann")

    assert str(refused.value) == NOT_COVERED
    assert refused.value.code == "X_OUTBOX_NO_TX"
    assert stored() == []
    assert Group.objects.using("other").count() == 1


def test_a_transaction_of_another_database_that_is_committed_by_hand_refuses_as_well(greet):
    transaction.set_autocommit(False, using="other")
    try:
        with pytest.raises(TransactionNotCovered) as refused:
            greet.enqueue(name="Ann")
    finally:
        transaction.rollback(using="other")
        transaction.set_autocommit(True, using="other")

    assert str(refused.value) == NOT_COVERED
    assert greet.enqueue(name="Ann").state == "ready"


@pytest.mark.parametrize("other_fails", [False, True])
def test_with_the_jobs_transaction_inside_the_other_the_job_goes_with_its_own(greet, other_fails):
    with suppress(Refused), transaction.atomic(using="other"):
        with transaction.atomic():
            kept = greet.enqueue(name="Ann")
        if other_fails:
            raise Refused

    assert [ran.id for ran in run_jobs()] == [kept.id]


@pytest.mark.parametrize("other_fails", [False, True])
def test_with_the_other_transaction_inside_the_jobs_the_job_goes_with_its_own(greet, other_fails):
    with transaction.atomic(), suppress(Refused), transaction.atomic(using="other"):
        kept = greet.enqueue(name="Ann")
        if other_fails:
            raise Refused

    assert [ran.id for ran in run_jobs()] == [kept.id]


@pytest.mark.parametrize("outer", ["default", "other"])
def test_a_rollback_of_the_jobs_database_takes_the_job_whichever_block_is_outer(greet, outer):
    inner = "other" if outer == "default" else "default"

    with suppress(Refused), transaction.atomic(using=outer), transaction.atomic(using=inner):
        greet.enqueue(name="Ann")
        raise Refused

    assert stored() == []


def test_after_a_block_of_the_jobs_database_the_other_transaction_refuses_again(greet):
    with transaction.atomic(using="other"):
        with transaction.atomic():
            pass
        with pytest.raises(TransactionNotCovered):
            greet.enqueue(name="Ann")

    assert stored() == []


def test_an_enqueue_bound_to_the_others_commit_runs_after_it(greet, listener):
    with transaction.atomic(using="other"):
        transaction.on_commit(lambda: greet.enqueue(name="Ann"), using="other")
        assert stored() == []

    assert stored() == ["shop.greet"]
    assert heard(listener) == ["default"]


def test_a_job_that_may_run_whatever_becomes_of_the_other_transaction_is_stored_at_once(greet):
    with suppress(Refused), transaction.atomic(using="other"):
        kept = greet.using(transactional=False).enqueue(name="Ann")
        assert stored() == ["shop.greet"]
        raise Refused

    assert [ran.id for ran in run_jobs()] == [kept.id]


@IN_A_TRANSACTION
def test_the_transaction_around_a_test_is_nobodys_and_refuses_nothing(greet):
    greet.enqueue(name="Ann")
    with transaction.atomic(using="other"), pytest.raises(TransactionNotCovered):
        greet.enqueue(name="Bob")

    assert [ran.state for ran in run_jobs()] == ["done"]


# -- jobs in a database of their own -----------------------------------------------------------


@pytest.fixture
def jobs_on_other():
    with override_settings(
        DURABLE_JOBS={"DATABASE": "other"}, DATABASE_ROUTERS=[f"{ROUTERS}.JobsOnOther"]
    ):
        yield


@pytest.mark.usefixtures("jobs_on_other")
def test_jobs_on_another_alias_are_enqueued_run_and_operated_there(greet, flow):
    listener = get_store().listen()
    assert listener is not None
    result = greet.enqueue(name="Ann")
    assert heard(listener) == ["default"]
    listener.close()
    assert [ran.state for ran in run_jobs()] == ["done"]
    work_through(flow)

    result.refresh()
    assert result.return_value == "Ann"
    assert operations.requeue(result.id).state == "ready"
    work_until_idle()
    result.refresh()
    assert (result.state, result.row.claims) == ("done", 2)
    assert stored("other") == ["shop.greet", "shop.flow"]
    assert Job.objects.using("default").count() == 0
    assert Group.objects.using("default").count() == 1


@pytest.mark.usefixtures("jobs_on_other")
def test_jobs_on_another_alias_follow_the_transactions_of_that_alias(greet):
    with suppress(Refused), transaction.atomic(using="other"):
        greet.enqueue(name="rolled back")
        raise Refused
    with transaction.atomic(using="other"):
        kept = greet.enqueue(name="kept")
    with transaction.atomic(), pytest.raises(TransactionNotCovered) as refused:
        greet.enqueue(name="refused")

    assert "on the database 'default', which the jobs on 'other' cannot join" in str(refused.value)
    assert [ran.id for ran in run_jobs()] == [kept.id]


@pytest.mark.usefixtures("jobs_on_other")
def test_an_atomic_job_is_atomic_on_the_alias_of_the_jobs():
    @job(name="shop.atomic", atomic=True, retry=Retry(attempts=1))
    def record(name: str) -> None:
        Group.objects.using("other").create(name=name)
        if name == "refused":
            raise Refused

    results = [record.enqueue(name=name) for name in ("kept", "refused")]
    work_until_idle()

    assert [group.name for group in Group.objects.using("other").all()] == ["kept"]
    assert [record.get_result(result.id).state for result in results] == ["done", "dead"]


@IN_A_TRANSACTION
@pytest.mark.usefixtures("jobs_on_other")
def test_the_admin_shows_the_jobs_of_another_alias(greet):
    result = greet.enqueue(name="Ann")
    client = Client()
    client.force_login(User.objects.create_superuser("ann"))

    page = client.get(f"/admin/durable_jobs/job/{result.id}/change/")

    assert page.status_code == 200
    assert "shop.greet" in page.content.decode()
