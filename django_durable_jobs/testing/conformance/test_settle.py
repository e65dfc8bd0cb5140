from __future__ import annotations

import json
from datetime import timedelta

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimIdentity, Settlement

from .given import (
    BOOM,
    LEASE,
    Clock,
    claim,
    claimed,
    enqueue,
    insert,
    new_job,
    publish,
    put_wait,
    settle,
    shown,
)


class TestSettle:
    def test_a_done_job_keeps_its_result_and_holds_no_lease(self, store: JobStore) -> None:
        identity = claimed(store)
        before = store.now()

        assert settle(store, identity, states.DONE, result='{"receipt": 9}')

        row = shown(store, identity.job_id)
        assert (row.state, row.attempt, row.claims) == (states.DONE, 1, 1)
        assert row.result is not None
        assert json.loads(row.result) == {"receipt": 9}
        assert row.lease_expires_at is None
        assert row.finished_at is not None
        assert before <= row.finished_at <= store.now()
        assert not row.is_armed

    def test_a_retry_without_a_delay_is_due_at_once(self, store: JobStore) -> None:
        identity = claimed(store)

        assert settle(store, identity, states.READY, failure=BOOM)

        row = shown(store, identity.job_id)
        assert (row.state, row.is_armed, row.attempt) == (states.READY, True, 1)
        assert row.finished_at is None
        assert [job.attempt for job in claim(store)] == [2]

    @pytest.mark.parametrize("state", [states.READY, states.SUSPENDED])
    def test_a_delayed_end_waits_by_the_stores_clock(
        self, store: JobStore, clock: Clock, state: str
    ) -> None:
        identity = claimed(store)
        before = store.now()

        assert settle(store, identity, state, delay=timedelta(seconds=30))

        row = shown(store, identity.job_id)
        assert (row.state, row.is_armed, row.lease_expires_at) == (state, False, None)
        assert before + timedelta(seconds=30) <= row.run_at <= store.now() + timedelta(seconds=30)
        clock.advance(seconds=29)
        assert claim(store) == []
        clock.advance(seconds=2)
        assert [job.identity.job_id for job in claim(store)] == [identity.job_id]

    @pytest.mark.parametrize("state", [states.READY, states.SUSPENDED])
    def test_an_instant_wins_over_a_delay(self, store: JobStore, state: str) -> None:
        identity = claimed(store)
        later = store.now() + timedelta(days=2)

        assert settle(store, identity, state, run_at=later, delay=timedelta(0))

        row = shown(store, identity.job_id)
        assert (row.run_at, row.is_armed) == (later, False)

    @pytest.mark.parametrize("state", [states.READY, states.SUSPENDED])
    def test_an_instant_in_the_past_is_due_at_once(self, store: JobStore, state: str) -> None:
        identity = claimed(store)

        assert settle(store, identity, state, run_at=store.now() - timedelta(hours=1))

        assert [job.identity.job_id for job in claim(store)] == [identity.job_id]

    def test_a_run_parked_without_a_time_is_never_due_by_itself(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)

        assert settle(store, identity, states.SUSPENDED, give_back=True)

        clock.advance(days=3650)
        assert claim(store) == []
        assert shown(store, identity.job_id).state == states.SUSPENDED

    @pytest.mark.parametrize("state", [states.READY, states.SUSPENDED])
    def test_an_attempt_given_back_is_not_counted(self, store: JobStore, state: str) -> None:
        identity = claimed(store)

        settle(store, identity, state, give_back=True, delay=timedelta(0))

        row = shown(store, identity.job_id)
        assert (row.attempt, row.claims) == (0, 1)
        assert store.attempts(identity.job_id) == []

    def test_attempts_given_back_never_fall_below_none(self, store: JobStore) -> None:
        job_id = enqueue(store)
        for _ in range(3):
            [job] = claim(store)
            settle(store, job.identity, states.READY, give_back=True)

        row = shown(store, job_id)
        assert (row.attempt, row.claims) == (0, 3)

    @pytest.mark.parametrize("state", [states.READY, states.DEAD, states.FAILED])
    def test_a_failure_is_shown_and_kept_in_the_history(self, store: JobStore, state: str) -> None:
        identity = claimed(store)

        settle(store, identity, state, failure=BOOM, stop_reason="given up")

        row = shown(store, identity.job_id)
        assert (row.last_error, row.error_code) == (BOOM.message, BOOM.code)
        assert row.stop_reason == "given up"
        [attempt] = store.attempts(identity.job_id)
        assert (attempt.claim, attempt.attempt, attempt.outcome) == (1, 1, state)
        assert (attempt.code, attempt.error_class) == (BOOM.code, BOOM.error_class)
        assert (attempt.message, attempt.traceback) == (BOOM.message, BOOM.traceback)
        assert (attempt.worker_id, attempt.started_at) == ("worker-1", row.started_at)
        assert attempt.finished_at >= row.created_at

    @pytest.mark.parametrize("state", [states.DEAD, states.FAILED])
    def test_a_final_failure_is_finished_and_holds_no_lease(
        self, store: JobStore, state: str
    ) -> None:
        identity = claimed(store)

        settle(store, identity, state, failure=BOOM)

        row = shown(store, identity.job_id)
        assert (row.state, row.attempt, row.lease_expires_at) == (state, 1, None)
        assert row.finished_at is not None
        assert row.result is None
        assert not row.is_armed

    def test_a_done_job_shows_no_error_of_an_earlier_try_but_keeps_its_history(
        self, store: JobStore
    ) -> None:
        identity = claimed(store)
        settle(store, identity, states.READY, failure=BOOM)
        [again] = claim(store)

        settle(store, again.identity, states.DONE, result="1")

        row = shown(store, identity.job_id)
        assert (row.last_error, row.error_code) == ("", "")
        assert [attempt.claim for attempt in store.attempts(identity.job_id)] == [1]

    def test_the_history_is_told_newest_first(self, store: JobStore) -> None:
        job_id = enqueue(store)
        for _ in range(3):
            [job] = claim(store)
            settle(store, job.identity, states.READY, failure=BOOM)

        assert [attempt.claim for attempt in store.attempts(job_id)] == [3, 2, 1]

    def test_settlements_of_one_call_land_each_by_its_own_fence(self, store: JobStore) -> None:
        insert(store, *(new_job() for _ in range(4)))
        first, second, third, fourth = (job.identity for job in claim(store))
        store.cancel(second.job_id, reason="by hand")
        stranger = ClaimIdentity(fourth.job_id, "worker-9", fourth.claim)

        landed = store.settle(
            [
                Settlement(third, states.DEAD, failure=BOOM),
                Settlement(second, states.DONE, result="2"),
                Settlement(first, states.DONE, result="1"),
                Settlement(stranger, states.DONE, result="4"),
            ]
        )

        assert landed == [True, False, True, False]
        assert [shown(store, each.job_id).state for each in (first, second, third, fourth)] == [
            states.DONE,
            states.CANCELLED,
            states.DEAD,
            states.RUNNING,
        ]
        assert shown(store, first.job_id).result == "1"

    def test_many_settlements_land_in_one_call(self, store: JobStore) -> None:
        insert(store, *(new_job() for _ in range(200)))
        claims = [job.identity for job in claim(store, 200)]

        landed = store.settle([Settlement(each, states.DONE) for each in reversed(claims)])

        assert landed == [True] * 200
        assert {shown(store, each.job_id).state for each in claims} == {states.DONE}

    def test_settling_nothing_answers_nothing(self, store: JobStore) -> None:
        assert store.settle([]) == []

    @pytest.mark.parametrize("state", [states.RUNNING, states.DELAYED, states.CANCELLED, "lost"])
    def test_an_attempt_cannot_end_in_a_state_that_no_settlement_reaches(
        self, store: JobStore, state: str
    ) -> None:
        identity = claimed(store)
        before = shown(store, identity.job_id)

        with pytest.raises(ValueError, match=state):
            settle(store, identity, state)

        assert shown(store, identity.job_id) == before

    def test_the_version_that_runs_a_job_is_stored_while_it_runs(self, store: JobStore) -> None:
        identity = claimed(store)

        assert store.record_version(identity, "2")

        assert shown(store, identity.job_id).code_version == "2"

    def test_progress_is_stored_while_the_job_runs(self, store: JobStore) -> None:
        identity = claimed(store)

        assert store.record_progress(identity, '{"done": 3, "of": 9}')

        progress = shown(store, identity.job_id).progress
        assert progress is not None
        assert json.loads(progress) == {"done": 3, "of": 9}


