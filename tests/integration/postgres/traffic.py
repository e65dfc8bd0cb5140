"""One call of every verb, so that every statement runs once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.store.ids import family_id, new_id, sibling_id
from django_durable_jobs.store.rows import (
    EventFilter,
    JobFilter,
    NewJob,
    NewStep,
    QueueDemand,
    Settlement,
    Wake,
    WorkerBeat,
)

LEASE = timedelta(seconds=60)


def all_verbs(store: PostgresStore) -> None:
    """Call each verb of the store, on jobs of its own where it needs some."""

    def new(key: str | None = None) -> NewJob:
        return NewJob(
            id=new_id(), name="plans", queue="own", input="{}", max_attempts=3, idempotency_key=key
        )

    first, second, third = new("a"), new(), new()
    store.insert([first, second, third], on_conflict="existing")
    store.insert([new("a")], on_conflict="existing")
    claimed = store.claim("w1", [QueueDemand("own", 3)], lease=LEASE)
    one, two, three = (job.identity for job in claimed)
    beat = WorkerBeat("w1", "host", 1, ("own",), 4, "0")
    store.renew([one, two, three], lease=LEASE, beats=[beat])
    store.record_progress(one, "1")
    store.record_version(one, "2")
    with store.atomic():
        store.hold(one)
    store.put_step(one, NewStep("s", 1, "done", output="1"))
    wait = store.put_step(
        two,
        NewStep(
            "w",
            1,
            "waiting",
            event="e",
            wait=timedelta(hours=1),
            alternatives=(EventFilter("f", "k"),),
        ),
    )
    store.load_steps(one.job_id)
    store.settle(
        [
            Settlement(one, "done", result="1"),
            Settlement(two, "suspended", run_at=wait.wake_at, waits=True),
        ]
    )
    store.publish(new_id(), "e", "1", key=None, ttl=timedelta(days=1))
    store.publish(new_id(), "f", "1", key="k", ttl=timedelta(days=1), job_id=two.job_id)
    store.find_event(wait)
    store.wake_waiters([two.job_id])
    store.wake_missed(limit=10)
    store.set_waits_aside(limit=10)
    store.purge_events(limit=10)
    store.lapse([three])
    store.rescue("w2", ["own"], limit=10, lease=LEASE, drop_exhausted=[])
    store.arm(limit=10)
    store.probe(["own", "default", "mail"])
    store.show(one.job_id)
    store.list_jobs(JobFilter(), limit=50, after=None, before=None)
    store.list_jobs(JobFilter(), limit=50, after=one.job_id, before=None)
    store.list_jobs(JobFilter(), limit=50, after=None, before=one.job_id)
    store.list_jobs(JobFilter(state="dead"), limit=50, after=None, before=None)
    store.attempts(one.job_id)
    families(store)
    store.requeue(one.job_id)
    store.cancel(one.job_id, reason="")
    store.requeue(one.job_id, from_step="s")
    store.cancel(one.job_id, reason="")
    store.version_waits()
    later = new()
    store.insert([replace(later, delay=timedelta(hours=1))], on_conflict="existing")
    store.promote(later.id)
    store.remove(one.job_id)
    store.pause_queue("own", by="", reason="")
    store.resume_queue("own")
    store.stats()
    store.now()
    store.wake([Wake("own")])
    store.forget_workers(["w1"])


def families(store: PostgresStore) -> None:
    """Let a parent call children, of which each ends in another way."""
    parent = NewJob(id=new_id(), name="plans", queue="parents", input="{}", max_attempts=3)
    store.insert([parent], on_conflict="existing")
    (claimed,) = store.claim("w1", [QueueDemand("parents", 1)], lease=LEASE)
    first = family_id(parent.id, "ship", 0)
    children = [
        NewJob(
            id=sibling_id(first, index),
            name="plans",
            queue="children",
            input="{}",
            max_attempts=3,
            parent_id=parent.id,
            parent_step="ship",
            family_id=first,
            is_held=index > 0,
        )
        for index in range(4)
    ]
    store.insert(children, on_conflict="existing")
    store.insert(children, on_conflict="existing")
    store.put_step(
        claimed.identity,
        NewStep("ship", 1, "calling", family_id=first, children=4, children_at_once=1),
    )
    store.settle([Settlement(claimed.identity, "suspended", calls=True)])
    store.wake_missed(limit=10)
    (child,) = store.claim("w1", [QueueDemand("children", 1)], lease=LEASE)
    store.settle([Settlement(child.identity, "done", result="1")])
    store.cancel(children[1].id, reason="")
    store.remove(children[2].id)
    store.children(first, 4)
