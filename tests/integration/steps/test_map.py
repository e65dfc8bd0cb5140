"""A job runs once for each input, so many side by side; results come in the inputs' order."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest

from django_durable_jobs import Retry, job
from django_durable_jobs.exceptions import (
    ChildFailed,
    InputInvalid,
    NumberInvalid,
    PayloadTooLarge,
    StepRefused,
)
from django_durable_jobs.states import FINISHED_STATES
from django_durable_jobs.steps import JobContext, Suspension, families
from django_durable_jobs.store.rows import QueueDemand
from tests.integration.steps.bench import LEASE, Bench

ONCE = Retry(attempts=1)


class OutOfStock(Exception):
    code = "X_SHOP_OUT_OF_STOCK"


@pytest.fixture
def price(declaring):
    @job(name="shop.price")
    def price(article: int) -> Decimal:
        return Decimal(article) / 4

    return price


@pytest.fixture
def odd(declaring):
    """Fails for odd articles."""

    @job(name="shop.odd", retry=ONCE)
    def odd(article: int) -> int:
        if article % 2:
            raise OutOfStock(f"none left of article {article}")
        return article

    return odd


def inputs(count, first=0):
    return [{"article": article} for article in range(first, first + count)]


def each(child, wanted, **options):
    return lambda ctx: ctx.step.map("each", child, wanted, **options)


def test_results_come_in_the_order_of_the_inputs_whatever_order_the_children_ran_in(bench, price):
    parent = bench.enqueue()
    body = each(price.using(priority=1), inputs(5))

    parked = bench.attempt(body)
    assert isinstance(parked.error, Suspension)
    claimed = bench.worker_store.claim("worker-1", [QueueDemand("default", 9)], lease=LEASE)
    for child in reversed(claimed):
        bench.run(child)

    assert bench.attempt(body).value == [Decimal(article) / 4 for article in range(5)]
    assert bench.row(parent).state == "done"


def test_a_replay_answers_the_same_results_without_a_child(bench, price):
    bench.enqueue()

    def body(ctx):
        results = ctx.step.map("each", price, inputs(3))
        if ctx.attempt == 1:
            raise ValueError("crash")
        return results

    bench.attempt(body)
    bench.work()
    bench.attempt(body)

    assert bench.attempt(body).value == [Decimal(0), Decimal("0.25"), Decimal("0.5")]
    assert len(bench.jobs("shop.price")) == 3


def test_a_thousand_children_come_back_in_order(bench, price):
    bench.enqueue()
    body = each(price, inputs(1_000))
    bench.attempt(body)
    bench.work(slots=500, times=2)

    assert bench.attempt(body).value == [Decimal(article) / 4 for article in range(1_000)]


@pytest.mark.parametrize(("slots", "bound"), [(9, 3), (1, 3), (9, 1)])
def test_no_more_children_than_the_bound_are_ever_started(bench, price, slots, bound):
    bench.enqueue()
    body = each(price, inputs(10), concurrency=bound)
    bench.attempt(body)
    most = 0
    while True:
        bench.worker_store.arm(limit=1_000)
        demand = [QueueDemand("default", slots)]
        claimed = bench.worker_store.claim("worker-1", demand, lease=LEASE)
        if [child.name for child in claimed] == ["shop.pay"]:
            break
        most = max(most, started(bench))
        for child in claimed:
            bench.run(child)
            assert started(bench) <= bound

    assert most == bound
    assert bench.attempt(body, claimed[0]).value == [Decimal(article) / 4 for article in range(10)]


def started(bench: Bench) -> int:
    """Children that run or are due."""
    rows = bench.jobs("shop.price")
    return sum(row.state not in FINISHED_STATES and row.run_at.year < 9999 for row in rows)


def test_a_bound_holds_while_children_fail_are_cancelled_and_are_removed(bench, odd):
    bench.enqueue()
    body = each(odd, inputs(8), concurrency=2, return_exceptions=True)
    bench.attempt(body)

    def live():
        rows = [row for row in bench.jobs("shop.odd") if row.state not in FINISHED_STATES]
        return [row for row in rows if row.run_at.year < 9999]

    assert len(live()) == 2
    bench.store.cancel(live()[0].id, reason="not wanted")
    assert len(live()) == 2
    bench.store.remove(live()[0].id)
    assert len(live()) == 2
    # One that was held back leaves no place for another.
    held = bench.jobs("shop.odd")[-1]
    bench.store.cancel(held.id, reason="not wanted")
    assert len(live()) == 2
    for _ in range(5):
        bench.work(slots=1)
        assert len(live()) <= 2

    value = bench.attempt(body).value
    assert [result if isinstance(result, int) else result.state for result in value] == [
        "cancelled", "removed", 2, "dead", 4, "dead", 6, "cancelled",
    ]  # fmt: skip


def test_a_bound_not_below_the_inputs_holds_nobody_back(bench, price):
    parent = bench.enqueue()
    bench.attempt(each(price, inputs(3), concurrency=3))

    assert started(bench) == 3
    assert bench.steps(parent)["each"].children_at_once is None


def test_failures_stand_in_the_place_of_results_when_asked_for(bench, odd):
    bench.enqueue()
    body = each(odd, inputs(4), return_exceptions=True)
    bench.attempt(body)
    bench.work()
    first, second, third, fourth = bench.attempt(body).value

    assert (first, third) == (0, 2)
    assert isinstance(second, ChildFailed)
    assert isinstance(fourth, ChildFailed)
    assert (second.index, fourth.index) == (1, 3)
    assert fourth.message == "none left of article 3"


def test_the_first_failure_in_order_is_raised_once_all_have_ended(bench, odd):
    parent = bench.enqueue()
    body = each(odd, inputs(4))
    bench.attempt(body)
    bench.work(slots=2)
    # One failed; the others run on, and the run is not woken for it.
    assert not bench.row(parent).is_armed
    bench.work()
    error = bench.attempt(body).error
    child = bench.jobs("shop.odd")[1]

    assert isinstance(error, ChildFailed)
    assert error.index == 1
    assert str(error) == (
        f"Step 'each': its child number 1 'shop.odd' ({child.id}) is dead: "
        f"{OutOfStock.__module__}.OutOfStock: none left of article 1. "
        "Mend the cause, then requeue this job from that step."
    )
    assert error.__notes__ == ["2 of its 4 children failed."]
    assert (bench.row(parent).state, bench.row(parent).error_code) == (
        "dead",
        "X_STEP_CHILD_FAILED",
    )


def test_a_single_failure_has_no_count(bench, odd):
    bench.enqueue()
    body = each(odd, inputs(2))
    bench.attempt(body)
    bench.work()

    assert not hasattr(bench.attempt(body).error, "__notes__")


@pytest.mark.parametrize("nothing", [[], (), iter(())])
def test_no_inputs_are_no_children_and_no_wait(bench, price, nothing):
    parent = bench.enqueue()
    attempt = bench.attempt(each(price, nothing))

    assert (attempt.value, attempt.error) == ([], None)
    assert bench.jobs("shop.price") == []
    assert bench.steps(parent)["each"].status == "done"


def test_inputs_are_read_once_in_the_life_of_the_run(bench, price):
    bench.enqueue()
    read = []

    def body(ctx):
        def generated():
            for article in range(3):
                read.append(article)
                yield {"article": article}

        results = ctx.step.map("each", price, generated())
        if ctx.attempt == 1:
            raise ValueError("crash")
        return results

    bench.attempt(body)
    bench.work()
    bench.attempt(body)

    assert bench.attempt(body).value == [Decimal(0), Decimal("0.25"), Decimal("0.5")]
    assert read == [0, 1, 2]


@pytest.mark.parametrize("later", [0, 1, 5])
def test_another_number_of_inputs_at_a_replay_changes_nothing(bench, price, later):
    bench.enqueue()
    bench.attempt(each(price, inputs(3)))
    bench.work()

    assert bench.attempt(each(price, inputs(later))).value == [
        Decimal(0),
        Decimal("0.25"),
        Decimal("0.5"),
    ]
    assert len(bench.jobs("shop.price")) == 3


def test_a_bad_input_is_named_by_its_place_and_nothing_is_stored(bench, price):
    parent = bench.enqueue()
    wanted = inputs(501)
    wanted[500] = {"article": "many"}
    error = bench.attempt(each(price, wanted)).error

    assert isinstance(error, InputInvalid)
    assert [path for path, _ in error.problems] == ["[500].article"]
    assert (bench.steps(parent), bench.jobs("shop.price")) == ({}, [])


def test_an_input_that_is_no_dict_is_named_by_its_place(bench, price):
    bench.enqueue()
    error = bench.attempt(each(price, [{"article": 1}, 2])).error

    assert isinstance(error, InputInvalid)
    assert str(error) == (
        "Input of job 'shop.price' was refused:\n  [1]: is a int, not a dict of inputs"
    )


def test_results_above_the_bound_together_are_refused_for_good(bench, declaring, monkeypatch):
    monkeypatch.setattr(families, "MAX_RESULTS", 91)

    @job(name="shop.text")
    def text(size: int) -> str:
        return "é" * size

    bench.enqueue()
    parent = bench.jobs("shop.pay")[0].id
    # Bytes are counted: these are 60 characters.
    body = each(text, [{"size": 16}, {"size": 16}])
    bench.attempt(body)
    bench.work()
    error = bench.attempt(body).error

    assert isinstance(error, PayloadTooLarge)
    assert error.size == 2 * (len('{"result": ""}') + 2 * 16)
    assert str(error) == (
        "The outcome of step 'each' takes 92 bytes as JSON; the limit is 91. "
        "Store the data elsewhere and let the children return its keys."
    )
    assert bench.row(parent).state == "dead"
    assert bench.steps(parent)["each"].status == "calling"


RESULTS = [1e16, 0.1, 1e-7, -0.5, 12345678901234567890, 2**53 + 1, "Zoë ♥ \\u0041", None, [1.0], {}]


def test_results_are_exact_at_every_run(bench, declaring):
    @job(name="shop.plain")
    def plain(place: int):
        return RESULTS[place]

    bench.enqueue()
    seen = []

    def body(ctx):
        seen.append(ctx.step.map("each", plain, [{"place": n} for n in range(len(RESULTS))]))
        if ctx.attempt == 1:
            raise ValueError("crash")

    bench.attempt(body)
    bench.work(times=2)
    bench.attempt(body)
    bench.attempt(body)

    assert seen == [RESULTS, RESULTS]
    for results in seen:
        assert [type(result) for result in results] == [type(result) for result in RESULTS]


@pytest.mark.parametrize("bound", [0, -1, 1.5, True, "3", float("inf")])
def test_a_bound_that_is_no_count_is_refused(bench, price, bound):
    parent = bench.enqueue()
    error = bench.attempt(each(price, inputs(2), concurrency=bound)).error

    assert isinstance(error, NumberInvalid)
    assert str(error).startswith("The concurrency of step 'each' ")
    assert bench.steps(parent) == {}


def test_more_children_than_a_family_holds_are_refused(bench, price, monkeypatch):
    monkeypatch.setattr(families, "MAX_CHILDREN", 3)
    parent = bench.enqueue()
    error = bench.attempt(each(price, inputs(4))).error

    assert isinstance(error, StepRefused)
    assert str(error) == ("Step 'each' has 4 inputs; the most is 3. Let each child take several.")
    assert (bench.steps(parent), bench.jobs("shop.price")) == ({}, [])


def test_a_bound_together_with_a_delay_is_refused(bench, price):
    """A child held back is made due by a sibling's end, and would forget its own time."""
    bench.enqueue()
    error = bench.attempt(each(price.using(delay="1h"), inputs(3), concurrency=2)).error

    assert isinstance(error, StepRefused)
    assert str(error) == (
        "Step 'each' bounds its children and gives them a time to start as well. "
        "Leave out the concurrency, or the delay."
    )
    assert bench.jobs("shop.price") == []


