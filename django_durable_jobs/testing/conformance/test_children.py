from __future__ import annotations

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ChildRow, ConflictPolicy

from .ends import bury, start
from .given import (
    BOOM,
    Clock,
    claimed,
    everything,
    family,
    insert,
    new_children,
    new_job,
    parked_family,
    settle,
)


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
