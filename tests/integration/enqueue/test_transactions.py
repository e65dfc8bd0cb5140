"""A committed enqueue is never lost, a rolled-back one never runs, and workers hear of it once."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from django_durable_jobs import job
from django_durable_jobs.signals import job_enqueued
from django_durable_jobs.testing import run_jobs
from tests.integration.declared import REAL, heard, stored

pytestmark = REAL


class Refused(Exception):
    pass


@pytest.fixture
def greet():
    @job(name="shop.greet")
    def greet(name: str) -> str:
        return f"Hello {name}"

    return greet


def test_an_enqueue_in_autocommit_is_stored_at_once_and_wakes_its_queue(greet, listener):
    result = greet.enqueue(name="Ann")

    assert (result.state, result.deduplicated) == ("ready", False)
    assert stored() == ["shop.greet"]
    assert heard(listener) == ["default"]


def test_an_enqueue_commits_with_the_callers_transaction(greet, listener):
    with transaction.atomic():
        Group.objects.create(name="ann")
        greet.enqueue(name="Ann")
        before_the_commit = heard(listener)

    assert before_the_commit == []
    assert heard(listener) == ["default"]
    assert (stored(), Group.objects.count()) == (["shop.greet"], 1)
    assert [ran.state for ran in run_jobs()] == ["done"]


def test_an_enqueue_rolls_back_with_the_callers_transaction_and_wakes_nobody(greet, listener):
    with suppress(Refused), transaction.atomic():
        greet.enqueue(name="Ann")
        raise Refused

    assert stored() == []
    assert heard(listener) == []
    assert run_jobs() == []


def test_of_nested_savepoints_only_those_that_hold_keep_their_jobs(greet, listener):
    with transaction.atomic():
        kept = greet.enqueue(name="outer")
        with suppress(Refused), transaction.atomic():
            greet.using(queue="default").enqueue(name="rolled back")
            with transaction.atomic():
                greet.enqueue(name="released inside what rolls back")
            raise Refused
        with transaction.atomic():
            also_kept = greet.enqueue(name="inner")

    ran = run_jobs()
    assert [(job.id, job.state) for job in ran] == [(kept.id, "done"), (also_kept.id, "done")]
    assert heard(listener) == ["default"]


def test_a_savepoint_that_rolls_back_alone_wakes_nobody(greet, listener):
    with transaction.atomic():
        Group.objects.create(name="ann")
        with suppress(Refused), transaction.atomic():
            greet.enqueue(name="Ann")
            raise Refused

    assert (stored(), Group.objects.count()) == ([], 1)
    assert heard(listener) == []


def test_a_commit_wakes_each_queue_once_however_many_jobs_it_held(listener):
    @job(name="shop.mail", queue="mail")
    def mail(number: int) -> None: ...

    @job(name="shop.ship")
    def ship(number: int) -> None: ...

    with transaction.atomic():
        for number in range(5):
            mail.enqueue(number=number)
            ship.enqueue(number=number)
            with transaction.atomic():
                mail.enqueue(number=number)
        mail.enqueue_many([{"number": number} for number in range(10)])

    assert sorted(heard(listener)) == ["default", "mail"]
    with transaction.atomic():
        mail.enqueue(number=7)
    assert heard(listener) == ["mail"]


def test_a_commit_after_a_rollback_wakes_as_if_there_had_been_none(greet, listener):
    with suppress(Refused), transaction.atomic():
        greet.enqueue(name="Ann")
        raise Refused
    with transaction.atomic():
        greet.enqueue(name="Bob")

    assert heard(listener) == ["default"]


def test_a_job_enqueued_by_a_hook_after_the_commit_wakes_as_well(greet, listener):
    @job(name="shop.mail", queue="mail")
    def mail() -> None: ...

    with transaction.atomic():
        transaction.on_commit(lambda: mail.enqueue())
        greet.enqueue(name="Ann")
        transaction.on_commit(lambda: greet.enqueue(name="Bob"))

    assert stored() == ["shop.greet", "shop.mail", "shop.greet"]
    assert heard(listener) == ["mail", "default", "default"]


def test_a_job_due_within_half_a_minute_is_announced_with_its_time(greet, listener):
    with transaction.atomic():
        greet.enqueue(name="now")
        greet.using(delay=5).enqueue(name="soon")
        greet.using(delay=5).enqueue(name="soon as well")
        greet.using(delay="1h").enqueue(name="later")

    assert listener.prove(timeout=10)
    wakes = listener.receive(0)
    assert [(wake.queue, wake.due_in) for wake in wakes] == [("default", 0.0), ("default", 5.0)]


def test_a_durable_block_takes_an_enqueue(greet, listener):
    with transaction.atomic(durable=True):
        greet.enqueue(name="Ann")

    assert stored() == ["shop.greet"]
    assert heard(listener) == ["default"]


def test_a_job_that_must_not_depend_on_the_transaction_survives_its_rollback(greet, listener):
    with suppress(Refused), transaction.atomic():
        greet.enqueue(name="bound to the transaction")
        free = greet.using(transactional=False).enqueue(name="free")
        during_the_transaction = heard(listener)
        raise Refused

    assert during_the_transaction == ["default"]
    assert [ran.id for ran in run_jobs()] == [free.id]


def test_the_wake_of_a_free_job_is_none_for_the_jobs_of_the_transaction(greet, listener):
    with transaction.atomic():
        greet.enqueue(name="bound to the transaction")
        greet.using(transactional=False).enqueue(name="free")
        during_the_transaction = heard(listener)

    assert during_the_transaction == ["default"]
    assert heard(listener) == ["default"]


def test_a_transaction_that_the_caller_commits_by_hand_takes_an_enqueue_without_a_wake(
    greet, listener
):
    """Django tells nobody of such a commit; the workers find the job by polling."""
    transaction.set_autocommit(False)
    try:
        greet.enqueue(name="rolled back")
        transaction.rollback()
        kept = greet.enqueue(name="kept")
        transaction.commit()
    finally:
        transaction.set_autocommit(True)

    assert heard(listener) == []
    assert [ran.id for ran in run_jobs()] == [kept.id]


def test_a_wake_that_cannot_be_sent_does_not_harm_the_enqueue(greet, caplog):
    """The caller would take an error for a lost job, and enqueue it again."""
    with transaction.atomic():
        result = greet.enqueue(name="Ann")
        # The last hook before ours: from then on no statement can be sent.
        transaction.on_commit(lambda: connection.connection.close())
        connection.run_on_commit.reverse()
    connection.close()

    assert "jobs.wake.failed: workers will find the jobs by polling." in caplog.messages
    result.refresh()
    assert result.state == "ready"


def test_a_receiver_hears_of_each_new_row_and_its_error_harms_nobody(greet):
    told = []

    def receive(sender, **about):
        told.append((about["job_name"], about["queue"], about["job_id"]))
        raise Refused

    job_enqueued.connect(receive)
    try:
        results = greet.enqueue_many([{"name": "Ann"}, {"name": "Bob"}])
    finally:
        job_enqueued.disconnect(receive)

    assert told == [("shop.greet", "default", result.id) for result in results]


def test_many_thousand_jobs_of_one_call_are_stored_in_order_or_not_at_all(greet):
    with suppress(Refused), transaction.atomic():
        greet.enqueue_many({"name": "Ann"} for _ in range(6_000))
        raise Refused
    assert stored() == []

    results = greet.enqueue_many({"name": str(number)} for number in range(6_000))

    assert [result.id for result in results] == sorted(result.id for result in results)
    assert len(stored()) == 6_000
