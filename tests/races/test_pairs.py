"""Two acts on one job: the second begins while the first's transaction is open, then that commits.

Whatever the second sees first, it must end as if it had begun after the commit, or have found
nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import DurableJobsError
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimIdentity, JobRow, NewStep, QueueDemand, Rescued
from django_durable_jobs.testing.conformance.given import (
    LEASE,
    Clock,
    claim_id,
    enqueue,
    finished,
    settle,
)

from .stepping import PATIENCE, REAL, waits_for_a_lock

pytestmark = REAL

KEY = "order:7"
Act = Callable[[JobStore, UUID], Any]


def running(store: JobStore, job_id: UUID) -> ClaimIdentity:
    return ClaimIdentity(job_id, "worker-1", 1)


def rescue(store: JobStore, job_id: UUID) -> Rescued:
    return store.rescue("worker-2", ["default"], limit=9, lease=LEASE, drop_exhausted=())


def put_step(store: JobStore, job_id: UUID) -> str:
    return store.put_step(running(store, job_id), NewStep("a", 1, "done", output="1")).status


ACTS: dict[str, Act] = {
    "arm": lambda store, job_id: store.arm(limit=9),
    "cancel": lambda store, job_id: store.cancel(job_id, reason="by hand"),
    "claim": lambda store, job_id: store.claim("w", [QueueDemand("default", 9)], lease=LEASE),
    "end": lambda store, job_id: settle(store, running(store, job_id), states.DONE, result="1"),
    "enqueue": lambda store, job_id: enqueue(store, idempotency_key=KEY),
    "park": lambda store, job_id: settle(store, running(store, job_id), states.SUSPENDED),
    "promote": lambda store, job_id: store.promote(job_id),
    "put step": put_step,
    "remove": lambda store, job_id: store.remove(job_id),
    "requeue": lambda store, job_id: store.requeue(job_id),
    "rescue": rescue,
}


@dataclass(frozen=True)
class Pair:
    """Two acts, what the second answers, and the state the job is left in."""

    first: str
    second: str
    answer: object
    left: str | None

    def __str__(self) -> str:
        return f"{self.first}, {self.second}"


WAITING = [
    Pair("cancel", "claim", 0, "cancelled"),
    Pair("claim", "cancel", "running", "cancelled"),
    Pair("claim", "claim", 0, "running"),
    Pair("claim", "remove", "JobNotRemovable", "running"),
    Pair("remove", "claim", 0, None),
    Pair("cancel", "cancel", None, "cancelled"),
    Pair("cancel", "remove", None, None),
    Pair("remove", "cancel", None, None),
    Pair("remove", "remove", "JobNotFound", None),
    Pair("cancel", "enqueue", "another", "cancelled"),
    Pair("remove", "enqueue", "another", None),
]
DELAYED = [
    Pair("promote", "arm", 0, "ready"),
    Pair("arm", "promote", "ready", "ready"),
    Pair("promote", "promote", "JobNotPromotable", "ready"),
    Pair("promote", "claim", 0, "ready"),
    Pair("promote", "cancel", "ready", "cancelled"),
    Pair("cancel", "promote", "JobNotPromotable", "cancelled"),
    Pair("cancel", "arm", 0, "cancelled"),
]
FINISHED = [
    Pair("requeue", "requeue", "JobNotRequeueable", "ready"),
    Pair("requeue", "claim", 0, "ready"),
    Pair("requeue", "enqueue", "the same", "ready"),
    Pair("enqueue", "requeue", "JobDuplicate", "done"),
    Pair("requeue", "remove", None, None),
    Pair("remove", "requeue", "JobNotFound", None),
]
RUNNING = [
    Pair("end", "cancel", None, "done"),
    Pair("cancel", "end", False, "cancelled"),
    Pair("end", "enqueue", "another", "done"),
    Pair("end", "rescue", 0, "done"),
    Pair("rescue", "end", False, "running"),
    Pair("park", "cancel", "suspended", "cancelled"),
    Pair("park", "rescue", 0, "suspended"),
    Pair("rescue", "rescue", 0, "running"),
    Pair("cancel", "rescue", 0, "cancelled"),
    Pair("rescue", "cancel", "running", "cancelled"),
    Pair("put step", "cancel", "running", "cancelled"),
    Pair("cancel", "put step", "LeaseLost", "cancelled"),
    Pair("put step", "end", True, "done"),
    Pair("put step", "rescue", 0, "running"),
    Pair("rescue", "put step", "LeaseLost", "running"),
    Pair("end", "remove", "JobNotRemovable", "done"),
]


def answered(act: Callable[[], Any], job_id: UUID) -> object:
    """What an act answered, in a word."""
    try:
        answer = act()
    except DurableJobsError as error:
        return type(error).__name__
    if isinstance(answer, Rescued):
        return len(answer.claimed) + len(answer.buried)
    if isinstance(answer, list):
        return len(answer)
    if isinstance(answer, UUID):
        return "the same" if answer == job_id else "another"
    return answer.state if isinstance(answer, JobRow) else answer


def meet(pair: Pair, job_id: UUID, rival: JobStore, worker: JobStore) -> None:
    with ThreadPoolExecutor(1) as threads:
        with rival.atomic():
            ACTS[pair.first](rival, job_id)
            second = threads.submit(answered, lambda: ACTS[pair.second](worker, job_id), job_id)
            # Or it has ended, because it passes over what is locked.
            waits_for_a_lock(second)
        answer = second.result(PATIENCE)

    row = worker.show(job_id)
    assert (answer, row and row.state) == (pair.answer, pair.left)


@pytest.mark.parametrize("pair", WAITING, ids=str)
def test_two_acts_on_a_waiting_job(worker, rival, pair):
    meet(pair, enqueue(worker, idempotency_key=KEY), rival, worker)


@pytest.mark.parametrize("pair", DELAYED, ids=str)
def test_two_acts_on_a_delayed_job(worker, rival, clock: Clock, pair):
    job_id = enqueue(worker, delay=timedelta(seconds=30))
    if "arm" in (pair.first, pair.second):
        clock.advance(seconds=31)
    meet(pair, job_id, rival, worker)


@pytest.mark.parametrize("pair", FINISHED, ids=str)
def test_two_acts_on_a_finished_job(worker, rival, pair):
    meet(pair, finished(worker, states.DONE, idempotency_key=KEY), rival, worker)


@pytest.mark.parametrize("pair", RUNNING, ids=str)
def test_two_acts_on_a_running_job_whose_lease_has_lapsed(worker, rival, clock: Clock, pair):
    job_id = enqueue(worker, idempotency_key=KEY)
    claim_id(worker, job_id)
    clock.advance(seconds=61)
    meet(pair, job_id, rival, worker)
