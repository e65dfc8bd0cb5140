"""What became of an attempt stands in the row and in its history, whatever was raised."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.exceptions import Draining, JobTimeout, LeaseLost
from django_durable_jobs.settle import settlement_of_unknown
from tests.integration.steps.bench import REAL, Bench


@pytest.fixture(params=["memory", pytest.param("postgres", marks=REAL)])
def bench(request):
    bench = Bench(MemoryStore() if request.param == "memory" else PostgresStore())
    yield bench
    bench.close()


class Boom(Exception):
    code = "X_BOOM"


def raising(error):
    def body(ctx):
        raise error

    return body


def test_a_failed_attempt_is_in_the_history_and_the_job_due_again(bench):
    job_id = bench.enqueue()
    bench.attempt(raising(Boom("The gateway is away.")))

    row = bench.row(job_id)
    (attempt,) = bench.worker_store.attempts(job_id)
    assert (row.state, row.attempt, row.error_code) == ("ready", 1, "X_BOOM")
    assert row.last_error == "The gateway is away."
    assert (attempt.attempt, attempt.code) == (1, "X_BOOM")
    assert attempt.error_class.endswith("Boom")
    assert "raise error" in attempt.traceback


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a\0b"),
        ValueError("\ud800"),
        ValueError("x" * 1_000_000),
        ExceptionGroup("many", [ValueError("a\0")] * 50),
        RecursionError(),
        SystemExit(3),
    ],
    ids=["nul", "surrogate", "huge", "group", "recursion", "exit"],
)
def test_a_failure_can_always_be_stored(bench, error):
    job_id = bench.enqueue()

    assert bench.attempt(raising(error)).landed
    assert bench.row(job_id).state == "ready"
    assert len(bench.worker_store.attempts(job_id)) == 1


def test_a_job_out_of_attempts_is_dead_and_says_why(bench):
    job_id = bench.enqueue(max_attempts=2)
    bench.attempt(raising(Boom("first")))
    bench.attempt(raising(Boom("second")))

    row = bench.row(job_id)
    assert (row.state, row.attempt, row.last_error) == ("dead", 2, "second")
    assert row.stop_reason == "The last of 2 attempts failed."
    assert row.finished_at is not None
    assert [one.message for one in bench.worker_store.attempts(job_id)] == ["second", "first"]


def test_an_attempt_interrupted_by_the_drain_leaves_no_trace_but_the_job_due_again(bench):
    job_id = bench.enqueue(max_attempts=1)

    def body(ctx):
        ctx.signal.cancel(Draining())
        ctx.check()

    bench.attempt(body)

    row = bench.row(job_id)
    assert (row.state, row.attempt, row.last_error) == ("ready", 0, "")
    assert bench.worker_store.attempts(job_id) == []
    assert bench.attempt(lambda ctx: "done").value == "done"


def test_an_attempt_that_outlived_its_timeout_has_failed(bench):
    job_id = bench.enqueue(max_attempts=1)

    def body(ctx):
        ctx.signal.cancel(JobTimeout("shop.pay", 300))
        return "after all"

    bench.attempt(body)

    row = bench.row(job_id)
    assert (row.state, row.error_code, row.result) == ("dead", "X_JOB_TIMEOUT", None)


def test_an_attempt_whose_lease_was_lost_changes_nothing(bench):
    job_id = bench.enqueue()

    def body(ctx):
        bench.steal(job_id)
        ctx.signal.cancel(LeaseLost(job_id, "renew the lease"))
        raise ValueError("too late")

    attempt = bench.attempt(body)

    row = bench.row(job_id)
    assert (attempt.settlement, attempt.landed) == (None, False)
    assert (row.state, row.worker_id) == ("running", "thief")
    assert "too late" not in row.last_error


def test_an_attempt_that_never_heard_of_its_lost_lease_does_not_land(bench):
    """Another connection takes the row between the end of the body and the settle."""
    job_id = bench.enqueue()

    def body(ctx):
        bench.steal(job_id)
        return "done"

    attempt = bench.attempt(body)

    assert attempt.settlement.state == "done"
    assert not attempt.landed
    assert bench.row(job_id).state == "running"


def test_a_job_of_unknown_name_keeps_its_attempts_and_is_buried_after_a_day(bench, clock):
    job_id = bench.enqueue(max_attempts=1)
    rounds = 0
    while bench.row(job_id).state == "ready":
        settlement = settlement_of_unknown(bench.claim())
        assert bench.worker_store.settle([settlement]) == [True]
        assert bench.row(job_id).attempt == 0
        if settlement.delay is not None:
            clock.advance(seconds=settlement.delay.total_seconds())
        rounds += 1

    row = bench.row(job_id)
    assert (row.state, row.error_code, row.attempt) == ("dead", "X_JOB_UNKNOWN", 0)
    assert 24 * 2 <= rounds <= 24 * 2 + 10
    assert row.finished_at - row.created_at < timedelta(hours=25)


def test_a_name_that_becomes_known_in_time_runs_as_if_nothing_had_been(bench):
    job_id = bench.enqueue(max_attempts=1)
    settlement = settlement_of_unknown(bench.claim())
    bench.worker_store.settle([replace(settlement, delay=timedelta(0))])

    assert bench.attempt(lambda ctx: ctx.attempt).value == 1
    assert bench.row(job_id).state == "done"
