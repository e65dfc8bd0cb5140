"""An event and the wait for it meet at every moment, and the run goes on at once or rightly not.

What must hold: an event that is committed after a wait began ends it, whoever was first to write,
and without the look of the last resort, which comes a quarter of an hour later.
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from datetime import datetime, timedelta

import pytest

from django_durable_jobs import clock as our_clock
from django_durable_jobs import states
from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.models import JobEvent
from django_durable_jobs.steps import Suspension
from django_durable_jobs.store.rows import EventFilter
from django_durable_jobs.testing.conformance.given import (
    claim_id,
    claimed,
    found,
    parked,
    publish,
    put_wait,
    refuse_found,
    settle,
    shown,
)
from tests.integration.steps.bench import Bench

from .stepping import REAL, Stepped

pytestmark = REAL


class NoLookAfterCommit(PostgresStore):
    """A publisher with the mistake that the races below must find."""

    def _wake_after_commit(self, event, woken):
        pass


class NoLookAfterPark(PostgresStore):
    """A worker with the mistake that the races below must find."""

    def wake_waiters(self, job_ids):
        return 0


class Undone(Exception):
    pass


@pytest.fixture
def bench(store):
    with closing(Bench(store)) as bench:
        yield bench


# -- the publisher's transaction is open before the wait begins, and ends after it parked


def wait_for_approval(ctx):
    return ctx.step.wait_for_event("approval", event="approved", key="7", timeout="10m")


def wait_for_any_approval(ctx):
    return ctx.step.wait_for_event("approval", event="approved")


BODIES = pytest.mark.parametrize(
    "body", [wait_for_approval, wait_for_any_approval], ids=["by key", "without a key"]
)


@BODIES
def test_a_run_that_began_to_wait_and_parked_meanwhile_resumes_at_the_commit(bench, rival, body):
    job_id = bench.enqueue()
    with rival.atomic():
        event_id = publish(rival, key="7")
        assert isinstance(bench.attempt(body).error, Suspension)
        assert not bench.row(job_id).is_armed

    assert bench.row(job_id).is_armed
    assert bench.attempt(body).value.id == event_id


def test_without_the_look_after_the_commit_that_run_would_sleep_on(bench, make):
    publisher = make(NoLookAfterCommit)
    job_id = bench.enqueue()
    with publisher.atomic():
        publish(publisher, key="7")
        bench.attempt(wait_for_approval)

    assert not bench.row(job_id).is_armed
    assert bench.worker_store.wake_missed(limit=10) == 1


@BODIES
def test_a_run_sleeps_on_when_the_publisher_rolls_back(bench, rival, body):
    job_id = bench.enqueue()
    with suppress(Undone), rival.atomic():
        publish(rival, key="7")
        bench.attempt(body)
        raise Undone

    assert not bench.row(job_id).is_armed
    assert bench.worker_store.wake_waiters([job_id]) == 0
    assert bench.worker_store.wake_missed(limit=10) == 0


def test_two_runs_that_wait_for_one_event_both_resume_at_its_commit(bench, rival):
    with rival.atomic():
        event_id = publish(rival, key="7")
        for body in (wait_for_approval, wait_for_any_approval):
            bench.enqueue()
            bench.attempt(body)
        assert bench.nothing_is_due()

    bench.worker_store.arm(limit=10)
    first, second = bench.claim_any(), bench.claim_any()
    answers = [bench.attempt(wait_for_approval, each).value for each in (first, second)]
    assert [answer.id for answer in answers] == [event_id, event_id]


@pytest.mark.parametrize(
    ("name", "key"), [("approved", "7"), ("refunded", None), ("failed", "x")], ids=str
)
def test_a_run_that_waits_for_any_of_several_resumes_at_the_commit_of_one(worker, rival, name, key):
    identity = claimed(worker)
    with rival.atomic():
        event_id = publish(rival, name, key=key)
        others = (EventFilter("refunded"), EventFilter("failed"))
        wait = put_wait(worker, identity, correlation_key="7", alternatives=others)
        assert settle(worker, identity, states.SUSPENDED, give_back=True, waits=True)
        assert not shown(worker, identity.job_id).is_armed

    assert shown(worker, identity.job_id).is_armed
    assert found(worker, wait) == event_id


def test_a_run_resumes_at_the_commit_of_an_event_that_is_addressed_to_it(worker, rival):
    identity, other = claimed(worker), claimed(worker)
    with rival.atomic():
        publish(rival, job_id=identity.job_id)
        for each in (identity, other):
            put_wait(worker, each, correlation_key="7")
            assert settle(worker, each, states.SUSPENDED, give_back=True, waits=True)

    assert shown(worker, identity.job_id).is_armed
    assert not shown(worker, other.job_id).is_armed


@BODIES
def test_an_event_that_was_committed_before_the_wait_is_not_taken(bench, rival, body):
    job_id = bench.enqueue()
    with rival.atomic():
        publish(rival, key="7")

    assert isinstance(bench.attempt(body).error, Suspension)

    assert not bench.row(job_id).is_armed
    assert bench.worker_store.wake_missed(limit=10) == 0


# -- between the last search and the park


@pytest.mark.parametrize(
    ("kind", "is_due"),
    [(PostgresStore, True), (NoLookAfterPark, False)],
    ids=["with the look after the park", "without it"],
)
def test_an_event_between_the_last_search_and_the_park_is_seen_by_the_look_after_the_park(
    make, rival, kind, is_due
):
    worker = make(kind)
    identity = claimed(worker)
    wait = put_wait(worker, identity)
    assert found(worker, wait) is None
    # Both looks of the publisher find the job still running.
    publish(rival)

    assert settle(worker, identity, states.SUSPENDED, give_back=True, waits=True)

    assert shown(worker, identity.job_id).is_armed == is_due


# -- refusals


def test_an_event_committed_late_is_found_behind_a_refused_one_that_was_purged(worker, rival):
    """It was written before the refused one, so it stands in front of the cursor."""
    identity = claimed(worker)
    wait = put_wait(worker, identity)
    with rival.atomic():
        owed = publish(rival)
        refused = publish(worker)
        wait = refuse_found(worker, identity, wait)
        JobEvent.objects.filter(id=refused).delete()
        assert settle(worker, identity, states.SUSPENDED, give_back=True, waits=True)
        assert not shown(worker, identity.job_id).is_armed

    assert shown(worker, identity.job_id).is_armed
    again = claim_id(worker, identity.job_id)
    assert found(worker, wait) == owed
    wait = refuse_found(worker, again, wait)
    assert wait.cursor is not None
    assert wait.cursor.refused == {owed}
    assert found(worker, wait) is None
    assert settle(worker, again, states.SUSPENDED, give_back=True, waits=True)
    assert not shown(worker, identity.job_id).is_armed


def test_others_that_are_owed_are_still_found_when_one_was_refused(worker, rival, make):
    identity = claimed(worker)
    wait = put_wait(worker, identity)
    second = make(PostgresStore)
    with rival.atomic():
        first_owed = publish(rival)
        with second.atomic():
            second_owed = publish(second)
            publish(worker)
            wait = refuse_found(worker, identity, wait)
        assert found(worker, wait) == second_owed
        wait = refuse_found(worker, identity, wait)
        assert found(worker, wait) is None

    assert found(worker, wait) == first_owed


def test_a_late_look_does_not_wake_a_run_that_refused_the_event_meanwhile(worker, make):
    publisher = make(Stepped)
    job_id, wait = parked(worker)
    publish(publisher)
    identity = claim_id(worker, job_id)
    refuse_found(worker, identity, wait)
    assert settle(worker, identity, states.SUSPENDED, give_back=True, waits=True)

    publisher.look()

    assert not shown(worker, job_id).is_armed


def test_a_late_look_does_not_wake_a_run_that_began_to_wait_meanwhile(worker, make):
    publisher = make(Stepped)
    publish(publisher)
    job_id, _ = parked(worker)

    publisher.look()

    assert not shown(worker, job_id).is_armed


# -- clocks


AHEAD = timedelta(minutes=5)


@pytest.fixture
def _process_is_ahead(monkeypatch):
    """Whatever this process reads as the time of day is five minutes ahead of the database."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + AHEAD

    wall, nanoseconds = time.time, time.time_ns
    monkeypatch.setattr(our_clock, "datetime", Ahead)
    monkeypatch.setattr("django.utils.timezone.datetime", Ahead)
    monkeypatch.setattr(time, "time", lambda: wall() + AHEAD.total_seconds())
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(AHEAD.total_seconds() * 1e9))