def test_a_map_of_one_is_no_call_and_a_call_no_map(bench, price):
    bench.enqueue()

    def crash(ctx):
        ctx.step.map("each", price, inputs(1), concurrency=1)
        raise ValueError("crash")

    bench.attempt(crash)
    bench.work()
    bench.attempt(crash)
    error = bench.attempt(lambda ctx: ctx.step.call("each", price, article=0)).error

    assert isinstance(error, StepRefused)
    assert "was stored by another verb" in str(error)


@pytest.mark.parametrize(
    "other",
    [
        lambda ctx: ctx.step.run("each", lambda: 1),
        lambda ctx: ctx.step.sleep("each", "1h"),
        lambda ctx: ctx.step.wait_for_event("each", event="paid"),
    ],
)
@pytest.mark.parametrize("count", [0, 2])
def test_the_name_of_a_map_is_refused_to_every_other_verb(bench, price, other, count):
    bench.enqueue()

    def crash(ctx):
        ctx.step.map("each", price, inputs(count))
        raise ValueError("crash")

    with suppress(Suspension):
        bench.attempt(crash)
    if count:
        bench.work()
        bench.attempt(crash)
    error = bench.attempt(other).error

    assert isinstance(error, StepRefused)
    assert "was stored by another verb" in str(error)


