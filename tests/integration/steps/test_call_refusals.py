"""A call where it could not keep its promise is refused, and stores nothing."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import transaction

from django_durable_jobs.exceptions import (
    InputInvalid,
    OptionInvalid,
    QueueNotDeclared,
    StepRefused,
)
from django_durable_jobs.steps import JobContext, Suspension
from tests.integration.steps.bench import LEASE


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"idempotency_key": "x"},
            "Job 'shop.ship': option idempotency_key is given to a child, whose id is made of "
            "its parent and the step. Leave it out, or enqueue the job with ctx.step.enqueue().",
        ),
        (
            {"transactional": False},
            "Job 'shop.ship': option transactional is False for a child, which is stored "
            "together with its step. Leave it out.",
        ),
    ],
)
def test_an_option_that_a_child_cannot_have_is_refused(bench, ship, options, text):
    parent = bench.enqueue()
    error = bench.attempt(lambda ctx: ctx.step.call("ship", ship.using(**options), order=7)).error

    assert isinstance(error, OptionInvalid)
    assert str(error) == text
    assert (bench.steps(parent), bench.jobs("shop.ship")) == ({}, [])


def test_input_that_does_not_fit_is_refused_and_nothing_is_stored(bench, ship):
    parent = bench.enqueue()
    error = bench.attempt(lambda ctx: ctx.step.call("ship", ship, order="seven")).error

    assert isinstance(error, InputInvalid)
    assert [path for path, _ in error.problems] == ["order"]
    assert (bench.steps(parent), bench.jobs("shop.ship")) == ({}, [])
    assert bench.row(parent).state == "dead"


def test_a_child_for_a_queue_that_nobody_serves_is_refused(bench, ship):
    parent = bench.enqueue()
    error = bench.attempt(
        lambda ctx: ctx.step.call("ship", ship.using(queue="nowhere"), order=7)
    ).error

    assert isinstance(error, QueueNotDeclared)
    assert (bench.steps(parent), bench.jobs("shop.ship")) == ({}, [])


OTHERS = {
    "run": lambda ctx: ctx.step.run("step", lambda: 1),
    "sleep": lambda ctx: ctx.step.sleep("step", 0),
    "sleeping": lambda ctx: ctx.step.sleep("step", "1h"),
    "waiting": lambda ctx: ctx.step.wait_for_event("step", event="paid"),
    "timed out": lambda ctx: ctx.step.wait_for_event("step", event="paid", timeout=0),
    "empty map": lambda ctx: ctx.step.map("step", EMPTY[0], []),
}
EMPTY: list[object] = []


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_name_of_another_verb_s_step_is_refused(bench, ship, other):
    EMPTY[:] = [ship]
    bench.enqueue()

    def first(ctx):
        other(ctx)
        raise ValueError("crash")

    claimed = bench.claim()
    with suppress(ValueError, Suspension):
        first(bench.context(claimed))
    bench.worker_store.lapse([claimed.identity])
    (again,) = bench.worker_store.rescue(
        "worker-2", ["default"], limit=9, lease=LEASE, drop_exhausted=()
    ).claimed
    error = bench.attempt(lambda ctx: ctx.step.call("step", ship, order=7), again).error

    assert isinstance(error, StepRefused)
    assert "was stored by another verb" in str(error)
    assert bench.jobs("shop.ship") == []


@pytest.mark.parametrize(
    "other",
    [
        lambda ctx, ship: ctx.step.run("ship", lambda: 1),
        lambda ctx, ship: ctx.step.atomic("ship", lambda: 1),
        lambda ctx, ship: ctx.step.sleep("ship", "1h"),
        lambda ctx, ship: ctx.step.wait_for_event("ship", event="paid"),
        lambda ctx, ship: ctx.step.map("ship", ship, [{"order": 7}]),
    ],
    ids=["run", "atomic", "sleep", "wait", "map"],
)
@pytest.mark.parametrize("is_over", [False, True])
def test_the_name_of_a_call_is_refused_to_every_other_verb(bench, ship, other, is_over):
    bench.enqueue()

    def crash(ctx):
        ctx.step.call("ship", ship, order=7)
        raise ValueError("crash")

    if is_over:
        bench.attempt(crash)
        bench.work()
        bench.attempt(crash)
        claimed = bench.claim()
    else:
        claimed = bench.claim()
        with suppress(Suspension):
            crash(bench.context(claimed))
        bench.worker_store.lapse([claimed.identity])
        (claimed,) = bench.worker_store.rescue(
            "worker-2", ["default"], limit=9, lease=LEASE, drop_exhausted=()
        ).claimed
    error = bench.attempt(lambda ctx: other(ctx, ship), claimed).error

    assert isinstance(error, StepRefused)
    assert "was stored by another verb" in str(error)


def test_a_call_inside_a_transaction_is_refused(bench, ship):
    parent = bench.enqueue()

    def body(ctx):
        block = transaction.atomic() if bench.store.features.transactional else bench.store.atomic()
        with block:
            ctx.step.call("ship", ship, order=7)

    error = bench.attempt(body).error

    assert isinstance(error, StepRefused)
    assert "was called inside a transaction" in str(error)
    assert (bench.steps(parent), bench.jobs("shop.ship")) == ({}, [])


def test_a_call_inside_a_step_is_refused(bench, ship):
    parent = bench.enqueue()
    error = bench.attempt(
        lambda ctx: ctx.step.run("outer", lambda: ctx.step.call("ship", ship, order=7))
    ).error

    assert str(error) == (
        "Step 'ship' was called while step 'outer' runs. Call plain functions inside a step; "
        "run steps side by side with ctx.step.gather()."
    )
    assert (bench.steps(parent), bench.jobs("shop.ship")) == ({}, [])


def test_a_call_is_refused_inline(bench, ship):
    with pytest.raises(StepRefused) as caught:
        JobContext.inline("shop.pay").step.call("ship", ship, order=7)

    assert str(caught.value) == (
        "Step 'ship' would wait, and a job that is called inline cannot. "
        "Enqueue the job, or pass what it waits for."
    )
    assert bench.jobs("shop.ship") == []


def test_a_call_is_refused_in_a_job_that_is_atomic_as_a_whole(bench, ship):
    bench.enqueue()
    error = bench.attempt(lambda ctx: ctx.step.call("ship", ship, order=7), atomic_job=True).error

    assert isinstance(error, StepRefused)
    assert bench.jobs("shop.ship") == []


def test_the_timeout_of_a_wait_for_children_is_none(bench, ship, clock):
    parent = bench.enqueue()
    bench.attempt(lambda ctx: ctx.step.call("ship", ship.using(delay="90d"), order=7))
    clock.advance(days=80)

    assert bench.nothing_is_due()
    assert bench.row(parent).run_at - bench.row(parent).created_at > timedelta(days=1_000)
