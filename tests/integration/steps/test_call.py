"""A child holds no slot of its parent, and its result comes back typed at every run."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_type

import pytest

from django_durable_jobs import Retry, job
from django_durable_jobs.exceptions import ChildFailed, StepRefused
from django_durable_jobs.steps import JobContext, Suspension
from django_durable_jobs.store.rows import QueueDemand
from tests.integration.steps.bench import LEASE
from tests.integration.steps.calling import OutOfStock, Parcel, answers


def test_the_result_is_typed_alike_at_the_first_run_and_at_a_replay(bench, ship):
    bench.enqueue()

    first, again = answers(bench, lambda ctx: ctx.step.call("ship", ship, order=7))

    assert first == again == Parcel(7, Decimal("1.50"))
    assert type(first.weight) is Decimal


@pytest.mark.parametrize("value", [1e16, 0.1, 12345678901234567890, -0.5, "Zoë ♥", None, [1.0], {}])
def test_a_result_without_annotation_is_the_same_json_at_every_run(bench, declaring, value):
    @job(name="shop.plain")
    def plain():
        return value

    bench.enqueue()

    first, again = answers(bench, lambda ctx: ctx.step.call("plain", plain))

    assert first == again == value
    assert type(first) is type(again) is type(value)


def test_a_result_of_none_counts_as_an_answer(bench, declaring):
    ran = []

    @job(name="shop.note")
    def note() -> None:
        ran.append("note")

    bench.enqueue()

    assert answers(bench, lambda ctx: ctx.step.call("note", note)) == [None, None]
    assert ran == ["note"]


def test_the_run_is_parked_while_the_child_lives_and_comes_back_at_its_end(bench, ship):
    parent = bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", ship, order=7)

    parked = bench.attempt(body)

    assert isinstance(parked.error, Suspension)
    assert parked.settlement.calls
    row, step = bench.row(parent), bench.steps(parent)["ship"]
    assert (row.state, row.attempt, row.is_armed) == ("suspended", 0, False)
    (child,) = bench.jobs("shop.ship")
    assert (child.parent_id, child.parent_step, child.state) == (parent, "ship", "ready")
    assert (step.status, step.family_id, step.children) == ("calling", child.id, 1)

    bench.work()

    assert bench.row(parent).is_armed
    assert bench.attempt(body).value == Parcel(7, Decimal("1.50"))
    assert bench.steps(parent)["ship"].status == "done"


def test_a_run_that_comes_back_early_waits_on_for_the_same_child(bench, ship):
    parent = bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", ship, order=7)

    bench.interrupt(body)
    claimed = next(
        each
        for each in bench.worker_store.claim("worker-1", [QueueDemand("default", 9)], lease=LEASE)
        if each.identity.job_id == parent
    )

    assert isinstance(bench.attempt(body, claimed).error, Suspension)
    assert len(bench.jobs("shop.ship")) == 1


def test_a_child_that_is_tried_again_leaves_its_parent_parked_meanwhile(bench, declaring):
    tries = []

    @job(name="shop.shaky", retry=Retry(attempts=3, delay=0, jitter="none"))
    def shaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise OutOfStock
        return len(tries)

    parent = bench.enqueue()

    def body(ctx):
        return ctx.step.call("shaky", shaky)

    bench.attempt(body)
    bench.work(times=2)
    assert (bench.row(parent).state, bench.row(parent).is_armed) == ("suspended", False)
    bench.work()

    assert bench.attempt(body).value == 3


def test_parent_and_child_finish_on_one_queue_with_one_slot(bench, ship, declaring):
    """A parent that held its slot while it waits would keep its own child out."""

    @job(name="shop.order")
    def order(ctx: JobContext, number: int) -> Parcel:
        parcel: Parcel = ctx.step.call("ship", ship, order=number)
        return parcel

    results = [order.enqueue(number=number) for number in (1, 2, 3)]

    worked = bench.work_off(slots=1)

    for result in results:
        result.refresh()
    assert [result.return_value for result in results] == [
        Parcel(number, Decimal("1.50")) for number in (1, 2, 3)
    ]
    # Once to begin, once for the child, once to end.
    assert len(worked) == 9


def test_a_child_may_call_a_child(bench, ship, declaring):
    @job(name="shop.middle")
    def middle(ctx: JobContext) -> Parcel:
        parcel: Parcel = ctx.step.call("ship", ship, order=1)
        return parcel

    @job(name="shop.outer")
    def outer(ctx: JobContext) -> Parcel:
        return ctx.step.call("ship", middle)

    result = outer.enqueue()
    bench.work_off(slots=1)
    result.refresh()

    assert result.return_value == Parcel(1, Decimal("1.50"))


def test_a_child_that_ends_before_its_parent_is_parked_wakes_it_all_the_same(bench, ship):
    """It found its parent running, and nobody else would look again."""
    parent = bench.enqueue()

    def body(ctx):
        try:
            return ctx.step.call("ship", ship, order=7)
        except Suspension:
            bench.work()
            raise

    assert isinstance(bench.attempt(body).error, Suspension)
    assert bench.row(parent).is_armed
    assert bench.attempt(body).value == Parcel(7, Decimal("1.50"))


def test_a_parent_that_was_cancelled_and_requeued_goes_on_with_the_same_child(bench, ship):
    parent = bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", ship.using(delay="1h"), order=7)

    bench.attempt(body)
    bench.store.cancel(parent, reason="")
    bench.store.requeue(parent)
    assert isinstance(bench.attempt(body).error, Suspension)
    (child,) = bench.jobs("shop.ship")
    bench.store.promote(child.id)
    bench.work()

    assert bench.attempt(body).value == Parcel(7, Decimal("1.50"))


def test_a_child_that_was_requeued_before_its_parent_looked_is_waited_for_again(bench, failing):
    parent = bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", failing)

    bench.attempt(body)
    bench.work()
    (child,) = bench.jobs("shop.failing")
    claimed = bench.claim()
    bench.store.requeue(child.id)

    assert isinstance(bench.attempt(body, claimed).error, Suspension)
    assert not bench.row(parent).is_armed
    bench.work()
    assert isinstance(bench.attempt(body).error, ChildFailed)


def test_verbs_keep_the_types_of_what_they_are_given(declaring: None) -> None:
    """Checked by mypy: the arguments are those of the job, and so is the answer."""

    @job(name="shop.typed")
    def typed(order: int) -> Parcel:
        return Parcel(order, Decimal(1))

    step = JobContext.inline("shop.pay").step
    with pytest.raises(StepRefused):
        assert_type(step.call("call", typed, order=7), Parcel)
    with pytest.raises(StepRefused):
        assert_type(step.call("options", typed.using(priority=1), 7), Parcel)
    with pytest.raises(StepRefused):
        assert_type(step.map("map", typed, [{"order": 7}]), list[Parcel])
    with pytest.raises(StepRefused):
        step.call("extra", typed, article=7)  # type: ignore[call-arg] # refused by the signature
    assert_type(step.gather(lambda: 1, lambda: 2), list[int])
