"""Timeouts of many runs on one thread."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from django_durable_jobs.exceptions import Draining, JobTimeout, LeaseLost
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.testing.conformance import given
from django_durable_jobs.worker.crew import Run
from django_durable_jobs.worker.deadlines import Deadlines
from tests.acceptance.conditions import until

PATIENCE = 20
HOUR = timedelta(hours=1)
SOON = timedelta(milliseconds=20)


@pytest.fixture
def runs(store):
    for _ in range(20):
        given.enqueue(store)
    return [Run(job, CancelSignal(job.identity.job_id)) for job in given.claim(store, 20)]


def test_each_run_is_cancelled_at_its_own_timeout_and_only_then(runs):
    abandoned: list[Run] = []
    deadlines = Deadlines(grace=SOON, abandoned=abandoned.append)
    deadlines.start()
    patient, hasty = runs[0], runs[1]
    deadlines.watch(patient, HOUR)
    deadlines.watch(hasty, SOON)

    assert hasty.signal.wait(PATIENCE)
    assert isinstance(hasty.signal.reason, JobTimeout)
    until(lambda: abandoned == [hasty], seconds=PATIENCE)
    assert not patient.signal.is_set


def test_a_run_that_ended_is_neither_cancelled_nor_abandoned(runs):
    abandoned: list[Run] = []
    deadlines = Deadlines(grace=SOON, abandoned=abandoned.append)
    deadlines.start()
    ended, last = runs[0], runs[1]
    deadlines.watch(ended, SOON)
    deadlines.forget(ended)
    deadlines.watch(last, timedelta(milliseconds=60))

    until(lambda: abandoned == [last], seconds=PATIENCE)
    assert not ended.signal.is_set


def test_a_run_that_was_settled_at_its_timeout_is_not_abandoned(runs):
    abandoned: list[Run] = []
    deadlines = Deadlines(grace=SOON, abandoned=abandoned.append)
    deadlines.start()
    settled, last = runs[0], runs[1]
    assert settled.settle_once()
    deadlines.watch(settled, SOON)
    deadlines.watch(last, timedelta(milliseconds=60))

    until(lambda: abandoned == [last], seconds=PATIENCE)
    assert not settled.signal.is_set


@pytest.mark.parametrize("timeout", [None, HOUR])
@pytest.mark.parametrize("reason", [Draining(), LeaseLost("a job", "go on with it")])
def test_whatever_cancels_a_run_its_grace_begins_with_that(runs, timeout, reason):
    abandoned: list[Run] = []
    deadlines = Deadlines(grace=SOON, abandoned=abandoned.append)
    deadlines.start()
    cancelled, other = runs[0], runs[1]
    deadlines.watch(cancelled, timeout)
    deadlines.watch(other, timeout)
    cancelled.signal.cancel(reason)

    until(lambda: abandoned == [cancelled], seconds=PATIENCE)
    assert not other.signal.is_set


def test_a_run_that_was_cancelled_before_it_is_watched_has_its_grace_all_the_same(runs):
    abandoned: list[Run] = []
    deadlines = Deadlines(grace=SOON, abandoned=abandoned.append)
    deadlines.start()
    runs[0].signal.cancel(Draining())
    deadlines.watch(runs[0], None)

    until(lambda: abandoned == runs[:1], seconds=PATIENCE)


def test_the_end_of_an_attempt_is_no_cancelling(runs):
    abandoned: list[Run] = []
    deadlines = Deadlines(grace=SOON, abandoned=abandoned.append)
    deadlines.start()
    ended, last = runs[0], runs[1]
    deadlines.watch(ended, None)
    ended.signal.end()
    deadlines.watch(last, timedelta(milliseconds=60))

    until(lambda: abandoned == [last], seconds=PATIENCE)


def test_a_failing_abandonment_does_not_end_the_watch(runs):
    reached = threading.Event()

    def fail_first(run: Run) -> None:
        if run is runs[0]:
            raise RuntimeError("the store broke")
        reached.set()

    deadlines = Deadlines(grace=SOON, abandoned=fail_first)
    deadlines.start()
    deadlines.watch(runs[0], SOON)
    deadlines.watch(runs[1], timedelta(milliseconds=60))

    assert reached.wait(PATIENCE)


def test_ended_runs_are_not_kept(runs):
    """Most jobs end long before their timeout; a busy worker would collect them."""
    deadlines = Deadlines(grace=SOON, abandoned=lambda run: None)
    for _ in range(500):
        for run in runs:
            deadlines.watch(run, HOUR)
            deadlines.forget(run)

    assert deadlines.kept <= 1_100


def test_a_run_that_ends_at_its_timeout_is_not_kept(runs):
    deadlines = Deadlines(grace=HOUR, abandoned=lambda run: None)
    cancelled = threading.Event()
    run = runs[0]

    def end(reason: object) -> None:
        # On the watching thread, between the cancelling and the watch for the grace.
        deadlines.forget(run)
        cancelled.set()

    run.signal.subscribe(end)
    deadlines.start()
    deadlines.watch(run, SOON)

    assert cancelled.wait(PATIENCE)
    until(lambda: deadlines.kept == 0, seconds=PATIENCE)
