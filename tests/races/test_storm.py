"""Families in a storm: everything that ends, takes back and wakes, from six connections at once."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest

from django_durable_jobs import states
from django_durable_jobs.drivers.postgres import PostgresStore, executor
from django_durable_jobs.exceptions import DurableJobsError, LeaseLost
from django_durable_jobs.store.rows import (
    ClaimedJob,
    ClaimIdentity,
    JobFilter,
    JobRow,
    NewStep,
    QueueDemand,
    Settlement,
)
from django_durable_jobs.testing.conformance.given import (
    Clock,
    enqueue,
    insert,
    new_children,
)

from .stepping import REAL

pytestmark = REAL

CONNECTIONS = 6
ACTS = 60
QUEUES = ("default", "children")
SHORT = timedelta(seconds=5)
GIVEN_UP = {states.DEAD, states.FAILED}


def parked(job: ClaimedJob, *steps: str) -> Settlement:
    return Settlement(job.identity, states.SUSPENDED, give_back=True, calls=True, steps=steps)


def call(store: PostgresStore, job: ClaimedJob, step: str, chance: random.Random) -> None:
    count, bound = chance.randint(2, 5), chance.choice([None, 1])
    children = new_children(
        job.identity, count, at_once=bound, step=step, generation=job.generation, max_attempts=2
    )
    calling = NewStep(
        step, 1, "calling", family_id=children[0].id, children=count, children_at_once=bound
    )
    with store.atomic():
        insert(store, *children)
        store.put_step(job.identity, calling)


def run_parent(store: PostgresStore, job: ClaimedJob, chance: random.Random) -> Settlement:
    """Two calls, side by side or one behind the other."""
    stored = {step.name: step for step in store.load_steps(job.identity.job_id)}
    waits = []
    for name in ("one", "two"):
        step = stored.get(name)
        if step is None:
            call(store, job, name, chance)
            waits.append(name)
        elif step.is_open:
            assert step.family_id is not None
            children = store.children(step.family_id, step.children or 0)
            if any(child.state not in states.FINISHED_STATES for child in children):
                waits.append(name)
            else:
                store.put_step(job.identity, NewStep(name, 1, "done", output="1"))
        if waits and chance.random() < 0.5:
            break
    return parked(job, *waits) if waits else Settlement(job.identity, states.DONE, result="1")


def work(store: PostgresStore, chance: random.Random, *, dies: float = 0.1) -> bool:
    """One round of a worker of which some jobs are lost; whether there were any."""
    store.arm(limit=100)
    demand = [QueueDemand(queue, chance.randint(1, 5)) for queue in QUEUES]
    jobs = store.claim(f"worker-{chance.random()}", demand, lease=SHORT)
    ends = []
    for job in jobs:
        if chance.random() < dies:
            continue
        with suppress(LeaseLost):
            if job.queue == "default":
                ends.append(run_parent(store, job, chance))
            else:
                ends.append(Settlement(job.identity, chance.choice([states.DONE, states.DEAD])))
    chance.shuffle(ends)
    store.settle(ends, wait=True)
    return bool(jobs)


def rescue(store: PostgresStore) -> bool:
    """Take what lapsed, and give it back; whether there was any."""
    found = store.rescue("rescuer", QUEUES, limit=100, lease=SHORT, drop_exhausted=())
    store.settle([Settlement(job.identity, states.READY) for job in found.claimed])
    return bool(found.claimed or found.buried)


def lapse(store: PostgresStore, row: JobRow) -> None:
    if row.worker_id is not None:
        store.lapse([ClaimIdentity(row.id, row.worker_id, row.claims)])


def cancel_several(store: PostgresStore, rows: list[JobRow]) -> None:
    with store.atomic():
        for row in sorted(rows, key=lambda row: row.id):
            store.cancel(row.id, reason="together")


def disturb(store: PostgresStore, chance: random.Random) -> None:
    rows = store.list_jobs(JobFilter(), limit=200, after=None, before=None)
    row = chance.choice(rows)
    acts = [
        lambda: store.cancel(row.id, reason="by hand"),
        lambda: store.remove(row.id),
        lambda: store.requeue(row.id),
        lambda: store.requeue(row.id, from_step=chance.choice(["one", "two"])),
        lambda: store.promote(row.id),
        lambda: store.wake_parents([row.id for row in rows]),
        lambda: cancel_several(store, chance.sample(rows, min(3, len(rows)))),
        lambda: lapse(store, row),
        lambda: rescue(store),
        lambda: enqueue(store, max_attempts=99),
    ]
    # What a job in its state does not allow is refused.
    with suppress(DurableJobsError):
        chance.choice(acts)()


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_nobody_deadlocks_whatever_ends_families_at_once(
    make, worker, monkeypatch, clock: Clock, seed
):
    """The last resort is not asked: nobody else may have left it anything to do."""
    run, met = executor._run, []

    def watched(*statement):
        try:
            return run(*statement)
        except psycopg.errors.DeadlockDetected as error:
            met.append(error)
            raise

    def rage(number: int) -> None:
        chance, store = random.Random(seed * 100 + number), make(PostgresStore)
        for _ in range(ACTS):
            if chance.random() < 0.5:
                work(store, chance)
            else:
                disturb(store, chance)

    monkeypatch.setattr(executor, "_run", watched)
    for _ in range(6):
        enqueue(worker, max_attempts=99)
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(rage, range(CONNECTIONS)))
    clock.advance(hours=1)
    calm = random.Random(seed)
    while rescue(worker) or work(worker, calm, dies=0):
        pass

    assert met == []
    assert [count for count in worker.stats() if not set(count.counts) <= GIVEN_UP] == []
    assert worker.wake_missed(limit=100) == 0
