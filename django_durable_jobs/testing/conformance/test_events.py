from __future__ import annotations

import json
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import NewStep

from .given import (
    Clock,
    at_once,
    claim,
    claim_id,
    claimed,
    everything,
    found,
    parked,
    publish,
    put_wait,
    refuse_found,
    settle,
    shown,
)


class TestMatching:
    def test_an_event_published_before_the_wait_began_never_matches(self, store: JobStore) -> None:
        publish(store)
        publish(store)

        wait = put_wait(store, claimed(store))

        assert found(store, wait) is None

    def test_an_event_published_after_the_wait_began_matches(self, store: JobStore) -> None:
        wait = put_wait(store, claimed(store))

        event_id = publish(store)

        event = store.find_event(wait)
        assert event is not None
        assert (event.id, event.name, event.correlation_key) == (event_id, "approved", None)
        assert json.loads(event.payload) == {"by": "ann"}

    def test_an_event_of_the_same_instant_after_the_wait_began_matches(
        self, store: JobStore, clock: Clock
    ) -> None:
        """Order decides, not the stamp: the publisher's clock may read earlier."""
        wait = put_wait(store, claimed(store))
        clock.advance(seconds=-5)

        event_id = publish(store)

        assert found(store, wait) == event_id

    @pytest.mark.parametrize(
        ("wanted", "given", "matches"),
        [
            (None, None, True),
            (None, "7", True),
            ("7", "7", True),
            ("7", "8", False),
            ("7", None, False),
        ],
    )
    def test_a_wait_takes_events_of_its_key_or_of_any_when_it_has_none(
        self, store: JobStore, wanted: str | None, given: str | None, matches: bool
    ) -> None:
        wait = put_wait(store, claimed(store), correlation_key=wanted)

        event_id = publish(store, key=given)

        assert found(store, wait) == (event_id if matches else None)

    def test_an_event_of_another_name_never_matches(self, store: JobStore) -> None:
        wait = put_wait(store, claimed(store))
        publish(store, "approved.later")

        assert found(store, wait) is None

    def test_the_oldest_event_is_taken_first_whatever_its_id(
        self, store: JobStore, clock: Clock
    ) -> None:
        wait = put_wait(store, claimed(store))
        smaller, greater = new_id(), new_id()
        publish(store, event_id=greater)
        clock.advance(seconds=1)
        publish(store, event_id=smaller)

        assert found(store, wait) == greater

    def test_events_of_one_millisecond_are_taken_by_id(self, store: JobStore) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity)
        ids = [new_id() for _ in range(12)]
        for event_id in reversed(ids):
            publish(store, event_id=event_id, key=str(event_id))

        events = [store.find_event(replace(wait, correlation_key=str(each))) for each in ids]

        stamps = [(event.published_at, event.id) for event in events if event is not None]
        assert len(stamps) == len(ids)
        assert all(stamp.microsecond % 1000 == 0 for stamp, _ in stamps)
        assert found(store, wait) == min(stamps)[1]

    def test_an_event_expires_by_the_stores_clock(self, store: JobStore, clock: Clock) -> None:
        wait = put_wait(store, claimed(store))
        event_id = publish(store, ttl=timedelta(minutes=5))
        clock.advance(minutes=4)
        assert found(store, wait) == event_id
        clock.advance(minutes=2)

        assert found(store, wait) is None

    def test_an_event_is_not_used_up_by_the_wait_that_takes_it(self, store: JobStore) -> None:
        first = put_wait(store, claimed(store))
        second = put_wait(store, claimed(store))
        event_id = publish(store)

        assert found(store, first) == found(store, second) == event_id
        assert found(store, first) == event_id

    def test_a_wait_replayed_by_a_later_claim_still_finds_its_event(self, store: JobStore) -> None:
        identity = claimed(store)
        put_wait(store, identity)
        event_id = publish(store)
        settle(store, identity, states.READY)
        again = claim_id(store, identity.job_id)

        assert found(store, put_wait(store, again)) == event_id

    def test_an_event_of_a_rolled_back_transaction_never_matches(self, store: JobStore) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")
        wait = put_wait(store, claimed(store))

        with suppress(RuntimeError), store.atomic():
            publish(store)
            raise RuntimeError

        assert found(store, wait) is None

    def test_an_event_written_before_but_committed_after_the_wait_began_matches(
        self, store: JobStore
    ) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")
        identity = claimed(store)

        with closing(store.for_worker()) as own, store.atomic():
            event_id = publish(store)
            wait = put_wait(own, identity)
            assert found(own, wait) is None

        assert found(store, wait) == event_id


