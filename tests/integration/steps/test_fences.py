"""An attempt that was cancelled, or has lost its lease, can write nothing."""

from __future__ import annotations

from uuid import UUID

import pytest

from django_durable_jobs.events import publish_event
from django_durable_jobs.exceptions import Aborted, Draining, LeaseLost
from tests.integration.steps.bench import Bench

WRITES = {
    "run": lambda ctx: ctx.step.run("late", lambda: 1),
    "atomic": lambda ctx: ctx.step.atomic("late", lambda: 1),
    "sleep": lambda ctx: ctx.step.sleep("late", "1h"),
    "sleep over": lambda ctx: ctx.step.sleep("late", 0),
    "wait": lambda ctx: ctx.step.wait_for_event("late", event="paid"),
    "transaction": lambda ctx: ctx.atomic().__enter__(),
    "progress": lambda ctx: ctx.progress({"percent": 50}),
}
STEP_WRITES = {name: act for name, act in WRITES.items() if name not in ("transaction", "progress")}


def nothing_was_written(bench: Bench, job_id: UUID) -> bool:
    return bench.row(job_id).progress is None and bench.steps(job_id) == {}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_cancelled_attempt_is_refused_before_it_writes(bench, write):
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())
    ctx.signal.cancel(Draining())

    with pytest.raises(Aborted) as caught:
        write(ctx)

    assert caught.value.reason == "X_DRAINING"
    assert nothing_was_written(bench, job_id)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_body_left_running_after_its_attempt_ended_is_refused(bench, write):
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())
    ctx.signal.end()

    with pytest.raises(Aborted, match="it has ended"):
        write(ctx)

    assert nothing_was_written(bench, job_id)


def test_an_attempt_cancelled_while_a_step_runs_does_not_store_it(bench):
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())

    with pytest.raises(Aborted):
        ctx.step.run("charge", lambda: ctx.signal.cancel(Draining()))

    assert bench.steps(job_id) == {}


@pytest.mark.parametrize("write", STEP_WRITES.values(), ids=STEP_WRITES)
def test_a_worker_whose_lease_was_taken_cannot_write_a_step(bench, write):
    """Another connection holds the row when the write comes."""
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())
    bench.steal(job_id)

    with pytest.raises(LeaseLost):
        write(ctx)

    assert nothing_was_written(bench, job_id)
    assert isinstance(ctx.signal.reason, LeaseLost)
    assert bench.row(job_id).worker_id == "thief"


def test_a_lease_taken_while_a_step_runs_keeps_its_output_out_of_the_store(bench):
    job_id = bench.enqueue()
    attempt = bench.attempt(lambda ctx: ctx.step.run("charge", lambda: bench.steal(job_id)))

    assert isinstance(attempt.error, LeaseLost)
    assert bench.steps(job_id) == {}
    assert attempt.settlement is None


def test_a_lease_lost_is_known_to_every_verb_after_it(bench):
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())
    bench.steal(job_id)
    with pytest.raises(LeaseLost):
        ctx.step.run("charge", lambda: 1)

    assert ctx.cancelled
    with pytest.raises(Aborted, match="X_JOB_LEASE_LOST"):
        ctx.step.run("ship", lambda: 1)
    with pytest.raises(Aborted, match="X_JOB_LEASE_LOST"):
        ctx.check()


def test_the_progress_of_a_worker_whose_lease_was_taken_does_not_land(bench):
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())
    bench.steal(job_id)
    ctx.progress({"percent": 50})

    assert bench.row(job_id).progress is None


class Thief:
    """The store, with another worker that takes the job right after a look for events."""

    def __init__(self, bench, job_id):
        self.bench = bench
        self.job_id = job_id

    def __getattr__(self, verb):
        return getattr(self.bench.worker_store, verb)

    def find_event(self, wait):
        found = self.bench.worker_store.find_event(wait)
        assert found is not None
        self.bench.steal(self.job_id)
        return found


def test_a_wait_whose_lease_was_taken_between_look_and_answer_is_not_answered(bench):
    job_id = bench.enqueue()

    def body(ctx):
        return ctx.step.wait_for_event("approval", event="paid")

    bench.attempt(body)
    publish_event("paid")
    attempt = bench.attempt(body, store=Thief(bench, job_id))

    assert isinstance(attempt.error, LeaseLost)
    assert attempt.settlement is None
    assert bench.steps(job_id)["approval"].status == "waiting"
