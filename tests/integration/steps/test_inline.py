"""A body that is called inline runs its steps, records nothing and cannot wait."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import assert_type

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from django_durable_jobs.exceptions import (
    PayloadInvalid,
    StepDuplicate,
    StepOutputUnserializable,
    StepRefused,
)
from django_durable_jobs.steps import JobContext
from tests.integration.steps.bench import REAL


def price() -> Decimal:
    return Decimal("1.50")


def pair():
    return (1, 2)


def test_a_step_called_inline_answers_what_a_recorded_one_would():
    ctx = JobContext.inline("shop.pay")

    assert ctx.step.run("price", price) == Decimal("1.50")
    assert ctx.step.options(timeout="5m").run("pair", pair) == [1, 2]


def test_a_step_keeps_the_type_of_its_function() -> None:
    """Checked by mypy: ``run`` and ``atomic`` pass the signature on."""
    ctx = JobContext.inline("shop.pay")

    assert_type(ctx.step.run("run", price), Decimal)
    assert_type(ctx.step.options(timeout="5m").run("timed", price), Decimal)
    with pytest.raises(TypeError):
        ctx.step.run("extra", price, 7)  # type: ignore[call-arg] # refused by the signature


def test_what_production_would_refuse_is_refused_inline_too():
    ctx = JobContext.inline("shop.pay")
    ctx.step.run("price", price)

    with pytest.raises(StepDuplicate):
        ctx.step.run("price", price)
    with pytest.raises(StepOutputUnserializable):
        ctx.step.run("set", lambda: {1, 2})
    with pytest.raises(StepRefused):
        ctx.step.run("", price)
    with pytest.raises(PayloadInvalid):
        ctx.progress({1, 2})
    with pytest.raises(StepRefused):
        JobContext.inline("shop.pay", atomic_job=True).step.run("price", price)


@pytest.mark.parametrize(
    "wait",
    [
        lambda step: step.sleep("nap", "1h"),
        lambda step: step.sleep_until("nap", datetime(2020, 1, 1, tzinfo=UTC)),
        lambda step: step.wait_for_event("nap", event="paid"),
    ],
)
def test_a_wait_is_refused_inline(wait):
    with pytest.raises(StepRefused) as caught:
        wait(JobContext.inline("shop.pay").step)

    assert str(caught.value) == (
        "Step 'nap' would wait, and a job that is called inline cannot. "
        "Enqueue the job, or pass what it waits for."
    )


def test_an_inline_run_looks_like_a_first_attempt():
    ctx = JobContext.inline("shop.pay")
    ctx.check()
    ctx.progress({"percent": 10})

    assert (ctx.name, ctx.attempt, ctx.max_attempts) == ("shop.pay", 1, 1)
    assert (ctx.tenant_id, ctx.cancelled, ctx.suspended) == ("", False, None)


@REAL
def test_inline_steps_may_run_inside_the_caller_s_transaction():
    """Nothing is recorded, so nothing can come apart from the caller's effects."""
    with transaction.atomic():
        ctx = JobContext.inline("shop.pay")
        ctx.step.run("a", lambda: Group.objects.create(name="a").pk)
        with ctx.atomic():
            Group.objects.create(name="b")

    assert Group.objects.count() == 2


@REAL
def test_an_atomic_step_called_inline_is_rolled_back_when_it_fails():
    def fails():
        Group.objects.create(name="a")
        raise ValueError("after the insert")

    with pytest.raises(ValueError, match="after the insert"):
        JobContext.inline("shop.pay").step.atomic("record", fails)

    assert Group.objects.count() == 0