@pytest.mark.parametrize(
    "other",
    [
        lambda ctx: ctx.step.run("each", list),
        lambda ctx: ctx.step.sleep("each", 0),
        lambda ctx: ctx.step.wait_for_event("each", event="paid", timeout=0),
    ],
)
def test_a_map_is_refused_the_name_of_every_other_verb(bench, price, other):
    bench.enqueue()

    def crash(ctx):
        other(ctx)
        raise ValueError("crash")

    bench.attempt(crash)
    error = bench.attempt(each(price, inputs(2))).error

    assert isinstance(error, StepRefused)
    assert bench.jobs("shop.price") == []


def test_a_map_is_refused_inline(bench, price):
    with pytest.raises(StepRefused, match="would wait"):
        JobContext.inline("shop.pay").step.map("each", price, inputs(2))

    assert bench.jobs("shop.price") == []


def test_a_map_of_maps_finishes_on_one_slot(bench, price, declaring):
    @job(name="shop.shelf")
    def shelf(ctx: JobContext, first: int) -> Decimal:
        return sum(ctx.step.map("prices", price, inputs(3, first)), Decimal(0))

    @job(name="shop.stock")
    def stock(ctx: JobContext) -> list[Decimal]:
        return ctx.step.map("shelves", shelf, [{"first": n} for n in (0, 3, 6)], concurrency=2)

    result = stock.enqueue()
    bench.work_off(slots=1)
    result.refresh()

    assert result.return_value == [Decimal("0.75"), Decimal(3), Decimal("5.25")]
