"""A child that does not end well fails its parent's step, the same at every run."""

from __future__ import annotations

import pytest

from django_durable_jobs import Retry, job
from django_durable_jobs.exceptions import ChildFailed, PayloadInvalid
from django_durable_jobs.policies.classification import Terminal, classify, facts_of
from django_durable_jobs.steps import Suspension
from tests.integration.steps.bench import LEASE
from tests.integration.steps.calling import OutOfStock


def test_a_failure_comes_back_with_what_is_known_of_it_and_the_same_at_a_replay(bench, failing):
    parent = bench.enqueue()
    errors = []

    def body(ctx):
        try:
            ctx.step.call("ship", failing)
        except ChildFailed as error:
            errors.append(error)
            if ctx.attempt == 1:
                raise ValueError("crash") from None
            raise

    bench.attempt(body)
    bench.work()
    bench.attempt(body)
    bench.attempt(body)

    (child,) = bench.jobs("shop.failing")
    for error in errors:
        assert (error.step, error.job, error.job_id, error.state, error.index) == (
            "ship",
            "shop.failing",
            str(child.id),
            "dead",
            None,
        )
        assert (error.child_code, error.message) == (
            "X_SHOP_OUT_OF_STOCK",
            "none left of article 7",
        )
        assert error.error_class == f"{OutOfStock.__module__}.OutOfStock"
        assert str(error) == (
            f"Step 'ship': its child 'shop.failing' ({child.id}) is dead: "
            f"{OutOfStock.__module__}.OutOfStock: none left of article 7. "
            "Mend the cause, then requeue this job from that step."
        )
    assert len(errors) == 2
    assert bench.steps(parent)["ship"].status == "failed"
    # Terminal: another attempt would meet the same stored failure.
    assert (bench.row(parent).state, bench.row(parent).error_code) == (
        "dead",
        "X_STEP_CHILD_FAILED",
    )


def test_a_failure_that_the_body_handles_is_its_own_affair(bench, failing):
    parent = bench.enqueue()

    def body(ctx):
        try:
            return ctx.step.call("ship", failing)
        except ChildFailed as error:
            return ctx.step.run("instead", "refunded, child {}".format, error.state)

    bench.attempt(body)
    bench.work()

    assert bench.attempt(body).value == "refunded, child dead"
    assert bench.row(parent).state == "done"


def test_a_child_that_was_cancelled_fails_with_the_reason(bench, ship):
    bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", ship, order=7)

    bench.attempt(body)
    (child,) = bench.jobs("shop.ship")
    bench.store.cancel(child.id, reason="the customer called")
    error = bench.attempt(body).error

    assert isinstance(error, ChildFailed)
    assert (error.state, error.message, error.child_code) == (
        "cancelled",
        "the customer called",
        "",
    )
    assert str(error) == (
        f"Step 'ship': its child 'shop.ship' ({child.id}) is cancelled: the customer called. "
        "Mend the cause, then requeue this job from that step."
    )


def test_a_child_that_was_removed_fails_and_does_not_start_again(bench, ship):
    bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", ship, order=7)

    bench.attempt(body)
    (child,) = bench.jobs("shop.ship")
    bench.store.remove(child.id)
    error = bench.attempt(body).error

    assert isinstance(error, ChildFailed)
    assert (error.state, error.job_id) == ("removed", str(child.id))
    assert str(error) == (
        f"Step 'ship': its child 'shop.ship' ({child.id}) is removed. "
        "Mend the cause, then requeue this job from that step."
    )
    assert bench.jobs("shop.ship") == []


def test_a_child_whose_worker_died_on_its_last_attempt_fails(bench, failing):
    bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", failing)

    bench.attempt(body)
    child = bench.claim()
    bench.worker_store.lapse([child.identity])
    bench.worker_store.rescue("worker-2", ["default"], limit=9, lease=LEASE, drop_exhausted=())
    error = bench.attempt(body).error

    assert isinstance(error, ChildFailed)
    assert error.state == "dead"
    assert error.message


def test_a_child_that_drops_at_exhaustion_is_failed(bench, declaring):
    @job(name="shop.drops", retry=Retry(attempts=1, dead_letter=False))
    def drops() -> int:
        raise OutOfStock("gone")

    bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", drops)

    bench.attempt(body)
    bench.work()
    error = bench.attempt(body).error

    assert isinstance(error, ChildFailed)
    assert error.state == "failed"


def test_no_child_failure_is_tried_again():
    error = ChildFailed("ship", "shop.ship", "0", "dead", child_code="X_DRIVER_UNAVAILABLE")

    assert isinstance(classify(facts_of(error)), Terminal)


@pytest.mark.parametrize("verb", ["call", "map"])
def test_a_result_that_newer_code_cannot_read_is_refused_and_says_what_to_do(
    bench, clock, declaring, verb
):
    @job(name="shop.weigh")
    def weigh() -> str:
        return "heavy"

    @job(name="shop.weigh in grams")
    def weigh_in_grams() -> int:
        return 1500

    def older(ctx):
        ctx.step.call("weigh", weigh) if verb == "call" else ctx.step.map("weigh", weigh, [{}])
        ctx.step.sleep("nap", "1h")

    def newer(ctx):
        if verb == "call":
            return ctx.step.call("weigh", weigh_in_grams)
        return ctx.step.map("weigh", weigh_in_grams, [{}])

    job_id = bench.enqueue()
    bench.attempt(older)
    bench.work()
    assert isinstance(bench.attempt(older).error, Suspension)
    clock.advance(hours=2)

    error = bench.attempt(newer).error

    assert isinstance(error, PayloadInvalid)
    assert error.cause.startswith("The result of job 'shop.weigh in grams' was refused: ")
    assert error.fix == (
        "Deploy code that reads it, or requeue the job from step 'weigh' for a new child."
    )
    assert bench.row(job_id).state == "dead"
