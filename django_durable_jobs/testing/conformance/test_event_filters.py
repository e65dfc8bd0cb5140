from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import EventFilter, NewStep

from .given import (
    Clock,
    claim,
    claim_id,
    claimed,
    enqueue,
    found,
    parked,
    publish,
    put_wait,
    settle,
    shown,
)


class TestAddressedEvents:
    def test_an_event_for_one_job_is_taken_by_no_other(self, store: JobStore) -> None:
        mine, other = claimed(store), claimed(store)
        wait, others = put_wait(store, mine), put_wait(store, other)

        event_id = publish(store, job_id=mine.job_id)

        event = store.find_event(wait)
        assert event is not None
        assert (event.id, event.job_id) == (event_id, mine.job_id)
        assert found(store, others) is None

    @pytest.mark.parametrize(
        ("wanted", "given", "matches"),
        [
            (None, None, True),
            (None, "7", True),
            ("7", "7", True),
            ("7", "8", False),
            ("7", None, True),
        ],
    )
    def test_an_event_for_the_job_without_a_key_fits_a_wait_of_any_key(
        self, store: JobStore, wanted: str | None, given: str | None, matches: bool
    ) -> None:
        job_id, wait = parked(store, correlation_key=wanted)
        other, _ = parked(store, correlation_key=wanted)

        event_id = publish(store, key=given, job_id=job_id)

        assert found(store, wait) == (event_id if matches else None)
        assert [job.identity.job_id for job in claim(store)] == [job_id] * matches
        assert shown(store, other).state == states.SUSPENDED

    def test_an_event_for_the_job_has_the_name_that_the_wait_wants(self, store: JobStore) -> None:
        job_id, wait = parked(store)

        publish(store, "refused", job_id=job_id)

        assert found(store, wait) is None
        assert not shown(store, job_id).is_armed

    def test_an_event_for_a_job_that_was_not_enqueued_yet_came_too_early(
        self, store: JobStore
    ) -> None:
        job_id = new_id()
        publish(store, job_id=job_id)

        wait = put_wait(store, claimed(store, id=job_id), since_run=True)

        assert found(store, wait) is None

    def test_looks_find_an_event_for_the_job_whatever_the_key_of_its_wait(
        self, store: JobStore
    ) -> None:
        ids = []
        for _ in range(2):
            identity = claimed(store)
            put_wait(store, identity, correlation_key="7")
            publish(store, job_id=identity.job_id)
            assert settle(store, identity, states.SUSPENDED, give_back=True)
            ids.append(identity.job_id)

        assert store.wake_waiters(ids[:1]) == 1
        assert store.wake_missed(limit=10) == 1
        assert [shown(store, job_id).is_armed for job_id in ids] == [True, True]


class TestWaitsSinceTheEnqueue:
    def test_an_event_between_the_enqueue_and_the_wait_is_taken(self, store: JobStore) -> None:
        job_id = enqueue(store)
        event_id = publish(store)
        identity = claim_id(store, job_id)

        assert found(store, put_wait(store, identity, since_run=True)) == event_id
        assert found(store, put_wait(store, identity, name="later")) is None

    def test_an_event_before_the_enqueue_is_not(self, store: JobStore) -> None:
        publish(store)

        wait = put_wait(store, claimed(store), since_run=True)

        assert found(store, wait) is None

    @pytest.mark.parametrize("is_first", [True, False], ids=["event first", "job first"])
    def test_an_event_of_the_transaction_that_enqueued_the_job_is_taken(
        self, store: JobStore, is_first: bool
    ) -> None:
        early = publish(store)
        with store.atomic():
            if is_first:
                event_id = publish(store)
            job_id = enqueue(store)
            if not is_first:
                event_id = publish(store)

        wait = put_wait(store, claim_id(store, job_id), since_run=True)

        assert found(store, wait) == event_id != early

    def test_the_wait_counts_from_the_enqueue_and_its_timeout_from_when_it_was_reached(
        self, store: JobStore, clock: Clock
    ) -> None:
        job_id = enqueue(store)
        clock.advance(hours=1)
        identity = claim_id(store, job_id)
        reached = store.now()

        wait = put_wait(store, identity, since_run=True, wait=timedelta(minutes=5))

        assert wait.started_at == shown(store, job_id).created_at
        assert wait.wake_at is not None
        assert wait.wake_at >= reached + timedelta(minutes=5)

    def test_without_a_mark_stamps_decide_and_the_enqueue_is_the_line(
        self, store: JobStore, clock: Clock
    ) -> None:
        """Of a store that was moved to another place, say: its marks mean nothing there."""
        publish(store)
        clock.advance(minutes=5)
        job_id = enqueue(store)
        clock.advance(minutes=5)
        event_id = publish(store)
        clock.advance(minutes=5)
        identity = claim_id(store, job_id)
        wait = put_wait(store, identity, since_run=True)
        late = put_wait(store, identity, name="late")

        assert found(store, replace(wait, mark=None)) == event_id
        assert found(store, replace(late, mark=None)) is None

    def test_a_run_that_parks_is_woken_for_what_came_before_it_waited(
        self, store: JobStore
    ) -> None:
        job_id = enqueue(store)
        publish(store)
        identity = claim_id(store, job_id)
        put_wait(store, identity, since_run=True)

        assert settle(store, identity, states.SUSPENDED, give_back=True, waits=True)

        assert shown(store, job_id).is_armed

    def test_a_later_claim_goes_on_with_the_same_line(self, store: JobStore) -> None:
        job_id = enqueue(store)
        event_id = publish(store)
        identity = claim_id(store, job_id)
        first = put_wait(store, identity, since_run=True)
        settle(store, identity, states.READY)

        again = put_wait(store, claim_id(store, job_id), since_run=True)

        assert again == first
        assert found(store, again) == event_id


