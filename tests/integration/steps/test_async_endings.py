"""How an ``async def`` body ends: parked, out of time, or cancelled."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from django_durable_jobs import AsyncJobContext
from django_durable_jobs.exceptions import (
    Aborted,
    Draining,
    StepTimeout,
    SuspensionSwallowed,
)
from tests.integration.steps.async_bench import async_bench as async_bench

PATIENCE = 20


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


# -- a parked run never completes --------------------------------------------------------------


async def bare_except(ctx: AsyncJobContext) -> str:
    with suppress(BaseException):
        await ctx.step.sleep("pause", "1h")
    return "went on"


async def except_and_go_on(ctx: AsyncJobContext) -> str:
    try:
        await ctx.step.sleep("pause", "1h")
    except BaseException:
        return await ctx.step.run("after", lambda: "went on")
    return "slept"


async def asyncio_gather(ctx: AsyncJobContext) -> str:
    await asyncio.gather(ctx.step.sleep("pause", "1h"), return_exceptions=True)
    return "went on"


async def task_group(ctx: AsyncJobContext) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.step.sleep("pause", "1h"))
        group.create_task(forever())
    return "went on"


@pytest.mark.parametrize("body", [bare_except, asyncio_gather])
def test_a_body_that_swallows_a_suspension_and_returns_fails(async_bench, body):
    job_id = async_bench.enqueue()
    error = async_bench.attempt(body).error

    assert isinstance(error, SuspensionSwallowed)
    assert async_bench.row(job_id).state == "dead"


@pytest.mark.parametrize("body", [except_and_go_on, task_group])
def test_a_suspension_parks_the_run_through_a_group_and_past_a_bare_except(async_bench, body):
    job_id = async_bench.enqueue()
    async_bench.attempt(body)

    assert async_bench.row(job_id).state == "suspended"
    assert set(async_bench.steps(job_id)) == {"pause"}


# -- time and cancelling -----------------------------------------------------------------------


def test_an_async_function_is_cancelled_when_the_time_of_its_step_is_up(async_bench):
    job_id = async_bench.enqueue()
    met: list[str] = []

    async def charge() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            met.append("cancelled")
            raise

    async def body(ctx: AsyncJobContext) -> None:
        await ctx.step.options(timeout=0.01).run("charge", charge)

    attempt = async_bench.attempt(body)

    assert isinstance(attempt.error, StepTimeout)
    assert met == ["cancelled"]
    assert async_bench.steps(job_id) == {}
    assert async_bench.row(job_id).error_code == "X_JOB_TIMEOUT"


def test_the_run_goes_on_when_the_body_catches_the_timeout_of_a_step(async_bench):
    job_id = async_bench.enqueue()

    async def body(ctx: AsyncJobContext) -> Any:
        try:
            await ctx.step.options(timeout=0.01).run("ask", forever)
        except StepTimeout:
            return await ctx.step.run("fall back", lambda: "guess")

    assert async_bench.attempt(body).value == "guess"
    assert set(async_bench.steps(job_id)) == {"fall back"}


def test_a_function_that_ignores_the_timeout_of_its_step_has_timed_out(async_bench):
    job_id = async_bench.enqueue()

    async def charge() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "paid after all"
        return "paid"

    async def body(ctx: AsyncJobContext) -> None:
        await ctx.step.options(timeout=0.01).run("charge", charge)

    assert isinstance(async_bench.attempt(body).error, StepTimeout)
    assert async_bench.steps(job_id) == {}


def test_a_timeout_of_the_body_itself_leaves_no_step_under_way(async_bench):
    """The step is begun in a thread, which the body's own timeout does not stop."""
    job_id = async_bench.enqueue()
    may_go_on = threading.Event()

    async def body(ctx: AsyncJobContext) -> str:
        loop, begins = asyncio.get_running_loop(), asyncio.Event()
        enter = ctx.step._execution.enter

        def held(name: str) -> Any:
            loop.call_soon_threadsafe(begins.set)
            assert may_go_on.wait(PATIENCE)
            return enter(name)

        ctx.step._execution.enter = held  # type: ignore[method-assign]  # to step the race
        waiting = asyncio.create_task(ctx.step.run("first", lambda: "first"))
        await begins.wait()
        waiting.cancel()
        await asyncio.wait([waiting])
        may_go_on.set()
        ctx.step._execution.enter = enter  # type: ignore[method-assign]  # as it was
        return await ctx.step.run("second", lambda: "second")

    assert async_bench.attempt(body).value == "second"
    assert set(async_bench.steps(job_id)) == {"second"}


def test_a_cancelled_attempt_stores_nothing_more(async_bench):
    job_id = async_bench.enqueue()
    met: list[BaseException] = []

    async def body(ctx: AsyncJobContext) -> None:
        try:
            ctx.signal.cancel(Draining())
            await forever()
        except asyncio.CancelledError:
            try:
                await ctx.step.run("last words", lambda: 1)
            except Aborted as error:
                met.append(error)
            raise

    attempt = async_bench.attempt(body)

    assert isinstance(attempt.error, asyncio.CancelledError)
    assert [type(error) for error in met] == [Aborted]
    assert async_bench.steps(job_id) == {}
    assert attempt.settlement is not None
    assert (attempt.settlement.state, attempt.settlement.give_back) == ("ready", True)
