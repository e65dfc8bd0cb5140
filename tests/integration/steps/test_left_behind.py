"""A step that changed code reaches no more stays open, and wakes the run for nothing no more."""

from __future__ import annotations

import pytest

from django_durable_jobs import job
from django_durable_jobs.steps import Suspension
from django_durable_jobs.testing.conformance.given import publish


@pytest.fixture
def ship(declaring):
    @job(name="shop.ship", queue="children")
    def ship(order: int) -> int:
        return order

    return ship


def call_before(ctx, ship):
    ctx.step.call("before", ship, 1)


def wait_before(ctx, ship):
    ctx.step.wait_for_event("before", event="paid")


def call_now(ctx, ship):
    return ctx.step.call("now", ship, 2)


def wait_now(ctx, ship):
    return ctx.step.wait_for_event("now", event="approved")


@pytest.mark.parametrize("now", [call_now, wait_now])
@pytest.mark.parametrize("before", [call_before, wait_before])
def test_a_step_left_behind_is_no_reason_to_wake_a_run_that_parks_in_another(
    bench, ship, before, now
):
    """Or it would run and park again without an end, as fast as workers can."""
    job_id = bench.enqueue()
    bench.attempt(lambda ctx: before(ctx, ship))
    publish(bench.worker_store, "paid")
    for child in bench.jobs("shop.ship"):
        bench.worker_store.cancel(child.id, reason="by hand")

    attempt = bench.attempt(lambda ctx: now(ctx, ship))

    assert isinstance(attempt.error, Suspension)
    assert bench.nothing_is_due()
    assert set(bench.steps(job_id)) == {"before", "now"}


def test_an_end_among_many_children_is_no_reason_either(bench, ship):
    bench.enqueue()
    bench.attempt(lambda ctx: call_before(ctx, ship))
    (before,) = bench.jobs("shop.ship")
    bench.worker_store.cancel(before.id, reason="by hand")
    inputs = [{"order": order} for order in range(3)]
    bench.attempt(lambda ctx: ctx.step.map("now", ship, inputs))
    first, second, third = [child for child in bench.jobs("shop.ship") if child.id != before.id]

    for child in (first, second):
        bench.worker_store.cancel(child.id, reason="by hand")
        assert bench.nothing_is_due()
    bench.worker_store.cancel(third.id, reason="by hand")

    assert bench.claim().identity.claim == 3


def test_a_step_that_another_branch_is_parked_in_still_wakes_the_run(bench, ship):
    bench.enqueue()

    def body(ctx):
        return ctx.step.gather(lambda: wait_now(ctx, ship), lambda: call_before(ctx, ship))

    def publishing_late(ctx):
        try:
            body(ctx)
        finally:
            # Behind the last look of the wait, and before the park.
            publish(bench.worker_store, "approved")

    bench.attempt(publishing_late)

    assert bench.claim().identity.claim == 2
