from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimIdentity, Cursor, EventFilter, NewStep

from .given import (
    Clock,
    claim_id,
    claimed,
    found,
    park_unlooked,
    parked,
    publish,
    put_wait,
    refuse_found,
    settle,
    shown,
)


class TestCursors:
    def test_a_refused_event_is_never_found_again_and_the_next_one_is(
        self, store: JobStore
    ) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity)
        first, second = publish(store), publish(store)
        assert found(store, wait) == first

        wait = refuse_found(store, identity, wait)

        assert found(store, wait) == second
        assert found(store, refuse_found(store, identity, wait)) is None

    def test_a_wait_remembers_what_it_refused(self, store: JobStore) -> None:
        identity = claimed(store)
        opened = put_wait(store, identity, wait=timedelta(days=3))
        event_id = publish(store)

        refusing = refuse_found(store, identity, opened)

        assert refusing.cursor is not None
        assert refusing.cursor.id == event_id
        assert refusing == replace(opened, cursor=refusing.cursor)
        assert store.load_steps(identity.job_id) == [refusing]
        settle(store, identity, states.READY)
        again = put_wait(store, claim_id(store, identity.job_id))
        assert again == refusing
        assert found(store, again) is None

    def test_a_refused_event_stays_refused_when_it_is_gone(
        self, store: JobStore, clock: Clock
    ) -> None:
        """The cursor is compared, not looked up: what it excludes does not come back."""
        identity = claimed(store)
        wait = put_wait(store, identity)
        publish(store)
        publish(store, ttl=timedelta(minutes=5))
        wait = refuse_found(store, identity, refuse_found(store, identity, wait))
        clock.advance(minutes=6)
        assert found(store, wait) is None

        third = publish(store)

        assert found(store, wait) == third

    def test_an_event_in_front_of_the_cursor_is_found_that_the_refusing_search_could_not_see(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity)
        publish(store)
        wait = refuse_found(store, identity, wait)
        clock.advance(minutes=-5)

        owed = publish(store)

        assert found(store, wait) == owed

    def test_one_written_before_but_committed_after_the_refusal_is_found(
        self, store: JobStore
    ) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")
        identity = claimed(store)
        wait = put_wait(store, identity)

        with closing(store.for_worker()) as own:
            with store.atomic():
                owed = publish(store)
                publish(own)
                wait = refuse_found(own, identity, wait)
                assert found(own, wait) is None
            assert found(own, wait) == owed
            wait = refuse_found(own, identity, wait)

        assert found(store, wait) is None

    def test_a_refusal_in_front_of_the_cursor_excludes_one_event_and_moves_nothing(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity)
        publish(store)
        wait = refuse_found(store, identity, wait)
        before = wait.cursor
        clock.advance(minutes=-5)
        first, second = publish(store), publish(store)

        wait = refuse_found(store, identity, wait)

        assert before is not None
        assert wait.cursor == replace(before, refused=frozenset({first}))
        assert found(store, wait) == second
        wait = refuse_found(store, identity, wait)
        assert wait.cursor == replace(before, refused=frozenset({first, second}))
        assert found(store, wait) is None

    def test_what_was_refused_in_front_of_the_cursor_stays_refused_when_it_moves_on(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity)
        publish(store)
        wait = refuse_found(store, identity, wait)
        clock.advance(minutes=-5)
        publish(store)
        wait = refuse_found(store, identity, wait)
        clock.advance(minutes=10)
        last = publish(store)
        assert found(store, wait) == last

        wait = refuse_found(store, identity, wait)

        assert wait.cursor is not None
        assert (wait.cursor.id, wait.cursor.refused) == (last, frozenset())
        assert found(store, wait) is None

    @pytest.mark.parametrize("mark", [None, "begun"])
    def test_no_cursor_hands_out_an_event_from_before_the_wait(
        self, store: JobStore, clock: Clock, mark: str | None
    ) -> None:
        identity = claimed(store)
        early = put_wait(store, identity, name="early")
        publish(store)
        wait = put_wait(store, identity)
        assert found(store, wait) is None
        at = store.now() - timedelta(days=1)

        step = replace(wait, cursor=Cursor(at, UUID(int=0), mark and early.mark))

        assert found(store, step) is None
        assert found(store, replace(step, cursor=None)) is None

    def test_a_cursor_holds_for_every_event_that_ends_the_wait(self, store: JobStore) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity, alternatives=(EventFilter("refunded"),))
        publish(store, "refunded")
        publish(store)

        wait = refuse_found(store, identity, refuse_found(store, identity, wait))

        assert found(store, wait) is None

    def test_a_finished_wait_takes_no_cursor(self, store: JobStore) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity)
        publish(store)
        event = store.find_event(wait)
        assert event is not None
        done = store.put_step(identity, NewStep("approval", 1, "done", output="1"))
        cursor = Cursor(event.published_at, event.id, event.mark)

        again = put_wait(store, identity, cursor=cursor)

        assert again == done
        assert store.load_steps(identity.job_id) == [done]

    def test_a_run_is_not_woken_for_an_event_that_it_refused(self, store: JobStore) -> None:
        """It would find nothing, park, and be woken for the same event again without end."""
        identity = claimed(store)
        wait = put_wait(store, identity)
        publish(store)
        refuse_found(store, identity, wait)

        assert settle(store, identity, states.SUSPENDED, give_back=True, waits=True)

        assert not shown(store, identity.job_id).is_armed
        assert store.wake_waiters([identity.job_id]) == 0
        assert store.wake_missed(limit=10) == 0
        publish(store)
        assert shown(store, identity.job_id).is_armed

    def test_a_run_is_woken_for_an_event_that_is_owed_to_it(
        self, store: JobStore, clock: Clock
    ) -> None:
        looked, missed, published = (refusing(store) for _ in range(3))
        assert settle(store, published, states.SUSPENDED, give_back=True, waits=True)
        clock.advance(minutes=-5)

        publish(store)

        assert shown(store, published.job_id).is_armed
        park_unlooked(store, looked)
        park_unlooked(store, missed)
        assert store.wake_waiters([looked.job_id]) == 1
        assert store.wake_missed(limit=10) == 1

    def test_another_run_may_still_take_what_one_refused(self, store: JobStore) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity)
        _, other = parked(store)
        event_id = publish(store)

        refuse_found(store, identity, wait)

        assert found(store, other) == event_id


def refusing(store: JobStore) -> ClaimIdentity:
    """A running job whose open wait has refused an event."""
    identity = claimed(store)
    wait = put_wait(store, identity)
    publish(store)
    refuse_found(store, identity, wait)
    return identity
