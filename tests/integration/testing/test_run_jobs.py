"""``run_jobs()`` in each kind of test that Django and pytest-django know."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase

from django_durable_jobs import JobContext, Retry, Settled, clock, job, publish_event
from django_durable_jobs.exceptions import JobUnknown
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.models import Job, JobStep
from django_durable_jobs.testing import run_jobs
from tests.integration.declared import APPS, REAL, stored

ran: list[str] = []

# Declared as a project declares them: at import, before any test.
with scratch_registry():

    @job(name="testing.note")
    def note(text: str) -> str:
        ran.append(text)
        Group.objects.create(name=text)
        return text


@pytest.fixture(autouse=True)
def _declared():
    from django_durable_jobs.jobs.registry import register

    register(note)
    ran.clear()


class Refused(Exception):
    pass


def place_two_of_which_one_is_rolled_back() -> None:
    with transaction.atomic():
        note.enqueue(text="kept")
        with suppress(Refused), transaction.atomic():
            note.enqueue(text="rolled back")
            raise Refused


def expect_exactly_one_run() -> None:
    assert stored() == []
    assert Group.objects.count() == 0
    place_two_of_which_one_is_rolled_back()

    (only,) = run_jobs()

    assert (only.name, only.attempt, only.state, only.error) == ("testing.note", 1, "done", None)
    assert ran == ["kept"]
    assert note.get_result(only.id).return_value == "kept"
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]
    assert run_jobs() == []


class InATestCase(TestCase):
    def test_a_committed_job_runs_once_and_a_rolled_back_one_never(self) -> None:
        expect_exactly_one_run()

    def test_nothing_of_it_is_left_for_the_next_test(self) -> None:
        expect_exactly_one_run()

    def test_hooks_on_commit_still_wait_for_a_commit_that_never_comes(self) -> None:
        with self.captureOnCommitCallbacks() as callbacks:
            note.enqueue(text="Ann")

        assert len(callbacks) == 1
        assert [only.state for only in run_jobs()] == ["done"]

    def test_such_hooks_can_be_run_by_the_test(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            note.enqueue(text="Ann")

        assert [only.state for only in run_jobs()] == ["done"]


class InATestCaseWithDataOfTheClass(TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        note.enqueue(text="of the class")

    def test_a_job_of_the_class_runs_in_each_test(self) -> None:
        assert [only.state for only in run_jobs()] == ["done"]
        assert ran == ["of the class"]

    def test_and_again_in_the_next(self) -> None:
        assert [only.state for only in run_jobs()] == ["done"]
        assert ran == ["of the class"]


class InATransactionTestCase(TransactionTestCase):
    available_apps = APPS

    def test_a_committed_job_runs_once_and_a_rolled_back_one_never(self) -> None:
        expect_exactly_one_run()

    def test_nothing_of_it_is_left_for_the_next_test(self) -> None:
        expect_exactly_one_run()


@pytest.mark.django_db
@pytest.mark.parametrize("time", ["first", "again"])
def test_with_django_db_a_committed_job_runs_once_and_a_rolled_back_one_never(time):
    expect_exactly_one_run()


@REAL
@pytest.mark.parametrize("time", ["first", "again"])
def test_with_real_transactions_a_committed_job_runs_once_and_a_rolled_back_one_never(time):
    expect_exactly_one_run()


@REAL
def test_running_jobs_opens_no_connection_that_would_keep_the_test_database_from_being_dropped():
    note.enqueue(text="Ann")

    run_jobs()

    with connection.cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
        assert cursor.fetchone() == (0,)


both_kinds = pytest.mark.parametrize(
    "kind",
    [
        pytest.param("in the test's transaction", marks=pytest.mark.django_db),
        pytest.param("with real transactions", marks=REAL),
    ],
)


@both_kinds
def test_an_error_that_ends_its_job_is_raised_to_the_test(kind):
    @job(name="testing.fail", retry=Retry(attempts=1))
    def fail() -> None:
        Group.objects.create(name="before the error")
        raise Refused("no")

    result = fail.enqueue()

    with pytest.raises(Refused, match=r"^no$"):
        run_jobs()

    result.refresh()
    assert (result.state, result.error) == ("dead", "no")
    # As in production: a body that is not atomic has committed what it wrote.
    assert Group.objects.count() == 1


@both_kinds
def test_errors_can_be_looked_at_instead(kind):
    @job(name="testing.fail", retry=Retry(attempts=2, delay=0, jitter="none"))
    def fail() -> None:
        raise Refused("no")

    fail.enqueue()

    executions = run_jobs(raise_errors=False)

    assert [(one.attempt, one.state) for one in executions] == [(1, "ready"), (2, "dead")]
    assert [str(one.error) for one in executions] == ["no", "no"]


@both_kinds
def test_a_retry_waits_until_the_clock_is_moved(kind):
    outcomes = iter([Refused("no"), None])

    @job(name="testing.flaky", retry=Retry(attempts=3, delay="10m", jitter="none"))
    def flaky() -> None:
        if (error := next(outcomes)) is not None:
            raise error

    flaky.enqueue()

    assert [one.state for one in run_jobs()] == ["ready"]
    assert run_jobs() == []
    clock.move(timedelta(minutes=10, seconds=1))
    assert [one.state for one in run_jobs()] == ["done"]


@both_kinds
def test_a_broken_statement_of_a_body_leaves_the_transaction_usable(kind):
    @job(name="testing.clash", retry=Retry(attempts=1))
    def clash() -> None:
        Group.objects.create(name="twice")
        Group.objects.create(name="twice")

    result = clash.enqueue()

    with pytest.raises(IntegrityError):
        run_jobs()

    result.refresh()
    assert result.state == "dead"
    note.enqueue(text="after it")
    assert [one.state for one in run_jobs()] == ["done"]


@both_kinds
def test_an_atomic_job_that_fails_leaves_nothing_of_its_own(kind):
    @job(name="testing.atomic", retry=Retry(attempts=1), atomic=True)
    def record() -> None:
        Group.objects.create(name="of the body")
        raise Refused

    result = record.enqueue()

    with pytest.raises(Refused):
        run_jobs()

    result.refresh()
    assert result.state == "dead"
    assert Group.objects.count() == 0


@both_kinds
def test_jobs_that_jobs_enqueue_run_as_well(kind):
    @job(name="testing.parent")
    def parent() -> None:
        with transaction.atomic():
            note.enqueue(text="child")

    parent.enqueue()

    assert [one.name for one in run_jobs()] == ["testing.parent", "testing.note"]


@both_kinds
def test_steps_sleeps_and_events_work_without_a_commit(kind):
    @job(name="testing.flow")
    def flow(ctx: JobContext) -> str:
        first = ctx.step.run("first", lambda: "a")
        second = ctx.step.atomic("second", lambda: Group.objects.create(name="b").name)
        ctx.step.sleep("cool off", "1h")
        event = ctx.step.wait_for_event("approval", event="order.approved", key="7")
        assert event is not None
        return f"{first}{second}{event.payload['by']}"

    result = flow.enqueue()

    assert [one.state for one in run_jobs()] == ["suspended"]
    assert run_jobs() == []
    clock.move(timedelta(hours=1, seconds=1))
    assert [one.state for one in run_jobs()] == ["suspended"]
    publish_event("order.approved", {"by": "ann"}, key="7")
    assert [one.state for one in run_jobs()] == ["done"]

    result.refresh()
    assert result.return_value == "abann"
    assert Group.objects.count() == 1
    assert JobStep.objects.filter(job_id=result.id).count() == 4


@pytest.mark.django_db
def test_a_job_that_enqueues_itself_ends_the_test():
    @job(name="testing.endless")
    def endless() -> None:
        endless.enqueue()

    endless.enqueue()

    with pytest.raises(RuntimeError) as caught:
        run_jobs(limit=5)

    assert str(caught.value) == (
        "5 executions were not enough to finish all jobs; is one enqueueing itself?"
    )
    # The sixth was not begun: another call of the test finds it unspent.
    assert sorted(Job.objects.values_list("state", "attempt")) == [
        *[("done", 1)] * 5,
        ("ready", 0),
    ]


@pytest.mark.django_db
def test_only_the_named_queues_are_run():
    @job(name="testing.mail", queue="mail")
    def mail() -> None: ...

    mail.enqueue()
    note.enqueue(text="Ann")

    assert [one.name for one in run_jobs(queues=["mail"])] == ["testing.mail"]
    assert [one.name for one in run_jobs()] == ["testing.note"]


@pytest.mark.django_db
def test_a_job_that_nobody_declared_is_named_and_waits_on():
    result = note.enqueue(text="Ann")
    Job.objects.update(name="testing.gone")

    with pytest.raises(JobUnknown) as caught:
        run_jobs()

    assert str(caught.value) == (
        "No job named 'testing.gone' is declared in this process. "
        "Import the module that declares it, or list the name in aliases=[...]."
    )
    row = Job.objects.get(id=result.id)
    assert (row.state, row.attempt) == ("ready", 0)


@both_kinds
def test_the_hook_of_a_settled_job_is_called(kind):
    told: list[Settled] = []

    @job(name="testing.hooked", on_settled=told.append)
    def hooked() -> str:
        return "done"

    result = hooked.enqueue()
    run_jobs()

    assert [(one.outcome, one.job_id, one.result) for one in told] == [
        ("completed", result.id, "done")
    ]