class TestPurging:
    def test_expired_events_are_deleted_oldest_first(self, store: JobStore, clock: Clock) -> None:
        wait = put_wait(store, claimed(store))
        later = publish(store, ttl=timedelta(minutes=3))
        publish(store, ttl=timedelta(minutes=2))
        publish(store, ttl=timedelta(minutes=1))
        clock.advance(minutes=4)

        assert [store.purge_events(limit=2) for _ in range(3)] == [2, 1, 0]

        clock.advance(minutes=-2)
        assert found(store, wait) is None, f"{later} was still there"

    def test_the_bound_leaves_those_that_expired_last(self, store: JobStore, clock: Clock) -> None:
        """Seen by setting the clock back, where they have not expired yet."""
        wait = put_wait(store, claimed(store))
        later = publish(store, ttl=timedelta(minutes=3))
        earlier = publish(store, ttl=timedelta(minutes=2))
        clock.advance(minutes=4)

        assert store.purge_events(limit=1) == 1

        clock.advance(minutes=-3)
        assert found(store, wait) == later != earlier

    def test_an_event_that_can_still_be_taken_stays(self, store: JobStore, clock: Clock) -> None:
        wait = put_wait(store, claimed(store))
        event_id = publish(store, ttl=timedelta(minutes=5))
        clock.advance(minutes=4)

        assert store.purge_events(limit=10) == 0
        assert found(store, wait) == event_id

    def test_a_wait_behind_a_refused_event_goes_on_when_that_is_purged(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity)
        publish(store, ttl=timedelta(minutes=1))
        wait = refuse_found(store, identity, wait)
        clock.advance(minutes=2)
        assert store.purge_events(limit=10) == 1

        event_id = publish(store)

        assert found(store, wait) == event_id

    def test_no_event_is_deleted_twice(self, store: JobStore, clock: Clock) -> None:
        if not store.features.shared:
            pytest.skip("This driver's rows are one process's own.")
        for _ in range(30):
            publish(store, ttl=timedelta(minutes=1))
        clock.advance(minutes=2)

        purged = at_once(store, 3, lambda own, _: own.purge_events(limit=10))

        assert sum(purged) + store.purge_events(limit=100) == 30