ALTERNATIVES = (EventFilter("refunded", "7"), EventFilter("failed"))

Publish = Callable[[JobStore], UUID]
ANY: list[Any] = [
    pytest.param(lambda store: publish(store), id="the first"),
    pytest.param(lambda store: publish(store, "refunded", key="7"), id="the second"),
    pytest.param(lambda store: publish(store, "failed", key="x"), id="the third"),
]


class TestAlternatives:
    @pytest.mark.parametrize("publish_one", ANY)
    def test_any_of_several_events_wakes_the_run_and_is_found(
        self, store: JobStore, publish_one: Publish
    ) -> None:
        job_id, wait = parked(store, alternatives=ALTERNATIVES)

        event_id = publish_one(store)

        assert found(store, wait) == event_id
        assert [job.identity.job_id for job in claim(store)] == [job_id]

    @pytest.mark.parametrize("publish_one", ANY)
    def test_looks_find_any_of_several_events(self, store: JobStore, publish_one: Publish) -> None:
        looked, missed = claimed(store), claimed(store)
        for identity in (looked, missed):
            put_wait(store, identity, alternatives=ALTERNATIVES)
        publish_one(store)
        for identity in (looked, missed):
            assert settle(store, identity, states.SUSPENDED, give_back=True)

        assert store.wake_waiters([looked.job_id]) == 1
        assert store.wake_missed(limit=10) == 1

    @pytest.mark.parametrize(
        ("name", "key"), [("refunded", None), ("refunded", "8"), ("paid", "7")]
    )
    def test_an_event_that_is_none_of_them_wakes_nobody(
        self, store: JobStore, name: str, key: str | None
    ) -> None:
        job_id, wait = parked(store, correlation_key="7", alternatives=ALTERNATIVES)

        publish(store, name, key=key)

        assert found(store, wait) is None
        assert not shown(store, job_id).is_armed

    def test_the_oldest_of_them_wins_and_not_the_first_named(
        self, store: JobStore, clock: Clock
    ) -> None:
        wait = put_wait(store, claimed(store), alternatives=ALTERNATIVES)
        winner = publish(store, "failed")
        clock.advance(seconds=1)
        publish(store, "refunded", key="7")
        publish(store)

        assert found(store, wait) == winner

    def test_an_event_for_the_job_fits_each_of_them_whatever_its_key(self, store: JobStore) -> None:
        job_id, wait = parked(store, alternatives=ALTERNATIVES)

        event_id = publish(store, "refunded", job_id=job_id)

        assert found(store, wait) == event_id
        assert shown(store, job_id).is_armed

    def test_the_wait_is_told_with_all_of_them_and_a_replay_changes_none(
        self, store: JobStore
    ) -> None:
        identity = claimed(store)
        wait = put_wait(store, identity, correlation_key="9", alternatives=ALTERNATIVES)

        again = put_wait(store, identity, alternatives=(EventFilter("other"),))

        assert wait.filters == (EventFilter("approved", "9"), *ALTERNATIVES)
        assert store.load_steps(identity.job_id) == [wait]
        assert again == wait

    @pytest.mark.parametrize("status", ["done", "timed_out"])
    def test_an_ended_wait_is_woken_by_none_of_them_any_more(
        self, store: JobStore, status: Any
    ) -> None:
        identity = claimed(store)
        put_wait(store, identity, alternatives=ALTERNATIVES)
        store.put_step(identity, NewStep("approval", 1, status, output="1", event="approved"))
        assert settle(store, identity, states.SUSPENDED, give_back=True)

        publish(store, "refunded", key="7")
        publish(store, "failed")

        assert not shown(store, identity.job_id).is_armed
        assert store.wake_missed(limit=10) == 0

    def test_waits_of_other_steps_and_jobs_stay_open_when_one_ends(self, store: JobStore) -> None:
        identity = claimed(store)
        put_wait(store, identity, alternatives=ALTERNATIVES)
        put_wait(store, identity, name="second", seq=2, alternatives=ALTERNATIVES)
        other, _ = parked(store, alternatives=ALTERNATIVES)
        store.put_step(identity, NewStep("approval", 1, "done", output="1", event="approved"))
        assert settle(store, identity, states.SUSPENDED, give_back=True)

        publish(store, "failed")

        assert {job.identity.job_id for job in claim(store)} == {identity.job_id, other}


class TestEventPayloads:
    @pytest.mark.parametrize("payload", [None, False, 0, "", [], {}], ids=repr)
    def test_a_payload_that_says_little_is_told_as_it_is(
        self, store: JobStore, payload: object
    ) -> None:
        wait = put_wait(store, claimed(store))
        publish(store, payload=json.dumps(payload))

        event = store.find_event(wait)

        assert event is not None
        told = json.loads(event.payload)
        assert (told, type(told)) == (payload, type(payload))
