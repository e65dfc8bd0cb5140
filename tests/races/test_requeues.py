"""A requeue from a step meets another act on the same job: steps go with the move, or stay."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import JobNotFound, JobNotRequeueable
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimIdentity, NewStep
from django_durable_jobs.testing.conformance.given import (
    BOOM,
    claim_id,
    claimed,
    enqueue,
    everything,
    put_wait,
    settle,
    shown,
)

from .stepping import PATIENCE, REAL, waits_for_a_lock

pytestmark = REAL

STEPS = ("reserve", "charge", "ship")


def put(store: JobStore, identity: ClaimIdentity, *names: str) -> None:
    for seq, name in enumerate(names, 1):
        store.put_step(identity, NewStep(name, seq, "done", output=f'"{name}"'))


@pytest.fixture
def dead(worker):
    """A dead job with three finished steps."""
    identity = claimed(worker)
    put(worker, identity, *STEPS)
    assert settle(worker, identity, states.DEAD, failure=BOOM)
    return identity.job_id


def left(store: JobStore, job_id: UUID) -> list[str]:
    return [step.name for step in store.load_steps(job_id)]


def taken(store: JobStore, job_id: UUID) -> list[list[str]]:
    """What was taken back, attempt by attempt, the newest first."""
    return [
        [copy["name"] for copy in json.loads(attempt.steps or "[]")]
        for attempt in store.attempts(job_id)
    ]


@pytest.mark.parametrize("first", [None, "ship"])
@pytest.mark.parametrize("second", ["charge", "ship"])
def test_of_two_requeues_one_moves_the_job_and_only_that_one_takes_steps_back(
    worker, rival, dead, first, second
):
    with ThreadPoolExecutor(1) as threads:
        with rival.atomic():
            rival.requeue(dead, from_step=first)
            other = threads.submit(worker.requeue, dead, from_step=second)
            assert waits_for_a_lock(other)
        with pytest.raises(JobNotRequeueable) as refusal:
            other.result(PATIENCE)

    assert refusal.value.state == states.READY
    kept = STEPS[: STEPS.index(first)] if first else STEPS
    assert left(worker, dead) == list(kept)
    assert taken(worker, dead) == [[name for name in STEPS if name not in kept]]
    assert shown(worker, dead).generation == (0 if first is None else 1)


def test_a_requeue_behind_one_that_is_rolled_back_moves_the_job(worker, rival, dead):
    with ThreadPoolExecutor(1) as threads:
        with suppress(ZeroDivisionError), rival.atomic():
            rival.requeue(dead, from_step="reserve")
            other = threads.submit(worker.requeue, dead, from_step="ship")
            assert waits_for_a_lock(other)
            raise ZeroDivisionError
        assert other.result(PATIENCE).generation == 1

    assert left(worker, dead) == ["reserve", "charge"]
    assert taken(worker, dead) == [["ship"]]


def test_a_requeue_behind_a_removal_finds_no_job(worker, rival, dead):
    with ThreadPoolExecutor(1) as threads:
        with rival.atomic():
            rival.remove(dead)
            other = threads.submit(worker.requeue, dead, from_step="charge")
            assert waits_for_a_lock(other)
        with pytest.raises(JobNotFound):
            other.result(PATIENCE)

    assert left(worker, dead) == []
    assert worker.attempts(dead) == []


def test_a_requeue_takes_back_also_the_steps_of_a_run_that_came_and_went_while_it_waited(
    worker, rival, dead
):
    """It sees the steps as they were before it waited for the lock, and the row as it is after."""
    with ThreadPoolExecutor(1) as threads:
        with rival.atomic():
            rival.requeue(dead, from_step="charge")
            again = claim_id(rival, dead, worker="worker-2")
            put(rival, again, "reserve", "charge anew", "ship anew")
            assert settle(rival, again, states.DEAD, failure=BOOM)
            other = threads.submit(worker.requeue, dead, from_step="reserve")
            assert waits_for_a_lock(other)
        assert other.result(PATIENCE).generation == 2

    assert left(worker, dead) == []
    assert taken(worker, dead) == [["reserve", "charge anew", "ship anew"], ["charge", "ship"]]


def test_a_job_that_is_being_cancelled_is_not_requeued_before_that_is_committed(worker, rival):
    identity = claimed(worker)
    put(worker, identity, "reserve")
    put_wait(worker, identity, seq=2)
    settle(worker, identity, states.SUSPENDED, give_back=True, waits=True)
    job_id = identity.job_id

    with rival.atomic():
        rival.cancel(job_id, reason="by hand")
        with pytest.raises(JobNotRequeueable) as refusal:
            worker.requeue(job_id, from_step="reserve")

    assert refusal.value.state == states.SUSPENDED
    assert left(worker, job_id) == ["reserve", "approval"]
    assert worker.requeue(job_id, from_step="approval").state == states.READY
    assert taken(worker, job_id) == [["approval"]]


def test_a_cancel_beside_an_uncommitted_requeue_finds_nothing_live_and_stops_nothing(
    worker, rival, dead
):
    with rival.atomic():
        rival.requeue(dead, from_step="charge")
        assert worker.cancel(dead, reason="by hand") is None

    assert (shown(worker, dead).state, left(worker, dead)) == (states.READY, ["reserve"])


def test_a_claim_beside_an_uncommitted_requeue_takes_nothing(worker, rival, dead):
    other = enqueue(worker)
    with rival.atomic():
        rival.requeue(dead, from_step="charge")
        claim_id(worker, other)

    before = everything(worker, dead)
    assert (before.job and before.job.state) == states.READY
    assert claim_id(worker, dead).claim == 2
