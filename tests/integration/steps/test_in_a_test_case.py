"""The verbs work inside the transaction of a test, where nothing is ever committed."""

from __future__ import annotations

from datetime import timedelta

from django.test import TestCase

from django_durable_jobs import JobContext, clock, job, publish_event
from django_durable_jobs.jobs.registry import register, scratch_registry
from django_durable_jobs.models import Job
from django_durable_jobs.store import reset_store
from django_durable_jobs.testing import run_jobs

# Declared as a project declares them: at import, before any test.
with scratch_registry():

    @job(name="shop.price")
    def price(article: int) -> int:
        return article * 2

    @job(name="shop.stock")
    def stock(ctx: JobContext) -> list[int]:
        first: int = ctx.step.call("first", price, article=1)
        inputs = [{"article": article} for article in range(5)]
        return [first, *ctx.step.map("rest", price, inputs, concurrency=2)]

    @job(name="shop.order")
    def order(ctx: JobContext) -> list[object]:
        def approval() -> object:
            event = ctx.step.wait_for_any("approval", events=["approved", "refused"], timeout="1h")
            return event and event.name

        def cool_off() -> object:
            ctx.step.sleep("cool off", "10m")
            return "awake"

        return ctx.step.gather(lambda: ctx.step.call("price", price, article=7), approval, cool_off)


class Verbs(TestCase):
    def setUp(self) -> None:
        declared = scratch_registry()
        declared.__enter__()
        self.addCleanup(declared.__exit__, None, None, None)
        self.addCleanup(clock.reset)
        reset_store()
        for each in (price, stock, order):
            register(each)

    def test_children_end_and_wake_their_parent(self) -> None:
        result = stock.enqueue()

        run_jobs()

        result.refresh()
        assert result.return_value == [2, 0, 2, 4, 6, 8]

    def test_branches_wait_each_for_its_own(self) -> None:
        result = order.enqueue()
        run_jobs()
        assert Job.objects.get(pk=result.id).state == "suspended"

        publish_event("refused")
        run_jobs()
        clock.move(timedelta(minutes=11))
        run_jobs()

        result.refresh()
        assert result.return_value == [14, "refused", "awake"]

    def test_a_wait_for_any_times_out(self) -> None:
        result = order.enqueue()
        run_jobs()
        clock.move(timedelta(minutes=61))
        run_jobs()

        result.refresh()
        assert result.return_value == [14, None, "awake"]
