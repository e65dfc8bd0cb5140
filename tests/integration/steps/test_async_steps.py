"""The durable verbs of an ``async def`` body hold what those of a plain one do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group

from django_durable_jobs import AsyncJobContext, job
from django_durable_jobs import clock as process_clock
from django_durable_jobs.events import publish_event
from django_durable_jobs.exceptions import (
    StepDuplicate,
    StepRefused,
)
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.steps import Suspension
from django_durable_jobs.worker.execute import execute
from tests.integration.steps.async_bench import AsyncBench
from tests.integration.steps.async_bench import async_bench as async_bench
from tests.integration.steps.bench import REAL


@pytest.fixture(autouse=True)
def _clock_back():
    yield
    process_clock.reset()


class Calls:
    """Counts how often each function ran."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def awaited(self, name: str, answer: Any = None) -> Any:
        await asyncio.sleep(0)
        self.made.append(name)
        return answer

    def plain(self, name: str, answer: Any = None) -> Any:
        self.made.append(name)
        return answer


# -- every verb --------------------------------------------------------------------------------


def test_a_finished_step_does_not_run_again_whether_its_function_is_async_or_plain(async_bench):
    job_id = async_bench.enqueue()
    calls = Calls()

    async def body(ctx: AsyncJobContext) -> Any:
        first = await ctx.step.run("charge", calls.awaited, "charge", {"id": 7})
        second = await ctx.step.run("note", calls.plain, "note", 1)
        third = await ctx.step.run("lambda", lambda: calls.awaited("lambda", 2))
        if ctx.attempt == 1:
            raise ValueError("crash")
        return first, second, third

    assert isinstance(async_bench.attempt(body).error, ValueError)
    assert async_bench.attempt(body).value == ({"id": 7}, 1, 2)
    assert calls.made == ["charge", "note", "lambda"]
    assert async_bench.row(job_id).state == "done"


def test_values_are_chosen_once_in_a_run(async_bench):
    async_bench.enqueue()
    seen = []

    async def body(ctx: AsyncJobContext) -> None:
        seen.append(
            (
                await ctx.step.now("now"),
                await ctx.step.random("random"),
                await ctx.step.uuid("uuid"),
            )
        )
        raise ValueError("again")

    async_bench.attempt(body)
    async_bench.attempt(body)

    assert seen[0] == seen[1]


def test_sleeps_park_the_run_and_pass_when_they_are_over(async_bench):
    job_id = async_bench.enqueue()

    async def body(ctx: AsyncJobContext) -> str:
        await ctx.step.sleep("cool off", "1h")
        await ctx.step.sleep_until("past", datetime(2020, 1, 1, tzinfo=UTC))
        return "awake"

    assert isinstance(async_bench.attempt(body).error, Suspension)
    assert async_bench.row(job_id).state == "suspended"
    process_clock.move(timedelta(hours=1, seconds=1))
    assert async_bench.attempt(body).value == "awake"


@pytest.mark.parametrize("verb", ["one", "any"])
def test_an_event_wakes_the_run_that_waits_for_it(async_bench, verb):
    async_bench.enqueue()

    async def body(ctx: AsyncJobContext) -> Any:
        if verb == "one":
            event = await ctx.step.wait_for_event("approval", event="approved", key="7")
        else:
            event = await ctx.step.wait_for_any(
                "approval", events=["refused", ("approved", "7")], timeout="1d"
            )
        assert event is not None
        return event.payload

    assert isinstance(async_bench.attempt(body).error, Suspension)
    assert async_bench.nothing_is_due()
    publish_event("approved", {"by": "ann"}, key="7")
    assert async_bench.attempt(body).value == {"by": "ann"}


def test_an_event_is_published_once_and_a_job_enqueued_once(async_bench):
    parent = async_bench.enqueue()
    seen = []

    @job(name="shop.ship")
    async def ship(order_id: int) -> None:
        pass

    async def body(ctx: AsyncJobContext) -> None:
        seen.append(
            (
                await ctx.step.publish_event("tell", "paid", {"id": 7}),
                await ctx.step.enqueue("ship", ship, order_id=7),
            )
        )
        raise ValueError("again")

    async_bench.attempt(body, async_bench.claim())
    row = async_bench.row(parent)
    assert row.state == "ready"
    first = seen[0]
    claimed = next(
        claimed
        for claimed in [async_bench.claim_any(), async_bench.claim_any()]
        if claimed.identity.job_id == parent
    )
    async_bench.attempt(body, claimed)

    assert seen == [first, first]


def test_a_child_is_called_and_its_result_comes_back_typed(async_bench):
    parent = async_bench.enqueue()

    @job(name="shop.ship")
    async def ship(order_id: int) -> datetime:
        return datetime(2026, 7, order_id, tzinfo=UTC)

    async def body(ctx: AsyncJobContext) -> tuple[datetime, list[datetime]]:
        one = await ctx.step.call("ship", ship, order_id=1)
        many = await ctx.step.map("rest", ship, [{"order_id": 2}, {"order_id": 3}])
        return one, many

    value: Any = None
    for _ in range(9):
        claimed = async_bench.claim_any()
        if claimed.identity.job_id == parent:
            value = async_bench.attempt(body, claimed).value
            if value is not None:
                break
        else:
            finish(async_bench, claimed, ship)
    assert value == (
        datetime(2026, 7, 1, tzinfo=UTC),
        [datetime(2026, 7, 2, tzinfo=UTC), datetime(2026, 7, 3, tzinfo=UTC)],
    )


