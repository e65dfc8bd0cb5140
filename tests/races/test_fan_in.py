"""Children that end, and parents that park, at the same time.

Each statement sees of the others only what was committed before it began; so whoever ends a child
or parks a parent looks once more behind its own commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.drivers.postgres import PostgresStore, executor
from django_durable_jobs.drivers.postgres.statements import load, parse
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store.rows import ClaimIdentity, NewStep, Settlement
from django_durable_jobs.testing.conformance.given import (
    LEASE,
    Clock,
    claim,
    claim_id,
    claimed,
    enqueue,
    family,
    insert,
    new_children,
    park_calling,
    parked_family,
    publish,
    put_wait,
    settle,
    shown,
)
from django_durable_jobs.worker.settling import Outcome, Settler

from .stepping import PATIENCE, REAL

pytestmark = REAL

End = Callable[[PostgresStore, ClaimIdentity], object]


class Undone(Exception):
    pass


def done(store: PostgresStore, child: ClaimIdentity) -> None:
    assert settle(store, child, states.DONE, result="1")


def cancel(store: PostgresStore, child: ClaimIdentity) -> None:
    assert store.cancel(child.job_id, reason="by hand") == states.RUNNING


def bury(store: PostgresStore, child: ClaimIdentity) -> None:
    queue = shown(store, child.job_id).queue
    rescued = store.rescue("w", [queue], limit=1, lease=LEASE, drop_exhausted=())
    assert [job.id for job in rescued.buried] == [child.job_id]


ENDS: dict[str, End] = {"done": done, "cancelled": cancel, "buried": bury}


def running_children(store: PostgresStore) -> tuple[UUID, list[ClaimIdentity]]:
    """A parked parent and its last two children, which run in queues of their own."""
    parent = claimed(store)
    one, other = new_children(parent, 2, max_attempts=1)
    jobs = [replace(one, queue="one"), replace(other, queue="other")]
    insert(store, *jobs)
    store.put_step(parent, NewStep("ship", 1, "calling", family_id=one.id, children=2))
    park_calling(store, parent)
    return parent.job_id, [claim_id(store, job.id, queue=job.queue) for job in jobs]


def end_together(
    one: PostgresStore, other: PostgresStore, children: list[ClaimIdentity], *ends: End
) -> None:
    """End both in transactions of which neither commits before both have ended theirs."""
    barrier = Barrier(2)

    def act(store: PostgresStore, end: End, child: ClaimIdentity) -> None:
        with store.atomic():
            end(store, child)
            barrier.wait(PATIENCE)

    with ThreadPoolExecutor(2) as threads:
        acts = [
            threads.submit(act, store, end, child)
            for store, end, child in zip((one, other), ends, children, strict=True)
        ]
        for each in acts:
            each.result(PATIENCE)


def without_second_look(monkeypatch) -> None:
    monkeypatch.setattr(PostgresStore, "_wake_parents", lambda self, job_ids: [])


def is_due(store: PostgresStore, job_id: UUID) -> bool:
    return shown(store, job_id).is_armed


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", ENDS)
def test_the_parent_of_two_last_children_that_end_at_one_time_is_due_at_once(
    worker, rival, clock: Clock, first, second
):
    parent_id, children = running_children(worker)
    clock.advance(seconds=61)

    end_together(worker, rival, children, ENDS[first], ENDS[second])

    assert [job.identity.job_id for job in claim(worker)] == [parent_id]


def test_without_the_second_look_that_parent_stays_parked(worker, rival, monkeypatch):
    """Or the test above could not fail."""
    parent_id, children = running_children(worker)
    without_second_look(monkeypatch)

    end_together(worker, rival, children, done, done)

    assert {shown(worker, child.job_id).state for child in children} == {states.DONE}
    assert not is_due(worker, parent_id)


def test_many_children_that_end_at_one_time_start_as_many_and_wake_their_parent_once(worker, store):
    """Side by side, in no given order: whatever it is, none may be lost and none started twice."""
    made = parked_family(worker, 40, at_once=8)
    ended: list[UUID] = []
    with ThreadPoolExecutor(8) as threads:
        while running := claim(worker, 99, queue="children"):
            assert len(running) <= 8
            ended += [job.identity.job_id for job in running]
            list(threads.map(lambda job: done(worker, job.identity), running))

    assert sorted(ended) == made.ids
    assert is_due(worker, made.parent.job_id)


def test_a_child_that_ends_while_its_parents_park_is_not_committed_is_seen_by_the_park(
    worker, rival, store
):
    made = family(store, 1)
    (child,) = claim(store, queue="children")

    with rival.atomic():
        parked = settle(rival, made.parent, states.SUSPENDED, give_back=True, calls=True)
        done(worker, child.identity)
        # By its own snapshot the parent still runs.
        assert not is_due(worker, made.parent.job_id)

    assert parked
    assert is_due(worker, made.parent.job_id)


def test_a_parent_that_parks_while_its_childs_end_is_not_committed_is_seen_by_the_end(
    worker, rival, store
):
    made = family(store, 1)
    (child,) = claim(store, queue="children")

    with rival.atomic():
        done(rival, child.identity)
        park_calling(worker, made.parent)
        assert not is_due(worker, made.parent.job_id)

    assert is_due(worker, made.parent.job_id)


@pytest.mark.parametrize("parks_first", [True, False])
def test_without_the_second_look_either_order_leaves_the_parent_parked(
    worker, rival, store, monkeypatch, parks_first
):
    """Or the two tests above could not fail."""
    made = family(store, 1)
    (child,) = claim(store, queue="children")
    without_second_look(monkeypatch)

    with rival.atomic():
        if parks_first:
            park_calling(rival, made.parent)
            done(worker, child.identity)
        else:
            done(rival, child.identity)
            park_calling(worker, made.parent)

    assert not is_due(worker, made.parent.job_id)
    assert worker.wake_missed(limit=10) == 1


@pytest.mark.parametrize("act", ["cancel", "remove"])
def test_a_last_child_cancelled_or_removed_while_another_ends_wakes_the_parent_at_its_commit(
    worker, store, act
):
    made = parked_family(worker, 2)
    (running,) = claim(worker, 1, queue="children")
    other = made.ids[1]

    with store.atomic():
        if act == "cancel":
            store.cancel(other, reason="by hand")
        else:
            store.remove(other)
        done(worker, running.identity)
        assert not is_due(worker, made.parent.job_id)

    assert is_due(worker, made.parent.job_id)


def test_a_cancel_that_is_rolled_back_leaves_the_parent_to_the_child_that_lives_on(worker, store):
    parent_id, (one, other) = running_children(worker)

    with suppress(RuntimeError), store.atomic():
        store.cancel(one.job_id, reason="by hand")
        done(worker, other)
        raise RuntimeError
    assert not is_due(worker, parent_id)
    done(worker, one)

    assert is_due(worker, parent_id)


def test_the_workers_are_told_of_the_parent_behind_the_commit_of_the_cancel(worker, store):
    made = parked_family(worker, 1)
    with closing(worker.listen()) as listener:
        with suppress(RuntimeError), store.atomic():
            store.cancel(made.ids[0], reason="by hand")
            raise RuntimeError
        assert listener.receive(0.01) == []
        with store.atomic():
            store.cancel(made.ids[0], reason="by hand")
        assert {wake.queue for wake in listener.receive(PATIENCE)} == {"default"}


def test_the_end_of_a_child_does_not_wait_for_a_publisher_that_holds_the_parent(worker, rival):
    """It waits for both; the publisher's wake is enough, or the second look of whoever comes."""
    made = family(worker, 1)
    put_wait(worker, made.parent, seq=2)
    park_calling(worker, made.parent)
    (child,) = claim(worker, queue="children")

    with rival.atomic():
        publish(rival)
        done(worker, child.identity)

    assert is_due(worker, made.parent.job_id)


