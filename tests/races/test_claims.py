"""What a claim leaves behind, and what it owes the lanes that come later."""

from __future__ import annotations

from django_durable_jobs.store.rows import QueueDemand
from django_durable_jobs.testing.conformance.given import LEASE, claim, enqueue

from .stepping import REAL

pytestmark = REAL


def test_a_queue_that_was_cut_off_by_the_others_goes_on_behind_its_last_lane(worker):
    """One free slot for two queues that take turns: each claim is over before the second."""
    for queue in ("a", "b"):
        for _ in range(9):
            enqueue(worker, queue=queue, tenant_id="many")
        enqueue(worker, queue=queue, tenant_id="one")

    claimed = []
    for turn in (["a", "b"], ["b", "a"]) * 2:
        demands = [QueueDemand(queue, 1) for queue in turn]
        claimed += worker.claim("worker-1", demands, lease=LEASE, limit=1)

    assert [(job.queue, job.tenant_id) for job in claimed] == [
        ("a", "many"),
        ("b", "many"),
        ("a", "one"),
        ("b", "one"),
    ]


def test_a_claim_that_got_less_than_it_asked_for_left_nothing_behind(worker):
    """Its caller waits for a wake then, and so would what is left."""
    for priority in range(8):
        for tenant in ("a", "b"):
            enqueue(worker, tenant_id=tenant, priority=priority)

    assert len(claim(worker, 100)) == 16


def test_jobs_behind_lanes_that_are_all_locked_are_claimed(worker, rival):
    """A request that has cancelled jobs and goes on must not stop the queue."""
    cancelled = [enqueue(worker, tenant_id=f"t{number:02}") for number in range(40)]
    free = enqueue(worker, tenant_id="z")

    with rival.atomic():
        for job_id in cancelled:
            rival.cancel(job_id, reason="")
        claimed = claim(worker)

    assert [job.identity.job_id for job in claimed] == [free]


def test_jobs_below_a_priority_whose_jobs_are_all_locked_are_claimed(worker, rival):
    cancelled = [enqueue(worker, tenant_id=tenant, priority=5) for tenant in ("a", "b")]
    free = [enqueue(worker, tenant_id=tenant) for tenant in ("a", "b")]

    with rival.atomic():
        for job_id in cancelled:
            rival.cancel(job_id, reason="")
        claimed = claim(worker)

    assert [job.identity.job_id for job in claimed] == free
