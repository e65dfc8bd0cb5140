"""Chance, time, ids and messages as steps: drawn or sent once, whatever runs again."""

from __future__ import annotations

from datetime import datetime
from typing import assert_type
from uuid import UUID

import pytest

from django_durable_jobs import JobContext, job
from django_durable_jobs.exceptions import InputInvalid, StepDuplicate
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.store.rows import JobFilter, QueueDemand
from tests.integration.steps.bench import LEASE, REAL, Bench


class Broken(Exception):
    pass


@pytest.fixture
def mail():
    with scratch_registry():

        @job(name="shop.mail", queue="mail")
        def mail(order_id: int) -> None:
            return None

        yield mail


def twice(bench: Bench, body):
    """Run *body*, fail behind it, and run it again; both answers."""
    answers = []

    def failing(ctx: JobContext) -> None:
        answers.append(body(ctx))
        if ctx.attempt == 1:
            raise Broken

    bench.attempt(failing)
    bench.attempt(failing)
    return answers


@pytest.mark.parametrize(
    ("draw", "kind"),
    [
        (lambda ctx: ctx.step.now("at"), datetime),
        (lambda ctx: ctx.step.random("dice"), float),
        (lambda ctx: ctx.step.uuid("id"), UUID),
    ],
    ids=["now", "random", "uuid"],
)
def test_a_value_is_drawn_once(bench, draw, kind):
    bench.enqueue()

    first, second = twice(bench, draw)

    assert first == second
    assert type(first) is kind


def test_the_time_is_the_databases(bench, clock):
    bench.enqueue()
    clock.advance(days=3)
    before = bench.store.now()

    first, _ = twice(bench, lambda ctx: ctx.step.now("at"))

    assert before <= first <= bench.store.now()
    assert first.utcoffset() is not None


def test_a_new_draw_in_front_changes_no_other(bench):
    """Each is stored under its own name, not taken from one stream."""
    job_id = bench.enqueue()
    seen = []

    def old(ctx):
        seen.append(ctx.step.uuid("child"))
        ctx.step.sleep("pause", "0s")
        raise Broken

    def new(ctx):
        ctx.step.random("new")
        seen.append(ctx.step.uuid("child"))

    bench.attempt(old)
    bench.attempt(new)

    assert seen[0] == seen[1]
    assert set(bench.steps(job_id)) == {"child", "pause", "new"}


def test_draws_of_one_run_differ(bench):
    bench.enqueue()

    first, _ = twice(bench, lambda ctx: [ctx.step.uuid("a"), ctx.step.uuid("b")])

    assert first[0] != first[1]


def test_a_name_is_used_once_by_draws_too(bench):
    bench.enqueue()

    def body(ctx):
        ctx.step.uuid("a")
        ctx.step.random("a")

    assert isinstance(bench.attempt(body).error, StepDuplicate)


def test_an_event_is_published_once(bench):
    waiting, telling = bench.enqueue(), bench.enqueue(priority=-1)
    seen = []

    def wait(ctx):
        return ctx.step.wait_for_event("wait", event="paid", key="7")

    def tell(ctx):
        seen.append(ctx.step.publish_event("tell", "paid", {"by": "ann"}, key="7"))
        if ctx.attempt == 1:
            raise Broken

    bench.attempt(wait, bench.claim_any())
    bench.attempt(tell, bench.claim_any())
    demands = [QueueDemand("default", 9)]
    due = {
        claimed.identity.job_id: claimed
        for claimed in bench.worker_store.claim("worker-1", demands, lease=LEASE)
    }
    bench.attempt(tell, due[telling])
    taken = bench.attempt(wait, due[waiting]).value

    assert seen[0] == seen[1] == taken.id
    assert taken.payload == {"by": "ann"}


def test_a_job_is_enqueued_once(bench, mail):
    bench.enqueue(priority=1)

    first, second = twice(bench, lambda ctx: ctx.step.enqueue("mail", mail, order_id=7))

    assert first == second
    jobs = bench.store.list_jobs(JobFilter(name="shop.mail"), limit=10, after=None, before=None)
    assert [row.id for row in jobs] == [first]


def test_an_input_that_does_not_fit_enqueues_nothing_and_stores_no_step(bench, mail):
    job_id = bench.enqueue()

    attempt = bench.attempt(lambda ctx: ctx.step.enqueue("mail", mail, order_id="seven"))

    assert isinstance(attempt.error, InputInvalid)
    assert bench.steps(job_id) == {}
    where = JobFilter(name="shop.mail")
    assert bench.store.list_jobs(where, limit=10, after=None, before=None) == []


@REAL
def test_a_lease_lost_while_it_is_enqueued_leaves_no_job(real_bench, mail):
    job_id = real_bench.enqueue()

    class Stealing:
        def enqueue(self, order_id: int):
            result = mail.enqueue(order_id=order_id)
            real_bench.steal(job_id)
            return result

    attempt = real_bench.attempt(lambda ctx: ctx.step.enqueue("mail", Stealing(), order_id=7))

    assert not attempt.landed
    assert real_bench.steps(job_id) == {}
    where = JobFilter(name="shop.mail")
    assert real_bench.store.list_jobs(where, limit=10, after=None, before=None) == []


def test_the_verbs_keep_their_types() -> None:
    @job(name="shop.typed")
    def typed(order_id: int) -> None:
        return None

    def body(ctx: JobContext) -> None:
        assert_type(ctx.step.now("a"), datetime)
        assert_type(ctx.step.random("b"), float)
        assert_type(ctx.step.uuid("c"), UUID)
        assert_type(ctx.step.enqueue("d", typed, order_id=7), UUID)
        assert_type(ctx.step.publish_event("e", "paid"), UUID)
        assert_type(ctx.step.publish_event("f", "paid", job_id=typed.enqueue(7)), UUID)

    assert callable(body)
