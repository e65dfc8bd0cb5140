from __future__ import annotations

from datetime import timedelta

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import EventFilter

from .given import (
    BOOM,
    Clock,
    claim,
    claim_id,
    claimed,
    found,
    parked,
    publish,
    put_wait,
    settle,
    shown,
)

OTHERS = (EventFilter("refunded", "7"), EventFilter("failed"))


class TestWaitsAside:
    def test_the_waits_of_live_jobs_stay(self, store: JobStore) -> None:
        suspended, _ = parked(store)
        running = claimed(store)
        put_wait(store, running, alternatives=OTHERS)
        backing_off = claimed(store)
        put_wait(store, backing_off)
        assert settle(store, backing_off, states.READY, delay=timedelta(hours=1))

        assert store.set_waits_aside(limit=10) == 0

        publish(store)
        assert shown(store, suspended).is_armed

    @pytest.mark.parametrize("name", ["approved", "refunded", "failed"])
    def test_a_requeued_run_is_woken_by_any_event_of_its_wait(
        self, store: JobStore, name: str
    ) -> None:
        job_id, _ = parked(store, alternatives=OTHERS)
        store.cancel(job_id, reason="")
        store.set_waits_aside(limit=10)

        store.requeue(job_id)
        identity = claim_id(store, job_id)
        assert settle(store, identity, states.SUSPENDED, give_back=True)
        publish(store, name, key="7")

        assert [job.identity.job_id for job in claim(store)] == [job_id]

    def test_a_requeued_run_finds_what_came_while_its_wait_was_aside(
        self, store: JobStore, clock: Clock
    ) -> None:
        """From the instants and the snapshot of its first reach, until the same timeout."""
        job_id, wait = parked(store, wait=timedelta(hours=1))
        store.cancel(job_id, reason="")
        store.set_waits_aside(limit=10)
        event_id = publish(store)
        clock.advance(minutes=5)

        store.requeue(job_id)

        assert store.load_steps(job_id) == [wait]
        assert found(store, wait) == event_id

    @pytest.mark.parametrize("state", [states.DONE, states.DEAD, states.FAILED])
    def test_however_it_ended_its_wait_is_woken_again(self, store: JobStore, state: str) -> None:
        identity = claimed(store)
        put_wait(store, identity)
        failure = None if state == states.DONE else BOOM
        assert settle(store, identity, state, failure=failure)
        store.set_waits_aside(limit=10)

        store.requeue(identity.job_id)
        again = claim_id(store, identity.job_id)
        assert settle(store, again, states.SUSPENDED, give_back=True)
        publish(store)

        assert shown(store, identity.job_id).is_armed

    def test_a_wait_that_is_taken_back_is_begun_anew(self, store: JobStore) -> None:
        job_id, _ = parked(store, alternatives=OTHERS)
        store.cancel(job_id, reason="")
        store.set_waits_aside(limit=10)
        publish(store)

        store.requeue(job_id, from_step="approval")

        again = claim_id(store, job_id)
        wait = put_wait(store, again, alternatives=OTHERS)
        assert found(store, wait) is None
        assert settle(store, again, states.SUSPENDED, give_back=True)
        publish(store, "failed")
        assert shown(store, job_id).is_armed
