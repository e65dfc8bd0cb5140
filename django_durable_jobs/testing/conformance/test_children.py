from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ChildRow, ClaimedJob, ConflictPolicy, NewStep, Settlement

from .given import (
    BOOM,
    LEASE,
    Clock,
    Family,
    at_once,
    claim,
    claimed,
    everything,
    family,
    insert,
    new_children,
    new_job,
    park_calling,
    parked_family,
    publish,
    put_wait,
    settle,
    shown,
)

End = Callable[[JobStore, Clock, UUID], object]


def settled(state: str) -> End:
    def end(store: JobStore, clock: Clock, child: UUID) -> None:
        (job,) = [job for job in start(store) if job.identity.job_id == child]
        failure = None if state == states.DONE else BOOM
        assert settle(store, job.identity, state, failure=failure)

    return end


def bury(store: JobStore, clock: Clock, child: UUID) -> None:
    start(store)
    clock.advance(seconds=61)
    rescued = store.rescue("w", ["children"], limit=1, lease=LEASE, drop_exhausted=())
    assert [job.id for job in rescued.buried] == [child]


ENDS: dict[str, End] = {
    "done": settled(states.DONE),
    "dead": settled(states.DEAD),
    "failed": settled(states.FAILED),
    "cancelled": lambda store, _, child: store.cancel(child, reason="by hand"),
    "cancelled while running": lambda store, _, child: (
        start(store) and store.cancel(child, reason="by hand")
    ),
    "removed": lambda store, _, child: store.remove(child),
    "buried": bury,
}
every_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


def start(store: JobStore) -> list[ClaimedJob]:
    return claim(store, 100, queue="children")


def is_due(store: JobStore, job_id: UUID) -> bool:
    return shown(store, job_id).is_armed


def due(store: JobStore, made: Family) -> list[int]:
    """The places of those children that could be claimed now."""
    rows = [store.show(child) for child in made.ids]
    return [place for place, row in enumerate(rows) if row is not None and row.is_armed]