def finish(bench: AsyncBench, claimed: Any, definition: Any) -> None:
    executed = execute(
        claimed,
        definition,
        store=bench.worker_store,
        user_store=bench.store,
        signal=CancelSignal(claimed.identity.job_id),
    )
    assert executed.settlement is not None
    assert bench.worker_store.settle([executed.settlement]) == [True]


# -- side by side ------------------------------------------------------------------------------


def test_branches_of_gather_run_side_by_side_and_answer_in_order(async_bench):
    async_bench.enqueue()

    async def body(ctx: AsyncJobContext) -> list[str]:
        met = asyncio.Event()

        async def first() -> str:
            await met.wait()
            return "first"

        async def second() -> str:
            met.set()
            return "second"

        return await ctx.step.gather(ctx.step.run("a", first), ctx.step.run("b", second))

    assert async_bench.attempt(body).value == ["first", "second"]


def test_a_branch_that_is_parked_loses_no_result_of_the_others(async_bench):
    job_id = async_bench.enqueue()
    calls = Calls()

    async def slow(ctx: AsyncJobContext) -> str:
        await ctx.step.sleep("pause", "1h")
        return await ctx.step.run("after", calls.awaited, "after", "late")

    async def body(ctx: AsyncJobContext) -> list[Any]:
        return await ctx.step.gather(
            slow(ctx), ctx.step.run("charge", calls.awaited, "charge", 7), return_exceptions=True
        )

    assert isinstance(async_bench.attempt(body).error, Suspension)
    assert (async_bench.row(job_id).state, calls.made) == ("suspended", ["charge"])
    process_clock.move(timedelta(hours=1, seconds=1))
    assert async_bench.attempt(body).value == ["late", 7]
    assert calls.made == ["charge", "after"]


def test_the_error_of_a_branch_is_raised_once_the_others_have_ended(async_bench):
    async_bench.enqueue()
    calls = Calls()

    async def fails() -> None:
        raise ValueError("no")

    async def body(ctx: AsyncJobContext) -> None:
        await ctx.step.gather(
            ctx.step.run("fails", fails), ctx.step.run("charge", calls.awaited, "charge")
        )

    assert str(async_bench.attempt(body).error) == "no"
    assert calls.made == ["charge"]


@pytest.mark.parametrize("way", ["gather", "task group"])
def test_steps_side_by_side_without_gather_are_refused(async_bench, way):
    """Their order would be another at every run."""
    job_id = async_bench.enqueue()
    calls = Calls()

    async def body(ctx: AsyncJobContext) -> None:
        one = ctx.step.run("one", calls.awaited, "one")
        two = ctx.step.run("two", calls.awaited, "two")
        if way == "gather":
            await asyncio.gather(one, two)
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(one)
                group.create_task(two)

    error = async_bench.attempt(body).error
    if isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, StepRefused)
    assert str(error) == (
        "Step 'two' was called while step 'one' runs. Call plain functions inside a step; run "
        "steps side by side with ctx.step.gather()."
    )
    assert "two" not in async_bench.steps(job_id)
    assert "two" not in calls.made


def test_a_step_inside_a_step_is_refused(async_bench):
    async_bench.enqueue()

    async def inner(ctx: AsyncJobContext) -> None:
        await ctx.step.run("inner", lambda: 1)

    async def body(ctx: AsyncJobContext) -> None:
        await ctx.step.run("outer", inner, ctx)

    assert isinstance(async_bench.attempt(body).error, StepRefused)


def test_a_name_used_twice_is_refused(async_bench):
    async_bench.enqueue()

    async def body(ctx: AsyncJobContext) -> None:
        await ctx.step.run("charge", lambda: 1)
        await ctx.step.run("charge", lambda: 2)

    assert isinstance(async_bench.attempt(body).error, StepDuplicate)


# -- effects -----------------------------------------------------------------------------------


@REAL
@pytest.mark.parametrize("async_bench", ["postgres"], indirect=True)
def test_an_atomic_step_commits_its_effects_with_its_checkpoint_or_neither(async_bench):
    job_id = async_bench.enqueue()

    def record(name: str, fails: bool) -> None:
        Group.objects.create(name=name)
        if fails:
            raise ValueError("after the write")

    async def body(ctx: AsyncJobContext) -> None:
        await ctx.step.atomic("record", record, f"attempt {ctx.attempt}", ctx.attempt == 1)
        assert await Group.objects.acount() == 1

    assert str(async_bench.attempt(body).error) == "after the write"
    assert async_bench.attempt(body).error is None
    assert list(Group.objects.values_list("name", flat=True)) == ["attempt 2"]
    assert set(async_bench.steps(job_id)) == {"record"}
