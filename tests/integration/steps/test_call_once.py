"""A child is started once, whatever becomes of its parent's process, and as what it is."""

from __future__ import annotations

from decimal import Decimal

import pytest

from django_durable_jobs import job
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store.rows import QueueDemand
from tests.integration.steps.bench import LEASE, Killed, Stand, dying_at, losing_the_answer
from tests.integration.steps.calling import Parcel


def test_a_process_that_dies_between_insert_and_checkpoint_starts_the_child_once(bench, ship):
    parent = bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", ship, order=7)

    claimed = bench.claim()
    with pytest.raises(Killed):
        body(bench.context(claimed, user_store=dying_at(bench.store, "put_step")))
    assert bench.steps(parent) == {}
    bench.worker_store.lapse([claimed.identity])
    (again,) = bench.worker_store.rescue(
        "worker-2", ["default"], limit=9, lease=LEASE, drop_exhausted=()
    ).claimed
    bench.attempt(body, again)

    assert len(bench.jobs("shop.ship")) == 1
    bench.work()
    assert bench.attempt(body).value == Parcel(7, Decimal("1.50"))


def test_a_commit_whose_answer_was_lost_starts_the_child_once(bench, ship):
    bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", ship, order=7)

    lost = bench.attempt(body, user_store=losing_the_answer(bench.store))
    assert isinstance(lost.error, StoreUnavailable)
    (child,) = bench.jobs("shop.ship")
    claimed = {each.name: each for each in bench.worker_store.claim(
        "worker-1", [QueueDemand("default", 9)], lease=LEASE
    )}  # fmt: skip
    bench.attempt(body, claimed["shop.pay"])

    assert [row.id for row in bench.jobs("shop.ship")] == [child.id]


def test_the_end_of_a_child_whose_answer_was_lost_is_read_again(bench, ship):
    bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", ship, order=7)

    bench.attempt(body)
    bench.work()

    def put_step(*args):
        bench.worker_store.put_step(*args)
        raise StoreUnavailable("The answer was lost.")

    lost = bench.attempt(body, store=Stand(bench.worker_store, put_step=put_step))

    assert isinstance(lost.error, StoreUnavailable)
    assert bench.attempt(body).value == Parcel(7, Decimal("1.50"))


def test_a_worker_that_lost_its_lease_starts_no_child(bench, ship):
    parent = bench.enqueue()
    attempt = bench.attempt(lambda ctx: (bench.steal(parent), ctx.step.call("ship", ship, order=7)))

    assert attempt.settlement is None
    assert bench.steps(parent) == {}
    # The memory driver has no transaction to take the insert back; the thief finds that very child.
    if bench.store.features.transactional:
        assert bench.jobs("shop.ship") == []


def test_two_calls_of_one_job_are_two_children_whatever_key_it_declares(bench, declaring):
    @job(name="shop.keyed", idempotency_key=lambda i: f"order:{i.order}")
    def keyed(order: int) -> int:
        return order

    bench.enqueue()

    def gathered(ctx):
        # Side by side, so that both children live at one moment.
        return ctx.step.gather(
            lambda: ctx.step.call("first", keyed, order=7),
            lambda: ctx.step.call("second", keyed, order=7),
        )

    bench.attempt(gathered)
    children = bench.jobs("shop.keyed")

    assert len({child.id for child in children}) == 2
    assert [child.idempotency_key for child in children] == [None, None]
    bench.work()
    assert bench.attempt(gathered).value == [7, 7]


def test_a_child_is_told_apart_as_enqueued_by_a_job(bench, ship):
    parent = bench.enqueue()
    bench.attempt(lambda ctx: ctx.step.call("ship", ship.using(priority=3), order=7))
    (child,) = bench.jobs("shop.ship")

    assert child.priority == 3
    assert child.parent_id == parent
    if bench.store.features.transactional:
        from django_durable_jobs.models import Job

        assert list(Job.objects.filter(pk=child.id).values_list("origin", "origin_id")) == [
            ("job", str(parent))
        ]


def test_a_child_with_a_delay_starts_after_it(bench, ship, clock):
    bench.enqueue()

    def body(ctx):
        return ctx.step.call("ship", ship.using(delay="10m"), order=7)

    bench.attempt(body)
    assert bench.work() == []

    clock.advance(minutes=11)
    bench.work()

    assert bench.attempt(body).value.order == 7


def test_the_queue_of_the_child_is_woken_by_the_commit(bench, ship):
    listener = bench.worker_store.listen()
    bench.enqueue()
    bench.attempt(lambda ctx: ctx.step.call("ship", ship, order=7))

    assert listener.prove(timeout=10)
    assert [wake.queue for wake in listener.receive(0)] == ["default"]
    bench.work()
    assert listener.prove(timeout=10)
    assert [wake.queue for wake in listener.receive(0)] == ["default"]
    listener.close()


def test_cancelling_the_parent_leaves_the_child_alone(bench, ship):
    parent = bench.enqueue()
    bench.attempt(lambda ctx: ctx.step.call("ship", ship, order=7))
    bench.store.cancel(parent, reason="")

    assert [worked.state for worked in bench.work()] == ["done"]
    assert bench.row(parent).state == "cancelled"


def test_a_parent_requeued_from_the_call_starts_another_child(bench, failing):
    parent = bench.enqueue()

    def body(ctx):
        ctx.step.run("before", lambda: 1)
        return ctx.step.call("ship", failing)

    bench.attempt(body)
    bench.work()
    bench.attempt(body)
    bench.store.requeue(parent, from_step="ship")
    bench.attempt(body)
    first, second = bench.jobs("shop.failing")

    assert {first.state, second.state} == {"dead", "ready"}
    assert set(bench.steps(parent)) == {"before", "ship"}