class TestLastChild:
    @every_end
    def test_the_end_of_the_last_child_makes_its_parent_due(
        self, store: JobStore, clock: Clock, end: End
    ) -> None:
        made = parked_family(store, 1, max_attempts=1)
        assert not is_due(store, made.parent.job_id)

        end(store, clock, made.ids[0])

        assert [job.identity.job_id for job in claim(store)] == [made.parent.job_id]

    @every_end
    def test_a_parent_stays_parked_while_a_sibling_lives(
        self, store: JobStore, clock: Clock, end: End
    ) -> None:
        made = parked_family(store, 2, max_attempts=1)
        # Not due, so that the other is the only one to be claimed.
        (job,) = claim(store, 1, queue="children")
        assert job.identity.job_id == made.ids[0]
        assert settle(store, job.identity, states.READY, delay=timedelta(days=1), give_back=True)
        before = everything(store, made.parent.job_id)

        end(store, clock, made.ids[1])

        assert everything(store, made.parent.job_id) == before

    def test_the_queue_of_the_parent_is_woken(self, store: JobStore) -> None:
        listener = store.listen()
        if listener is None:
            pytest.skip("This driver has no listener.")
        made = parked_family(store, 1)
        with closing(listener):
            store.cancel(made.ids[0], reason="by hand")

            assert "default" in {wake.queue for wake in listener.receive(10)}

    def test_all_children_may_end_in_one_batch(self, store: JobStore) -> None:
        made = parked_family(store, 3)
        batch = [Settlement(job.identity, states.DONE) for job in start(store)]

        assert store.settle(batch) == [True] * 3

        assert is_due(store, made.parent.job_id)

    def test_a_parent_may_park_in_the_batch_that_ends_its_child(self, store: JobStore) -> None:
        made = family(store, 1)
        (child,) = start(store)

        store.settle(
            [
                Settlement(made.parent, states.SUSPENDED, give_back=True, calls=True),
                Settlement(child.identity, states.DONE),
            ]
        )

        assert is_due(store, made.parent.job_id)

    def test_a_parent_that_parks_after_its_last_child_ended_is_due_at_once(
        self, store: JobStore
    ) -> None:
        made = family(store, 1)
        settle(store, start(store)[0].identity, states.DONE)

        park_calling(store, made.parent)

        assert is_due(store, made.parent.job_id)

    def test_asked_for_parents_the_store_wakes_those_without_a_child(self, store: JobStore) -> None:
        bereft, calling = family(store, 1), parked_family(store, 1)
        store.cancel(bereft.ids[0], reason="by hand")
        # Parked without saying that it calls: the store does not look by itself.
        settle(store, bereft.parent, states.SUSPENDED, give_back=True)
        ids = [calling.parent.job_id, bereft.parent.job_id]

        assert [store.wake_parents(ids), store.wake_parents(ids)] == [1, 0]

        assert [is_due(store, job_id) for job_id in ids] == [False, True]

    @pytest.mark.parametrize("state", [states.READY, states.SUSPENDED])
    def test_a_child_that_goes_on_later_wakes_nobody(self, store: JobStore, state: str) -> None:
        made = parked_family(store, 1)
        (child,) = start(store)
        before = everything(store, made.parent.job_id)

        assert settle(store, child.identity, state, delay=timedelta(hours=1))

        assert everything(store, made.parent.job_id) == before

    def test_a_running_a_finished_and_a_due_parent_are_left_as_they_are(
        self, store: JobStore, clock: Clock
    ) -> None:
        running, done, awake = family(store, 1), family(store, 1), family(store, 1)
        settle(store, done.parent, states.DONE)
        put_wait(store, awake.parent)
        park_calling(store, awake.parent)
        publish(store)
        families = (running, done, awake)
        before = [everything(store, made.parent.job_id) for made in families]
        clock.advance(minutes=1)

        for made in families:
            store.cancel(made.ids[0], reason="by hand")

        assert [everything(store, made.parent.job_id) for made in families] == before

    def test_children_of_another_generation_neither_wake_the_parent_nor_hold_it_up(
        self, store: JobStore
    ) -> None:
        made = family(store, 1)
        former = new_children(made.parent, 2, generation=7)
        insert(store, *former)
        park_calling(store, made.parent)

        store.cancel(former[0].id, reason="by hand")
        store.cancel(former[1].id, reason="by hand")
        assert not is_due(store, made.parent.job_id)
        insert(store, *new_children(made.parent, 1, generation=8))
        store.cancel(made.ids[0], reason="by hand")

        assert is_due(store, made.parent.job_id)

    @pytest.mark.parametrize("first", [0, 1])
    def test_a_parent_of_two_families_is_due_when_either_has_ended(
        self, store: JobStore, first: int
    ) -> None:
        one = family(store, 1)
        families = [one, family(store, 1, parent=one.parent, step="invoice")]
        park_calling(store, one.parent)

        store.cancel(families[first].ids[0], reason="by hand")

        assert is_due(store, one.parent.job_id)

    def test_a_parent_whose_step_is_over_is_not_woken(self, store: JobStore) -> None:
        made = family(store, 1)
        store.put_step(made.parent, NewStep(made.step, 1, "done", output="1"))
        store.put_step(made.parent, NewStep("nap", 2, "sleeping", wait=timedelta(hours=1)))
        settle(store, made.parent, states.SUSPENDED, delay=timedelta(hours=1))

        store.cancel(made.ids[0], reason="by hand")

        assert not is_due(store, made.parent.job_id)
        assert store.wake_parents([made.parent.job_id]) == 0

    def test_the_end_of_a_child_is_undone_with_the_callers_transaction(
        self, store: JobStore
    ) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")
        cancelled, removed = parked_family(store, 1), parked_family(store, 1)
        families = (cancelled, removed)
        before = [everything(store, made.parent.job_id) for made in families]

        with suppress(RuntimeError), store.atomic():
            store.cancel(cancelled.ids[0], reason="by hand")
            store.remove(removed.ids[0])
            assert [is_due(store, made.parent.job_id) for made in families] == [True, True]
            raise RuntimeError

        assert [everything(store, made.parent.job_id) for made in families] == before

    def test_a_parent_is_due_for_others_once_the_callers_transaction_is_committed(
        self, store: JobStore
    ) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")
        made = parked_family(store, 2)

        with store.atomic():
            store.cancel(made.ids[0], reason="by hand")
            store.remove(made.ids[1])
            assert at_once(store, 1, lambda own, _: claim(own)) == [[]]

        assert [job.identity.job_id for job in claim(store)] == [made.parent.job_id]


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