def test_a_parent_that_was_locked_by_somebody_who_looks_for_nobody_is_due_all_the_same(
    worker, rival, monkeypatch
):
    """Such as a publisher that rolls back, or a renewal that met the row as it was parked."""
    made = family(worker, 1)
    put_wait(worker, made.parent, seq=2)
    park_calling(worker, made.parent)
    (child,) = claim(worker, queue="children")
    fetch = worker.executor.fetch
    transaction = ExitStack()

    def undone_behind_the_first_look(
        name: str, parameters: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = fetch(name, parameters)
        if name == "wake_parents":
            with suppress(Undone), transaction.pop_all():
                raise Undone
        return rows

    monkeypatch.setattr(worker.executor, "fetch", undone_behind_the_first_look)
    with transaction:
        transaction.enter_context(rival.atomic())
        publish(rival)
        done(worker, child.identity)

    assert is_due(worker, made.parent.job_id)


def test_a_look_for_parents_does_not_wait_for_one_who_keeps_the_lock(worker, rival):
    made = parked_family(worker, 1)
    (child,) = claim(worker, queue="children")

    with suppress(Undone), rival.atomic():
        rival.cancel(made.parent.job_id, reason="by hand")
        done(worker, child.identity)
        raise Undone

    assert not is_due(worker, made.parent.job_id)
    assert worker.wake_missed(limit=1) == 1


def test_a_held_sibling_that_somebody_has_locked_is_passed_over_for_the_next(worker, rival):
    made = parked_family(worker, 3, at_once=1)
    (running,) = claim(worker, queue="children")

    with rival.atomic():
        rival.cancel(made.ids[1], reason="by hand")
        done(worker, running.identity)

    assert [is_due(worker, child) for child in made.ids] == [False, False, True]


@pytest.mark.parametrize("ends", ["parent", "child"])
def test_a_second_look_that_met_an_outage_is_made_again(worker, monkeypatch, ends):
    """The settle itself has landed by then, and would be answered as lost."""
    enqueue(worker)
    (parent,) = claim(worker)
    made = family(worker, 1, parent=parent.identity)
    (child,) = claim(worker, queue="children")
    if ends == "parent":
        job, end = parent, Settlement(parent.identity, states.SUSPENDED, calls=True)
        done(worker, child.identity)
    else:
        # Parked as if in the moment of the child's end: its statement sees no parked parent.
        job, end = child, Settlement(child.identity, states.DONE, result="1")
        without_first_wake(monkeypatch)
        park_calling(worker, parent.identity)
    break_once(monkeypatch, worker, "wake_parents")
    landed: list[Settlement | None] = []
    settler = Settler(worker, lambda *_: None)
    settler.start()

    settler.hand_in(Outcome(job, end, answer=landed.append))

    assert settler.finish(PATIENCE)
    assert landed == [end]
    assert is_due(worker, made.parent.job_id)


def break_once(monkeypatch, store: PostgresStore, statement: str) -> None:
    """Let the server be away when *statement* is sent the next time."""
    fetch = store.executor.fetch
    faults = [StoreUnavailable("The server went away.", "Wait.")]

    def breaking(name: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        if name == statement and faults:
            raise faults.pop()
        return fetch(name, parameters)

    monkeypatch.setattr(store.executor, "fetch", breaking)


def without_first_wake(monkeypatch) -> None:
    """Take from the statements that end a child what wakes its parent."""
    blind = parse(
        "settle_children",
        load("settle_children").source.replace("s.status = 'calling'", "s.status = 'done'"),
    )
    monkeypatch.setattr(
        executor, "load", lambda name: blind if name == "settle_children" else load(name)
    )
