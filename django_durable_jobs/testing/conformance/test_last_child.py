from __future__ import annotations

from contextlib import closing, suppress
from datetime import timedelta

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import NewStep, Settlement

from .ends import End, every_end, is_due, start
from .given import (
    Clock,
    at_once,
    claim,
    claimed,
    everything,
    family,
    insert,
    new_children,
    park_calling,
    parked_family,
    publish,
    put_wait,
    settle,
)


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

    def test_a_look_at_named_steps_passes_over_the_others(self, store: JobStore) -> None:
        """Changed code may never come back to an open step, and would be woken without an end."""
        parent = claimed(store)
        left = family(store, 1, parent=parent, step="left")
        store.cancel(left.ids[0], reason="by hand")
        family(store, 1, parent=parent, step="now")
        steps = ("now",)

        settle(store, parent, states.SUSPENDED, give_back=True, calls=True, steps=steps)

        assert store.wake_parents({parent.job_id: steps}) == 0
        assert store.wake_parents({parent.job_id: ("left",)}) == 1
