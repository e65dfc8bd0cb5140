"""A whole worker, in the test's process, until nothing is due any more."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from django_durable_jobs import JobContext, Retry, job
from django_durable_jobs.models import Job
from django_durable_jobs.store import get_store
from django_durable_jobs.testing.conformance import given
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL

pytestmark = REAL


def states() -> list[str]:
    return sorted(set(Job.objects.values_list("state", flat=True)))


@pytest.fixture
def capped(settings) -> None:
    settings.DURABLE_JOBS = {"QUEUES": {"default": {}, "slow": {"slots": 2}}}


@pytest.mark.usefixtures("capped")
def test_a_burst_ends_and_keeps_to_the_slots_of_a_queue():
    lock = threading.Lock()
    now, most = [0], [0]

    @job(name="burst.slow", queue="slow")
    def slow(number: int) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        # As long as a statement lasts, so that others would come in beside it.
        get_store().now()
        with lock:
            now[0] -= 1

    @job(name="burst.fast")
    def fast(number: int) -> None:
        pass

    slow.enqueue_many({"number": number} for number in range(40))
    fast.enqueue_many({"number": number} for number in range(40))
    work_until_idle(slots=6)

    assert states() == ["done"]
    assert most[0] <= 2


def test_a_retry_that_is_due_at_once_belongs_to_the_burst():
    @job(name="burst.flaky", retry=Retry(attempts=4, delay=0, jitter="none"))
    def flaky(ctx: JobContext) -> int:
        if ctx.attempt < 4:
            raise ValueError("not yet")
        return ctx.attempt

    for _ in range(5):
        flaky.enqueue()
    work_until_idle(slots=2)

    assert states() == ["done"]
    assert set(Job.objects.values_list("attempt", flat=True)) == {4}


def test_a_burst_does_not_end_before_the_hook_of_a_buried_job_has_run():
    told: list[tuple[str, Any]] = []

    def tell(settled: Any) -> None:
        # Slower than all that is left to do.
        for _ in range(20):
            get_store().now()
        told.append((settled.outcome, settled.job_id))

    @job(name="burst.killer", retry=Retry(attempts=1), on_settled=tell)
    def killer() -> None:
        pass

    store = get_store()
    ids = [killer.enqueue().id for _ in range(5)]
    store.lapse([claimed.identity for claimed in given.claim(store, worker="dead")])
    work_until_idle(slots=2)

    assert states() == ["dead"]
    assert sorted(told) == sorted(("dead-lettered", job_id) for job_id in ids)


def test_more_lanes_than_a_claim_visits_are_all_served_by_one_burst():
    """A tenant with one job each is the usual case of a project with many tenants."""

    @job(name="burst.tenant", tenant=lambda i: f"tenant-{i.number}")
    def tenant(number: int) -> None:
        pass

    tenant.enqueue_many({"number": number} for number in range(400))
    work_until_idle(slots=200)

    assert states() == ["done"]
