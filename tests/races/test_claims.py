"""What a claim leaves behind, and what it owes the lanes that come later."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

import pytest

from django_durable_jobs.drivers.postgres import PooledExecutor, PostgresStore
from django_durable_jobs.exceptions import StoreUnavailable
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


class Interrupted(PooledExecutor):
    """Finds the jobs' table locked from its second claim on."""

    def __init__(self, rival: PooledExecutor, until: ExitStack) -> None:
        super().__init__("default")
        self._rival = rival
        self._until = until
        self._is_first = True

    def fetch(self, name: str, parameters: Any) -> list[tuple[Any, ...]]:
        with self._connection() as connection:
            connection.execute("set lock_timeout = '50ms'")
        rows = super().fetch(name, parameters)
        if name == "claim" and self._is_first:
            self._is_first = False
            self._until.enter_context(self._rival.transaction())
            with self._rival._connection() as connection:
                connection.execute("lock table x_jobs in access exclusive mode")
        return rows


def test_a_claim_that_is_cut_short_answers_the_jobs_that_it_took(worker, rival):
    """Lost, they would lie until their leases lapse, and a last attempt would be buried unrun."""
    taken = [enqueue(worker, tenant_id=tenant, priority=1) for tenant in ("a", "b")]
    enqueue(worker, max_attempts=1)

    with ExitStack() as until, closing(PostgresStore(Interrupted(rival.executor, until))) as store:
        claimed = store.claim("worker-1", [QueueDemand("default", 9)], lease=LEASE)
        with pytest.raises(StoreUnavailable):
            store.claim("worker-1", [QueueDemand("default", 9)], lease=LEASE)

    assert [job.identity.job_id for job in claimed] == taken
