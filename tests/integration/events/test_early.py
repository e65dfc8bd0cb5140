"""An event that is sent about when a run starts reaches it, if its wait says since the run."""

from __future__ import annotations

from contextlib import closing

import pytest
from django.db import transaction

from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.events import publish_event
from django_durable_jobs.steps import Suspension
from django_durable_jobs.store import install_store, reset_store
from django_durable_jobs.testing.conformance.given import enqueue
from tests.integration.steps.bench import REAL, Bench

pytestmark = REAL


@pytest.fixture
def bench():
    store = PostgresStore()
    install_store(store)
    with closing(Bench(store)) as bench:
        yield bench
    reset_store()


def wait(ctx):
    return ctx.step.wait_for_event(
        "payment", event="paid", key="42", timeout="60s", since="run"
    ).payload


def before_the_enqueue_in_its_transaction(bench):
    with transaction.atomic():
        publish_event("paid", "yes", key="42")
        bench.enqueue()


def after_the_enqueue_in_its_transaction(bench):
    with transaction.atomic():
        bench.enqueue()
        publish_event("paid", "yes", key="42")


def in_a_savepoint_of_its_transaction(bench):
    with transaction.atomic():
        with transaction.atomic():
            publish_event("paid", "yes", key="42")
        bench.enqueue()


def while_no_worker_runs(bench):
    bench.enqueue()
    publish_event("paid", "yes", key="42")


def written_before_the_enqueue_and_committed_after_it(bench):
    with closing(bench.store.for_worker()) as other, transaction.atomic():
        publish_event("paid", "yes", key="42")
        enqueue(other)


@pytest.mark.parametrize(
    "send",
    [
        before_the_enqueue_in_its_transaction,
        after_the_enqueue_in_its_transaction,
        in_a_savepoint_of_its_transaction,
        while_no_worker_runs,
        written_before_the_enqueue_and_committed_after_it,
    ],
)
def test_an_event_that_came_before_the_wait_is_taken_at_once(bench, send):
    send(bench)

    attempt = bench.attempt(wait)

    assert (attempt.error, attempt.value) == (None, "yes")


def test_an_event_from_before_the_enqueue_belongs_to_an_earlier_run(bench):
    publish_event("paid", "yes", key="42")
    bench.enqueue()

    assert isinstance(bench.attempt(wait).error, Suspension)
    assert bench.nothing_is_due()


def test_of_two_events_the_first_is_taken_and_the_second_stays_for_the_next_wait(bench):
    def body(ctx):
        return [
            ctx.step.wait_for_event(name, event="paid", since="wait").payload
            for name in ("first", "second")
        ]

    bench.enqueue()
    bench.attempt(body)
    publish_event("paid", 1)
    bench.attempt(body)
    publish_event("paid", 2)

    assert bench.attempt(body).value == [1, 2]


def test_one_event_answers_two_runs_and_none_of_another_key(bench):
    def other(ctx):
        return ctx.step.wait_for_event("payment", event="paid", key="43", since="run")

    def start():
        bench.enqueue()
        return bench.claim()

    first, second, third = start(), start(), start()
    publish_event("paid", "yes", key="42")

    assert [bench.attempt(wait, claimed).value for claimed in (first, second)] == ["yes", "yes"]
    assert isinstance(bench.attempt(other, third).error, Suspension)
    assert bench.nothing_is_due()
