"""A wait since the run's enqueue misses nothing that came before the run got there."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import transaction

from django_durable_jobs import clock as process_clock
from django_durable_jobs.events import publish_event
from django_durable_jobs.exceptions import StepRefused
from django_durable_jobs.steps import Suspension
from django_durable_jobs.store.ids import new_id
from tests.integration.steps.bench import REAL


def waits(since="run", key=None, timeout="60s"):
    def body(ctx):
        ctx.step.run("before", lambda: 1)
        event = ctx.step.wait_for_event(
            "payment", event="paid", key=key, timeout=timeout, since=since
        )
        return event and event.payload

    return body


def test_an_event_right_after_the_enqueue_is_taken_at_once(bench):
    job_id = bench.enqueue()
    publish_event("paid", "early")

    assert bench.attempt(waits()).value == "early"
    assert bench.row(job_id).state == "done"


def test_an_event_while_no_worker_runs_is_taken_when_one_does(bench, clock):
    bench.enqueue()
    publish_event("paid", "early")
    clock.advance(hours=5)

    assert bench.attempt(waits()).value == "early"


def test_by_default_what_came_before_the_wait_is_not_taken(bench):
    bench.enqueue()
    publish_event("paid", "early")

    assert isinstance(bench.attempt(waits(since="wait")).error, Suspension)
    assert bench.nothing_is_due()


def test_an_event_before_the_enqueue_is_not_taken(bench, clock):
    publish_event("paid", "of an earlier order")
    clock.advance(seconds=1)
    bench.enqueue()

    assert isinstance(bench.attempt(waits()).error, Suspension)
    assert bench.nothing_is_due()


def test_an_event_after_the_wait_began_is_taken_as_ever(bench):
    bench.enqueue()
    bench.attempt(waits())
    publish_event("paid", "in time")

    assert bench.attempt(waits()).value == "in time"


@REAL
@pytest.mark.parametrize("order", ["event first", "job first"])
def test_an_event_of_the_transaction_that_enqueued_the_run_is_taken(real_bench, order):
    with transaction.atomic():
        if order == "event first":
            publish_event("paid", "same transaction")
        real_bench.enqueue()
        if order == "job first":
            publish_event("paid", "same transaction")

    assert real_bench.attempt(waits()).value == "same transaction"


@REAL
def test_an_event_that_was_rolled_back_is_not_taken(real_bench):
    real_bench.enqueue()
    with suppress(ValueError), transaction.atomic():
        publish_event("paid", "never")
        raise ValueError

    assert isinstance(real_bench.attempt(waits()).error, Suspension)


@REAL
def test_an_event_that_was_written_before_the_enqueue_and_committed_after_is_taken(real_bench):
    session = real_bench.store.for_worker()
    try:
        with session.atomic():
            session.publish(new_id(), "paid", '"late commit"', key=None, ttl=timedelta(days=1))
            real_bench.enqueue()
    finally:
        session.close()

    assert real_bench.attempt(waits()).value == "late commit"


@pytest.mark.parametrize("wait_since", ["run", "wait"])
def test_the_key_counts_whatever_the_beginning(bench, wait_since):
    bench.enqueue()
    publish_event("paid", "of another order", key="41")
    publish_event("paid", "of no order")

    assert isinstance(bench.attempt(waits(wait_since, key="42")).error, Suspension)
    publish_event("paid", "of another order", key="41")
    assert bench.nothing_is_due()
    publish_event("paid", "ours", key="42")
    assert bench.attempt(waits(wait_since, key="42")).value == "ours"


def test_of_two_events_the_first_is_taken_and_the_second_is_left(bench, clock):
    bench.enqueue()
    publish_event("paid", "first")
    clock.advance(seconds=1)
    publish_event("paid", "second")

    assert bench.attempt(waits()).value == "first"


def test_two_waits_since_the_run_take_the_same_event(bench):
    """Taking does not use an event up; a wait for the next one begins where it stands."""
    bench.enqueue()
    publish_event("paid", "early")

    def body(ctx):
        return [
            ctx.step.wait_for_event(name, event="paid", since="run").payload
            for name in ("first", "second")
        ]

    assert bench.attempt(body).value == ["early", "early"]


def test_one_event_answers_every_run_of_its_key_that_was_there(bench):
    jobs = [bench.enqueue() for _ in range(3)]
    publish_event("paid", "all", key="42")
    values = [bench.attempt(waits(key="42"), bench.claim_any()).value for _ in jobs]

    assert values == ["all"] * 3


def test_an_event_addressed_to_one_run_is_taken_by_no_other(bench):
    ours, other = bench.enqueue(), bench.enqueue()
    publish_event("paid", "ours", job_id=ours)
    ends = {}
    for _ in range(2):
        claimed = bench.claim_any()
        ends[claimed.identity.job_id] = bench.attempt(waits(key="42"), claimed)

    assert ends[ours].value == "ours"
    assert isinstance(ends[other].error, Suspension)


def test_a_replay_answers_the_event_that_was_taken_first(bench):
    bench.enqueue()
    publish_event("paid", "first")

    def body(ctx):
        value = waits()(ctx)
        if ctx.attempt == 1:
            raise ValueError("crash")
        return value

    bench.attempt(body)
    publish_event("paid", "second")

    assert bench.attempt(body).value == "first"


def test_the_timeout_counts_from_the_reach_and_not_from_the_enqueue(bench, clock):
    job_id = bench.enqueue()
    clock.advance(hours=5)
    before = process_clock.now()
    bench.attempt(waits(timeout="1h"))
    step = bench.steps(job_id)["payment"]

    assert abs(step.wake_at - before - timedelta(hours=1)) < timedelta(minutes=1)


def test_an_event_that_expired_before_the_reach_is_not_taken(bench, clock):
    bench.enqueue()
    publish_event("paid", "expired", ttl="1h")
    clock.advance(hours=2)

    assert isinstance(bench.attempt(waits()).error, Suspension)


def test_a_run_requeued_as_it_is_still_counts_from_its_enqueue(bench):
    job_id = bench.enqueue()
    publish_event("paid", "early")

    def fails(ctx):
        ctx.step.run("before", lambda: 1)
        raise StepRefused("before", "is not wanted.")

    bench.attempt(fails)
    bench.store.requeue(job_id)

    assert bench.attempt(waits()).value == "early"


@pytest.mark.parametrize("since", ["now", None, 7, ""])
def test_a_beginning_that_is_none_is_refused(bench, since):
    job_id = bench.enqueue()
    error = bench.attempt(waits(since=since)).error

    assert isinstance(error, StepRefused)
    assert str(error) == (
        "Step 'payment' cannot wait: its since is neither 'wait' nor 'run'. Leave it out."
    )
    assert set(bench.steps(job_id)) == {"before"}
