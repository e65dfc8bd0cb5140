"""``run_jobs()`` and ``.call()`` run async bodies on the test's own connection."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, assert_type

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.test import TestCase

from django_durable_jobs import AsyncJobContext, JobContext, clock, job, publish_event
from django_durable_jobs.exceptions import StepRefused
from django_durable_jobs.jobs.registry import register, scratch_registry
from django_durable_jobs.models import Job
from django_durable_jobs.testing import run_jobs
from tests.integration.declared import REAL, stored

with scratch_registry():

    @job(name="testing.flow")
    async def flow(ctx: AsyncJobContext, text: str) -> list[str]:
        await ctx.step.atomic("note", note, text)
        await ctx.step.sleep("cool off", "1h")
        event = await ctx.step.wait_for_event("approval", event="approved", key=text)
        assert event is not None
        return await ctx.step.gather(
            ctx.step.run("first", plain, event.payload), ctx.step.run("second", awaited, text)
        )

    @job(name="testing.price")
    async def price(ctx: AsyncJobContext, amount: int) -> int:
        return await ctx.step.run("double", lambda: 2 * amount)

    @job(name="testing.plain_price")
    def plain_price(ctx: JobContext, amount: int) -> int:
        return ctx.step.run("double", lambda: 2 * amount)


def note(text: str) -> None:
    Group.objects.create(name=text)


def plain(text: str) -> str:
    return text.upper()


async def awaited(text: str) -> str:
    await asyncio.sleep(0)
    await Group.objects.acreate(name=f"{text} again")
    return text


@pytest.fixture(autouse=True)
def _declared():
    for definition in (flow, price, plain_price):
        register(definition)
    yield
    clock.reset()


def run_the_flow() -> None:
    result = flow.enqueue(text="ann")
    assert [ran.state for ran in run_jobs()] == ["suspended"]
    clock.move(timedelta(hours=1, seconds=1))
    assert [ran.state for ran in run_jobs()] == ["suspended"]
    publish_event("approved", "yes", key="ann")

    (ran,) = run_jobs()

    assert (ran.name, ran.state, ran.error) == ("testing.flow", "done", None)
    assert flow.get_result(result.id).return_value == ["YES", "ann"]
    assert sorted(Group.objects.values_list("name", flat=True)) == ["ann", "ann again"]


class AsyncJobsInATestCase(TestCase):
    """Everything inside the test's own transaction."""

    def test_an_async_job_runs_in_the_transaction_of_the_test(self) -> None:
        run_the_flow()

    def test_and_vanishes_with_it(self) -> None:
        assert stored() == []
        assert Group.objects.count() == 0


@REAL
def test_an_async_job_runs_with_real_commits():
    run_the_flow()
    assert Job.objects.get().state == "done"


@pytest.mark.django_db
def test_a_body_is_called_from_plain_code_whatever_it_is():
    assert assert_type(price.call(amount=2), int) == 4
    assert plain_price.call(amount=2) == 4


@pytest.mark.django_db
def test_a_body_is_called_from_async_code_whatever_it_is():
    async def both() -> tuple[int, int]:
        return await price.acall(amount=2), await plain_price.acall(amount=3)

    assert async_to_sync(both)() == (4, 6)


@pytest.mark.django_db
def test_calling_the_definition_calls_the_function_as_it_is_written():
    async def written() -> Any:
        return await price(AsyncJobContext.inline("testing.price"), 2)

    assert async_to_sync(written)() == 4


@pytest.mark.django_db
def test_an_async_body_that_is_called_inline_cannot_wait():
    with pytest.raises(StepRefused):
        flow.call(text="ann")