class TestChildren:
    def test_children_are_answered_in_order_with_what_became_of_them(self, store: JobStore) -> None:
        made = parked_family(store, 6)
        jobs = start(store)
        settle(store, jobs[0].identity, states.DONE, result='{"parcel": 7}')
        settle(store, jobs[2].identity, states.DEAD, failure=BOOM, stop_reason="given up")
        settle(store, jobs[3].identity, states.FAILED, failure=BOOM)
        store.cancel(made.ids[1], reason="The customer left.")
        store.cancel(made.ids[5], reason="")
        store.remove(made.ids[5])

        rows = store.children(made.ids[0], 6)

        fault = (BOOM.code, BOOM.error_class, BOOM.message)
        assert rows == [
            ChildRow(made.ids[0], "shop.ship", states.DONE, rows[0].result, "", "", ""),
            ChildRow(
                made.ids[1], "shop.ship", states.CANCELLED, None, "", "", "The customer left."
            ),
            ChildRow(made.ids[2], "shop.ship", states.DEAD, None, *fault),
            ChildRow(made.ids[3], "shop.ship", states.FAILED, None, *fault),
            ChildRow(made.ids[4], "shop.ship", states.RUNNING, None, "", "", ""),
        ]
        assert rows[0].result is not None
        assert rows[0].result.replace(" ", "") == '{"parcel":7}'

    def test_a_child_that_failed_before_it_was_done_has_no_failure(self, store: JobStore) -> None:
        made = parked_family(store, 1)
        settle(store, start(store)[0].identity, states.READY, failure=BOOM)
        (before,) = store.children(made.ids[0], 1)
        settle(store, start(store)[0].identity, states.DONE, result="1")

        (after,) = store.children(made.ids[0], 1)

        assert (before.code, before.error_class) == (BOOM.code, BOOM.error_class)
        assert (after.code, after.error_class, after.message) == ("", "", "")

    def test_a_buried_child_says_that_its_workers_were_lost(
        self, store: JobStore, clock: Clock
    ) -> None:
        made = parked_family(store, 1, max_attempts=1)

        bury(store, clock, made.ids[0])

        (row,) = store.children(made.ids[0], 1)
        assert (row.state, row.code, row.error_class) == (states.DEAD, "", "")
        assert row.message == states.LEASE_LAPSED_FINAL_ATTEMPT

    def test_only_the_children_of_the_family_are_answered(self, store: JobStore) -> None:
        parent = claimed(store)
        families = [family(store, 2, parent=parent, step=step) for step in ("ship", "invoice")]

        answers = [[row.id for row in store.children(made.ids[0], 2)] for made in families]

        assert answers == [made.ids for made in families]
        assert store.children(families[0].ids[0], 0) == []

    @pytest.mark.parametrize("on_conflict", ["existing", "raise"])
    def test_children_inserted_again_are_those_that_are_there(
        self, store: JobStore, on_conflict: ConflictPolicy
    ) -> None:
        """Their parent died between their insert and its own next checkpoint."""
        parent = claimed(store)
        insert(store, *new_children(parent, 2, at_once=1))
        settle(store, start(store)[0].identity, states.DONE, result="1")
        jobs = new_children(parent, 4, at_once=1)
        before = [everything(store, job.id) for job in jobs[:2]]

        answers = store.insert(jobs, on_conflict=on_conflict)

        assert [answer.id for answer in answers] == [job.id for job in jobs]
        assert [answer.created for answer in answers] == [False, False, True, True]
        assert [answer.state for answer in answers[:2]] == [states.DONE, states.DELAYED]
        assert [everything(store, job.id) for job in jobs[:2]] == before

    def test_children_and_others_may_be_inserted_together(self, store: JobStore) -> None:
        parent = claimed(store)
        child, *_ = new_children(parent, 1)
        other, keyed = new_job(), new_job(idempotency_key="order:7")
        insert(store, child)

        answers = insert(store, other, child, keyed)

        assert [answer.created for answer in answers] == [True, False, True]
        assert [answer.id for answer in answers] == [other.id, child.id, keyed.id]


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
