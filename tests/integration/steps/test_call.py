"""A child runs once, holds no slot of its parent, and its end comes back typed at every run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import assert_type

import pytest
from django.db import transaction

from django_durable_jobs import Retry, job
from django_durable_jobs.exceptions import (
    ChildFailed,
    InputInvalid,
    OptionInvalid,
    QueueNotDeclared,
    StepRefused,
    StoreUnavailable,
)
from django_durable_jobs.policies.classification import Terminal, classify, facts_of
from django_durable_jobs.steps import JobContext, Suspension
from django_durable_jobs.store.rows import QueueDemand
from tests.integration.steps.bench import (
    LEASE,
    Killed,
    Stand,
    dying_at,
    losing_the_answer,
)

ONCE = Retry(attempts=1)


@dataclass(frozen=True)
class Parcel:
    order: int
    weight: Decimal


class OutOfStock(Exception):
    code = "X_SHOP_OUT_OF_STOCK"


@pytest.fixture
def ship(declaring):
    @job(name="shop.ship")
    def ship(order: int) -> Parcel:
        return Parcel(order, Decimal("1.50"))

    return ship


@pytest.fixture
def failing(declaring):
    @job(name="shop.failing", retry=ONCE)
    def failing() -> int:
        raise OutOfStock("none left of article 7")

    return failing


def answers(bench, body):
    """What the call answered on the run that first saw the child's end, and on its replay."""
    seen = []

    def watched(ctx):
        try:
            answer = body(ctx)
        except Suspension:
            raise
        except BaseException as error:
            seen.append(error)
            raise
        seen.append(answer)
        if ctx.attempt == 1:
            raise ValueError("crash after the call")

    bench.attempt(watched)
    bench.work()
    bench.attempt(watched)
    bench.attempt(watched)
    return seen


# -- results


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


# -- failures


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


# -- started once


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


# -- what a child is told


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


# -- refusals


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