class TestUnknownNames:
    def test_a_job_of_unknown_name_remembers_since_when(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        before = store.now()
        settle(store, identity, states.READY, give_back=True, unknown_name=True)
        [second] = claim(store)
        clock.advance(hours=1)
        settle(store, second.identity, states.READY, give_back=True, unknown_name=True)

        [third] = claim(store)

        assert second.unknown_since is not None
        assert before <= second.unknown_since < before + timedelta(minutes=30)
        assert third.unknown_since == second.unknown_since

    def test_a_worker_that_knows_the_name_ends_the_wait(self, store: JobStore) -> None:
        """Or a later worker of an older release would bury the job at first sight."""
        identity = claimed(store)
        settle(store, identity, states.READY, give_back=True, unknown_name=True)
        [known] = claim(store)
        settle(store, known.identity, states.READY, failure=BOOM)

        assert [job.unknown_since for job in claim(store)] == [None]

    def test_a_requeue_forgets_that_the_name_was_unknown(self, store: JobStore) -> None:
        identity = claimed(store)
        settle(store, identity, states.READY, give_back=True, unknown_name=True)
        [job] = claim(store)
        settle(store, job.identity, states.DEAD, failure=BOOM, unknown_name=True)

        store.requeue(identity.job_id)

        assert [job.unknown_since for job in claim(store)] == [None]


class TestParking:
    def test_an_event_that_came_before_the_park_makes_the_run_due(self, store: JobStore) -> None:
        """It came after the body's last look: the store looks once more."""
        identity = claimed(store)
        put_wait(store, identity)
        publish(store)

        settle(store, identity, states.SUSPENDED, give_back=True, waits=True)

        [job] = claim(store)
        assert job.identity.job_id == identity.job_id

    def test_a_run_whose_event_has_not_come_stays_parked(self, store: JobStore) -> None:
        identity = claimed(store)
        put_wait(store, identity, correlation_key="7")
        publish(store, key="8")
        publish(store, "refused", key="7")

        settle(store, identity, states.SUSPENDED, give_back=True, waits=True)

        assert claim(store) == []

    def test_the_wait_that_parks_a_run_may_have_a_time(self, store: JobStore, clock: Clock) -> None:
        identity = claimed(store)
        put_wait(store, identity, wait=timedelta(minutes=5))
        settle(store, identity, states.SUSPENDED, delay=timedelta(minutes=5), waits=True)
        assert claim(store) == []
        clock.advance(minutes=6)

        assert len(claim(store)) == 1

    def test_a_settlement_after_the_lease_lapsed_still_lands_if_nobody_took_the_job(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        clock.advance(seconds=LEASE.total_seconds() * 3)

        assert settle(store, identity, states.DONE, result="1")