@pytest.mark.usefixtures("_process_is_ahead")
def test_a_worker_whose_clock_is_ahead_takes_what_came_after_its_wait(bench, rival):
    job_id = bench.enqueue()
    assert our_clock.now() - bench.store.now() > timedelta(minutes=4)
    with rival.atomic():
        event_id = publish(rival, key="7")
        bench.attempt(wait_for_approval)

    assert bench.row(job_id).is_armed
    assert bench.attempt(wait_for_approval).value.id == event_id


@pytest.mark.usefixtures("_process_is_ahead")
def test_a_worker_whose_clock_is_ahead_does_not_end_a_wait_before_its_time(bench, clock):
    def body(ctx):
        return ctx.step.wait_for_event("approval", event="approved", timeout="1m")

    bench.enqueue()
    bench.interrupt(body)

    assert isinstance(bench.attempt(body).error, Suspension)

    clock.advance(minutes=2)
    attempt = bench.attempt(body)
    assert (attempt.error, attempt.value) == (None, None)


# -- the timeout


def test_a_wait_that_timed_out_stays_so_when_its_event_commits_late(bench, rival, clock):
    """Its writer was open all the time: one of the two wins, for good."""
    job_id = bench.enqueue()
    values = []

    def body(ctx):
        values.append(wait_for_approval(ctx))
        raise ValueError("later")

    with rival.atomic():
        publish(rival, key="7")
        bench.attempt(body)
        clock.advance(minutes=11)
        bench.attempt(body)
    bench.attempt(body)

    assert values == [None, None]
    assert bench.steps(job_id)["approval"].status == "timed_out"


def test_an_event_that_commits_when_the_time_was_up_still_wins_until_the_run_has_looked(
    bench, rival, clock
):
    bench.enqueue()
    bench.attempt(wait_for_approval)
    with rival.atomic():
        event_id = publish(rival, key="7")
        clock.advance(minutes=11)

    assert bench.attempt(wait_for_approval).value.id == event_id
