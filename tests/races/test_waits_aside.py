"""Setting open waits aside meets a requeue that takes them up again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from django_durable_jobs import states
from django_durable_jobs.models import JobStep, JobWait
from django_durable_jobs.store.rows import EventFilter
from django_durable_jobs.testing.conformance.given import claim_id, parked, publish, settle, shown

from .stepping import PATIENCE, REAL, waits_for_a_lock

pytestmark = REAL


@pytest.fixture
def cancelled(worker):
    """A job that was cancelled in a wait for any of two events."""
    job_id, _ = parked(worker, alternatives=(EventFilter("refunded"),))
    worker.cancel(job_id, reason="")
    return job_id


@pytest.mark.parametrize("name", ["approved", "refunded"])
def test_a_requeue_that_waits_for_it_takes_up_what_was_set_aside(worker, rival, cancelled, name):
    """The requeue began before, and sees the waits as they were then."""
    with ThreadPoolExecutor(1) as threads:
        with rival.atomic():
            assert rival.set_waits_aside(limit=10) == 1
            requeue = threads.submit(worker.requeue, cancelled)
            assert waits_for_a_lock(requeue)
        assert requeue.result(PATIENCE).state == states.READY

    identity = claim_id(worker, cancelled)
    assert settle(worker, identity, states.SUSPENDED, give_back=True)
    publish(worker, name)
    assert shown(worker, cancelled).is_armed


def test_a_requeue_from_the_step_leaves_nothing_of_what_was_set_aside(worker, rival, cancelled):
    with ThreadPoolExecutor(1) as threads:
        with rival.atomic():
            assert rival.set_waits_aside(limit=10) == 1
            requeue = threads.submit(worker.requeue, cancelled, from_step="approval")
            assert waits_for_a_lock(requeue)
        assert requeue.result(PATIENCE).generation == 1

    assert not JobStep.objects.exists()
    assert not JobWait.objects.exists()


def test_a_job_that_is_being_requeued_is_left_alone(worker, rival, cancelled):
    with rival.atomic():
        rival.requeue(cancelled)
        assert worker.set_waits_aside(limit=10) == 0

    assert worker.set_waits_aside(limit=10) == 0
    assert not JobStep.objects.filter(is_set_aside=True).exists()
    assert JobWait.objects.count() == 1
