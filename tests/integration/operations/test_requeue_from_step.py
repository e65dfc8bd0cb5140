"""Runs that failed half way are run again from a step, and what came before it is not."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from django_durable_jobs import JobContext, Retry, clock, job, operations
from django_durable_jobs.exceptions import StepNotFound
from django_durable_jobs.models import Job
from django_durable_jobs.store import get_store
from django_durable_jobs.store.rows import AttemptRow
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL
from tests.integration.declared import _clean_process as _clean_process

pytestmark = REAL

ran: list[tuple[UUID, str]] = []
"""Job and step of each function that ran, in order."""
broken: set[str] = set()
"""Steps that fail."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()
    broken.clear()


@pytest.fixture
def flow():
    @job(name="shop.flow", retry=Retry(attempts=1))
    def flow(ctx: JobContext) -> list[str]:
        def work(step: str) -> str:
            ran.append((ctx.job_id, step))
            if step in broken:
                raise ConnectionError(f"{step} is broken")
            return f"{step} of generation {run_of(ctx.job_id).generation}"

        return [ctx.step.run(f"s{number}", work, f"s{number}") for number in range(1, 6)]

    return flow


def copies(attempt: AttemptRow) -> list[dict[str, Any]]:
    """The steps that were taken back."""
    kept: list[dict[str, Any]] = json.loads(attempt.steps or "[]")
    return kept


def run_of(job_id: UUID) -> Job:
    return Job.objects.get(pk=job_id)


def steps_run_by(job_id: UUID) -> list[str]:
    return [step for owner, step in ran if owner == job_id]


def test_thirty_failed_runs_go_on_from_the_failed_step_and_then_again_from_an_earlier_one(flow):
    broken.add("s3")
    ids = [flow.enqueue().id for _ in range(30)]
    work_until_idle(slots=2)
    assert {run_of(job_id).state for job_id in ids} == {"dead"}

    for job_id in ids:
        # The failed step stored nothing: the first to run is the one that failed.
        operations.requeue(job_id)
    work_until_idle(slots=2)
    broken.clear()
    for job_id in ids:
        with pytest.raises(StepNotFound) as refusal:
            operations.requeue(job_id, from_step="s3")
        assert refusal.value.fix.startswith("Its stored steps: 's1', 's2'. One that failed ")
        operations.requeue(job_id, from_step="s2")
    work_until_idle(slots=2)

    for job_id in ids:
        assert steps_run_by(job_id) == ["s1", "s2", "s3", "s3", "s2", "s3", "s4", "s5"]
        row = run_of(job_id)
        assert (row.state, row.generation) == ("done", 1)
        assert row.result == ["s1 of generation 0"] + [
            f"s{number} of generation 1" for number in range(2, 6)
        ]
        newest, oldest = operations.attempts(job_id)
        assert oldest.steps is None
        [old] = copies(newest)
        assert (old["name"], old["output"]) == ("s2", "s2 of generation 0")


def test_a_done_run_can_be_run_again_from_a_step_and_keeps_the_old_results(flow):
    job_id = flow.enqueue().id
    work_until_idle(slots=1)

    operations.requeue(job_id, from_step="s4")
    work_until_idle(slots=1)

    assert list(run_of(job_id).result or [])[3:] == ["s4 of generation 1", "s5 of generation 1"]
    [attempt] = operations.attempts(job_id)
    assert [(copy["seq"], copy["output"]) for copy in copies(attempt)] == [
        (4, "s4 of generation 0"),
        (5, "s5 of generation 0"),
    ]


@pytest.mark.parametrize("late", [False, True])
def test_a_cancelled_sleeper_that_is_resumed_keeps_its_queue_and_its_time_to_wake(late):
    @job(name="shop.sleeper", queue="slow")
    def sleeper(ctx: JobContext) -> str:
        ctx.step.sleep("night", "8h")
        return "awake"

    job_id = sleeper.enqueue().id
    work_until_idle(slots=1)
    wakes_at = run_of(job_id).run_at
    operations.cancel(job_id)
    clock.move(timedelta(hours=9 if late else 1))

    operations.requeue(job_id)
    work_until_idle(slots=1)

    row = run_of(job_id)
    assert row.queue == "slow"
    if late:
        assert (row.state, row.result) == ("done", "awake")
    else:
        assert (row.state, row.run_at) == ("suspended", wakes_at)


def test_a_requeue_wakes_the_workers_of_its_queue(flow):
    listener = get_store().listen()
    assert listener is not None
    try:
        job_id = flow.enqueue().id
        work_until_idle(slots=1)
        assert listener.prove(timeout=10)
        listener.receive(0)

        operations.requeue(job_id, from_step="s1")

        assert listener.prove(timeout=10)
        assert [wake.queue for wake in listener.receive(0)] == ["default"]
    finally:
        listener.close()


def test_copies_tell_when_a_step_ran(flow):
    job_id = flow.enqueue().id
    work_until_idle(slots=1)
    finished_at = get_store().load_steps(job_id)[4].finished_at

    operations.requeue(job_id, from_step="s5")

    [attempt] = operations.attempts(job_id)
    [copy] = copies(attempt)
    assert datetime.fromisoformat(copy["finished_at"]) == finished_at