class TestWaking:
    def test_a_publish_makes_the_runs_due_that_wait_for_it(self, store: JobStore) -> None:
        job_id, _ = parked(store)
        other, _ = parked(store, event="refused")

        publish(store)

        row = shown(store, job_id)
        assert (row.state, row.attempt, row.claims) == (states.SUSPENDED, 0, 1)
        assert row.run_at <= store.now()
        assert [job.identity.job_id for job in claim(store)] == [job_id]
        assert shown(store, other).run_at > store.now() + timedelta(days=365)

    def test_a_publish_wakes_by_key(self, store: JobStore) -> None:
        keyed, _ = parked(store, correlation_key="7")
        other, _ = parked(store, correlation_key="8")
        open_to_all, _ = parked(store)

        publish(store, key="7")

        assert {job.identity.job_id for job in claim(store)} == {keyed, open_to_all}
        publish(store)
        assert claim(store) == []
        assert shown(store, other).state == states.SUSPENDED

    def test_a_publish_leaves_running_and_finished_jobs_as_they_are(self, store: JobStore) -> None:
        running = claimed(store)
        put_wait(store, running)
        done = claimed(store)
        put_wait(store, done)
        settle(store, done, states.DONE)
        backing_off = claimed(store)
        put_wait(store, backing_off)
        settle(store, backing_off, states.READY, delay=timedelta(hours=1))
        ids = [identity.job_id for identity in (running, done, backing_off)]
        before = [everything(store, job_id) for job_id in ids]

        publish(store)

        assert [everything(store, job_id) for job_id in ids] == before

    def test_a_run_that_sleeps_is_not_woken_by_an_event_it_has_taken(self, store: JobStore) -> None:
        identity = claimed(store)
        put_wait(store, identity)
        store.put_step(identity, NewStep("approval", 1, "done", output="1", event="approved"))
        store.put_step(identity, NewStep("cool off", 2, "sleeping", wait=timedelta(hours=1)))
        settle(store, identity, states.SUSPENDED, give_back=True, delay=timedelta(hours=1))

        publish(store)

        assert claim(store) == []

    def test_one_event_wakes_every_run_that_waits_for_it(self, store: JobStore) -> None:
        ids = {parked(store)[0] for _ in range(5)}

        publish(store)

        assert {job.identity.job_id for job in claim(store)} == ids

    def test_those_already_woken_keep_their_due_time(self, store: JobStore, clock: Clock) -> None:
        job_id, _ = parked(store)
        publish(store)
        before = shown(store, job_id)
        clock.advance(minutes=1)

        publish(store)

        assert shown(store, job_id) == before

    def test_a_publish_in_a_transaction_wakes_at_its_commit(self, store: JobStore) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")
        job_id, _ = parked(store)

        with store.atomic():
            publish(store)
            assert at_once(store, 1, lambda own, _: claim(own)) == [[]]

        assert [job.identity.job_id for job in claim(store)] == [job_id]

    def test_a_run_that_parked_while_the_event_was_not_committed_is_woken_by_the_commit(
        self, store: JobStore
    ) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")
        identity = claimed(store)

        with closing(store.for_worker()) as own, store.atomic():
            publish(store)
            put_wait(own, identity)
            settle(own, identity, states.SUSPENDED, give_back=True, waits=True)

        assert [job.identity.job_id for job in claim(store)] == [identity.job_id]

    def test_a_rolled_back_publish_wakes_nobody(self, store: JobStore) -> None:
        if not store.features.transactional:
            pytest.skip("This driver joins no transaction.")
        job_id, _ = parked(store)
        before = shown(store, job_id)

        with suppress(RuntimeError), store.atomic():
            publish(store)
            raise RuntimeError

        assert shown(store, job_id) == before

    def test_asked_for_waiters_the_store_wakes_those_with_an_event(self, store: JobStore) -> None:
        answered = claimed(store)
        put_wait(store, answered, name="answered")
        publish(store)
        # Parked without saying that it waits: the store does not look by itself.
        settle(store, answered, states.SUSPENDED, give_back=True, delay=timedelta(hours=1))
        silent, _ = parked(store)

        assert store.wake_waiters([answered.job_id, silent, new_id()]) == 1
        assert [job.identity.job_id for job in claim(store)] == [answered.job_id]
        assert store.wake_waiters([answered.job_id, silent]) == 0

    def test_a_look_at_named_waits_passes_over_the_others(self, store: JobStore) -> None:
        """Changed code may never come back to an open wait, and would be woken without an end."""
        identity = claimed(store)
        put_wait(store, identity, name="left")
        put_wait(store, identity, name="now", event="shipped")
        publish(store)
        steps = ("now",)

        settle(store, identity, states.SUSPENDED, give_back=True, waits=True, steps=steps)

        assert store.wake_waiters({identity.job_id: steps}) == 0
        assert store.wake_waiters({identity.job_id: ("left",)}) == 1

    def test_waking_nobody_wakes_nobody(self, store: JobStore) -> None:
        assert store.wake_waiters([]) == 0


class TestMissedWakes:
    def test_a_job_whose_wake_was_lost_is_woken_by_the_last_resort(self, store: JobStore) -> None:
        job_id = parked_unwoken(store)
        assert not shown(store, job_id).is_armed

        assert store.wake_missed(limit=10) == 1

        assert shown(store, job_id).is_armed
        assert claim_id(store, job_id).job_id == job_id

    def test_the_last_resort_wakes_nobody_without_an_answer(self, store: JobStore) -> None:
        publish(store)
        late, _ = parked(store)
        keyed, _ = parked(store, event="paid", correlation_key="7")
        publish(store, name="paid", key="8")
        before = [everything(store, job_id) for job_id in (late, keyed)]

        woken = store.wake_missed(limit=10)

        assert woken == 0
        assert [everything(store, job_id) for job_id in (late, keyed)] == before

    def test_the_last_resort_wakes_no_more_than_its_limit(self, store: JobStore) -> None:
        identities = [claimed(store) for _ in range(3)]
        for identity in identities:
            put_wait(store, identity)
        publish(store)
        for identity in identities:
            assert settle(store, identity, states.SUSPENDED)

        assert [store.wake_missed(limit=2) for _ in range(3)] == [2, 1, 0]


def parked_unwoken(store: JobStore) -> UUID:
    """A parked job whose event is there, and which nobody has woken."""
    identity = claimed(store)
    put_wait(store, identity)
    publish(store)
    # Parked as if it waited for nothing: so the store does not look once more.
    assert settle(store, identity, states.SUSPENDED)
    return identity.job_id
