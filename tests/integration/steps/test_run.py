"""A finished step never runs again, and what it answers is what was stored."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.exceptions import (
    DurationInvalid,
    StepDuplicate,
    StepOutputUnserializable,
    StepRefused,
    StoreUnavailable,
)
from tests.integration.steps.bench import Bench, Stand


class Calls:
    """Counts how often each function ran."""

    def __init__(self):
        self.made: list[str] = []

    def __call__(self, name, answer=None):
        self.made.append(name)
        return answer


def price() -> Decimal:
    return Decimal("1.50")


def test_a_finished_step_does_not_run_again_at_the_next_attempt(bench):
    job_id = bench.enqueue()
    calls = Calls()

    def body(ctx):
        first = ctx.step.run("charge", calls, "charge", {"id": 7})
        calls("between")
        if ctx.attempt == 1:
            raise ValueError("crash")
        return first, ctx.step.run("ship", calls, "ship", "sent")

    assert isinstance(bench.attempt(body).error, ValueError)
    second = bench.attempt(body)

    assert second.value == ({"id": 7}, "sent")
    assert calls.made == ["charge", "between", "between", "ship"]
    assert bench.row(job_id).state == "done"


def test_an_output_is_stored_before_the_step_returns(bench):
    job_id = bench.enqueue()

    def body(ctx):
        ctx.step.run("charge", lambda: {"id": 7})
        return bench.steps(job_id)["charge"]

    stored = bench.attempt(body).value

    assert (stored.status, stored.seq) == ("done", 1)
    assert stored.output is not None
    assert stored.finished_at is not None


def test_a_step_answers_the_same_value_on_its_first_run_and_on_replay(bench):
    """A tuple is a list from the first run on, and a Decimal stays one."""
    bench.enqueue()
    seen = []

    def body(ctx):
        value = (
            ctx.step.run("pair", lambda: (1, 2.0, 1e22)),
            ctx.step.run("price", price),
            ctx.step.run("object", lambda: {"b": 1, "a": [None, ""]}),
        )
        seen.append((value, [type(item) for item in value[0]]))
        raise ValueError("again")

    bench.attempt(body)
    bench.attempt(body)

    assert seen[0] == seen[1]
    assert seen[0][0][:2] == ([1, 2.0, 1e22], Decimal("1.50"))


def test_a_step_that_answered_none_is_finished(bench):
    bench.enqueue()
    calls = Calls()

    def body(ctx):
        assert ctx.step.run("notify", calls, "notify") is None
        if ctx.attempt == 1:
            raise ValueError("crash")

    bench.attempt(body)
    bench.attempt(body)

    assert calls.made == ["notify"]


def test_a_step_that_raises_stores_nothing_and_runs_again_with_the_job(bench):
    job_id = bench.enqueue()
    calls = Calls()

    def charge(attempt):
        calls("charge")
        if attempt == 1:
            raise ValueError("away")
        return "paid"

    def body(ctx):
        return ctx.step.run("charge", charge, ctx.attempt)

    assert str(bench.attempt(body).error) == "away"
    assert bench.steps(job_id) == {}
    assert bench.attempt(body).value == "paid"
    assert calls.made == ["charge", "charge"]


def test_arguments_reach_the_function_also_those_called_name_and_fn(bench):
    bench.enqueue()

    def body(ctx):
        return ctx.step.run("echo", dict, name=1, fn=2)

    assert bench.attempt(body).value == {"name": 1, "fn": 2}


def test_steps_keep_their_order(bench):
    job_id = bench.enqueue()

    def body(ctx):
        for name in ("c", "a", "b"):
            ctx.step.run(name, lambda: None)

    bench.attempt(body)

    assert [(row.name, row.seq) for row in bench.worker_store.load_steps(job_id)] == [
        ("c", 1),
        ("a", 2),
        ("b", 3),
    ]


@pytest.mark.parametrize(
    "again",
    [
        lambda step: step.run("charge", lambda: 2),
        lambda step: step.atomic("charge", lambda: 2),
        lambda step: step.options(timeout=5).run("charge", lambda: 2),
        lambda step: step.sleep("charge", "1h"),
        lambda step: step.sleep_until("charge", datetime(2026, 7, 1, tzinfo=UTC)),
        lambda step: step.wait_for_event("charge", event="paid"),
    ],
)
def test_a_name_used_twice_in_one_run_is_refused_by_every_verb(bench, again):
    job_id = bench.enqueue()

    def body(ctx):
        ctx.step.run("charge", lambda: 1)
        again(ctx.step)

    attempt = bench.attempt(body)

    assert isinstance(attempt.error, StepDuplicate)
    assert bench.row(job_id).state == "dead"
    assert bench.steps(job_id)["charge"].output == "1"


@pytest.mark.parametrize("name", ["", "  ", "a\0", "\ud800", "é" * 101, 7, None])
def test_a_name_that_cannot_be_a_key_is_refused_before_the_function_runs(bench, name):
    job_id = bench.enqueue()
    calls = Calls()
    attempt = bench.attempt(lambda ctx: ctx.step.run(name, calls, "charge"))

    assert isinstance(attempt.error, StepRefused)
    assert "its name " in str(attempt.error)
    assert "short text that is the same at every run" in str(attempt.error)
    assert calls.made == []
    assert bench.steps(job_id) == {}


def test_an_output_without_a_json_form_is_refused_and_nothing_stored(bench):
    job_id = bench.enqueue()
    attempt = bench.attempt(lambda ctx: ctx.step.run("charge", lambda: Decimal(1)))

    assert isinstance(attempt.error, StepOutputUnserializable)
    assert bench.steps(job_id) == {}
    assert bench.row(job_id).error_code == "X_STEP_OUTPUT_UNSERIALIZABLE"


def test_an_async_function_is_refused_before_it_runs(bench):
    bench.enqueue()

    async def charge():
        raise AssertionError("not awaited")

    def body(ctx):
        for number, fn in enumerate([charge, lambda: charge()]):
            with pytest.raises(StepRefused) as caught:
                ctx.step.run(f"charge {number}", fn)
            assert str(caught.value) == (
                f"Step 'charge {number}' was given an async function. Pass a plain function."
            )

    assert bench.attempt(body).error is None


def test_what_cannot_be_called_is_refused(bench):
    bench.enqueue()
    attempt = bench.attempt(lambda ctx: ctx.step.run("charge", 7))

    assert str(attempt.error) == (
        "Step 'charge' was given a value of type int to call. Pass the function itself, and its "
        "arguments after it."
    )


def test_a_name_stored_by_another_verb_is_refused_and_the_stored_step_kept(bench):
    """The code was changed under a parked run; overwriting its checkpoint would hide that."""
    job_id = bench.enqueue()

    def body(ctx):
        try:
            ctx.step.sleep("pause", "1h")
        finally:
            if ctx.attempt == 1:
                raise ValueError("deployed in between")

    bench.attempt(body)
    before = bench.steps(job_id)["pause"]
    attempt = bench.attempt(lambda ctx: ctx.step.run("pause", lambda: 1))

    assert isinstance(attempt.error, StepRefused)
    assert "was stored by another verb (sleeping)" in str(attempt.error)
    assert bench.steps(job_id)["pause"] == before


def test_the_context_tells_the_body_about_its_run(bench):
    job_id = bench.enqueue(tenant_id="acme", enqueued_by="ann")
    ctx = bench.attempt(lambda ctx: None).ctx

    assert (ctx.job_id, ctx.name, ctx.queue) == (job_id, "shop.pay", "default")
    assert (ctx.attempt, ctx.max_attempts) == (1, 5)
    assert (ctx.tenant_id, ctx.enqueued_by) == ("acme", "ann")
    assert ctx.created_at == bench.row(job_id).created_at


class Counting(MemoryStore):
    """Counts the reads of stored steps."""

    loads = 0

    def load_steps(self, job_id):
        self.loads += 1
        return super().load_steps(job_id)


def test_stored_steps_are_read_once_an_attempt_and_not_at_all_at_the_first():
    store = Counting()
    bench = Bench(store)
    bench.enqueue()
    loads = []

    def body(ctx):
        before = store.loads
        ctx.step.run("a", lambda: 1)
        ctx.step.run("b", lambda: 2)
        loads.append(store.loads - before)
        raise ValueError("again")

    bench.attempt(body)
    bench.attempt(body)

    assert loads == [0, 1]


def test_a_body_without_steps_reads_none():
    store = Counting()
    bench = Bench(store)
    bench.enqueue()

    def body(ctx):
        raise ValueError("again")

    bench.attempt(body)
    bench.attempt(body)

    assert store.loads == 0


@pytest.mark.parametrize("timeout", [0, -1, "soon", "101000w"])
def test_a_timeout_that_is_no_length_of_time_is_refused(bench, timeout):
    bench.enqueue()
    attempt = bench.attempt(lambda ctx: ctx.step.options(timeout=timeout))

    assert isinstance(attempt.error, DurationInvalid)


def test_a_body_may_try_a_step_again_whose_stored_steps_could_not_be_read(bench):
    job_id = bench.enqueue()

    def crash(ctx):
        ctx.step.run("charge", lambda: "paid")
        raise ValueError("crash")

    bench.attempt(crash)
    away = [StoreUnavailable("The server restarts.")]

    def load_steps(*args):
        if away:
            raise away.pop()
        return bench.worker_store.load_steps(*args)

    def body(ctx):
        with pytest.raises(StoreUnavailable):
            ctx.step.run("charge", lambda: "again")
        return ctx.step.run("charge", lambda: "again")

    store = Stand(bench.worker_store, load_steps=load_steps)

    assert bench.attempt(body, store=store).value == "paid"
    assert bench.row(job_id).state == "done"
