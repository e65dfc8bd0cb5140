from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import NewStep, Settlement

from .ends import ENDS, End, due, every_end, is_due, start
from .given import (
    BOOM,
    Clock,
    Family,
    at_once,
    claimed,
    family,
    insert,
    new_children,
    park_calling,
    parked_family,
    settle,
    shown,
)


class TestHeldChildren:
    def test_children_beyond_the_bound_are_not_due_however_long_they_wait(
        self, store: JobStore, clock: Clock
    ) -> None:
        made = parked_family(store, 5, at_once=2)
        clock.advance(days=3650)

        assert [job.identity.job_id for job in start(store)] == made.ids[:2]
        assert shown(store, made.ids[2]).state == states.DELAYED

    @every_end
    def test_each_end_makes_the_first_held_sibling_due_and_the_last_one_the_parent(
        self, store: JobStore, clock: Clock, end: End
    ) -> None:
        made = parked_family(store, 4, at_once=1, max_attempts=1)

        for place, child in enumerate(made.ids):
            assert due(store, made) == [place]
            assert not is_due(store, made.parent.job_id)
            end(store, clock, child)

        assert due(store, made) == []
        assert is_due(store, made.parent.job_id)

    def test_never_more_than_the_bound_are_due_or_running(self, store: JobStore) -> None:
        made = parked_family(store, 20, at_once=3)
        running = start(store)
        while running:
            # Ends of several at one time, in another order than that of their start.
            ends, running = running[-2:], running[:-2]
            store.settle([Settlement(job.identity, states.DONE) for job in ends])
            running += start(store)
            assert len(running) <= 3

        assert {shown(store, child).state for child in made.ids} == {states.DONE}
        assert is_due(store, made.parent.job_id)

    def test_a_batch_makes_as_many_due_as_it_ends_in_each_family(self, store: JobStore) -> None:
        one = parked_family(store, 9, at_once=3)
        other = parked_family(store, 9, at_once=2)
        batch = [Settlement(job.identity, states.DONE) for job in start(store)]

        store.settle(batch)

        assert (due(store, one), due(store, other)) == ([3, 4, 5], [2, 3])

    def test_a_child_that_is_tried_again_keeps_its_place(self, store: JobStore) -> None:
        made = parked_family(store, 3, at_once=1)
        (child,) = start(store)

        settle(store, child.identity, states.READY, delay=timedelta(hours=1), failure=BOOM)

        assert due(store, made) == []

    @pytest.mark.parametrize("end", ["cancelled", "removed"])
    def test_a_held_child_that_ends_has_no_place_to_pass_on(
        self, store: JobStore, clock: Clock, end: str
    ) -> None:
        made = parked_family(store, 4, at_once=1)

        ENDS[end](store, clock, made.ids[1])
        assert due(store, made) == [0]
        store.cancel(made.ids[0], reason="by hand")

        assert due(store, made) == [2]

    def test_the_last_child_may_end_while_it_is_held(self, store: JobStore) -> None:
        made = parked_family(store, 2, at_once=0)

        for child in made.ids:
            assert not is_due(store, made.parent.job_id)
            store.cancel(child, reason="by hand")

        assert is_due(store, made.parent.job_id)

    def test_the_queue_of_the_sibling_is_woken(self, store: JobStore) -> None:
        listener = store.listen()
        if listener is None:
            pytest.skip("This driver has no listener.")
        parked_family(store, 2, at_once=1)
        (child,) = start(store)
        with closing(listener):
            settle(store, child.identity, states.DONE)

            assert "children" in {wake.queue for wake in listener.receive(10)}

    def test_children_that_end_at_the_same_time_start_one_sibling_each(
        self, store: JobStore
    ) -> None:
        made = parked_family(store, 24, at_once=4)
        running = start(store)

        ended = at_once(
            store, 4, lambda own, number: settle(own, running[number].identity, states.DONE)
        )

        assert ended == [True] * 4
        assert due(store, made) == [4, 5, 6, 7]


class TestMissedParents:
    def test_a_parent_that_nobody_woke_is_woken_by_the_last_resort(self, store: JobStore) -> None:
        forgotten, calling = forgotten_family(store), parked_family(store, 1)

        assert [store.wake_missed(limit=10) for _ in range(2)] == [1, 0]

        assert is_due(store, forgotten.parent.job_id)
        assert not is_due(store, calling.parent.job_id)

    def test_the_last_resort_wakes_no_more_parents_than_its_limit(self, store: JobStore) -> None:
        for _ in range(3):
            forgotten_family(store)

        assert [store.wake_missed(limit=2) for _ in range(3)] == [2, 1, 0]

    def test_the_last_resort_starts_as_many_held_children_as_may_run(self, store: JobStore) -> None:
        made = stuck_family(store, 5, at_once=2)
        whole = parked_family(store, 5, at_once=2)
        assert due(store, made) == []

        assert [store.wake_missed(limit=10) for _ in range(2)] == [2, 0]

        assert due(store, made) == due(store, whole) == [0, 1]

    def test_the_last_resort_leaves_children_their_places(self, store: JobStore) -> None:
        """Those that run or back off count, held ones do not."""
        made = stuck_family(store, 6, at_once=3)
        store.wake_missed(limit=2)
        one, other = start(store)
        settle(store, other.identity, states.READY, delay=timedelta(hours=1), failure=BOOM)

        assert [store.wake_missed(limit=10) for _ in range(2)] == [1, 0]

        assert one.identity.job_id == made.ids[0]
        assert due(store, made) == [2]


def forgotten_family(store: JobStore) -> Family:
    """A parent parked behind the end of its only child, whose worker did not look again."""
    made = family(store, 1)
    store.cancel(made.ids[0], reason="by hand")
    assert settle(store, made.parent, states.SUSPENDED, give_back=True)
    return made


def stuck_family(store: JobStore, count: int, *, at_once: int) -> Family:
    """A parked parent of which every child is held, though *at_once* may run."""
    parent = claimed(store)
    jobs = new_children(parent, count, at_once=0)
    insert(store, *jobs)
    store.put_step(
        parent,
        NewStep(
            "ship", 1, "calling", family_id=jobs[0].id, children=count, children_at_once=at_once
        ),
    )
    park_calling(store, parent)
    return Family(parent, "ship", [job.id for job in jobs])
