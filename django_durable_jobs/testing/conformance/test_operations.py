from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import (
    JobDuplicate,
    JobNotFound,
    JobNotPromotable,
    JobNotRemovable,
    JobNotRequeueable,
)
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import NewStep

from .given import (
    BOOM,
    Clock,
    claim,
    claimed,
    enqueue,
    finished,
    insert,
    new_job,
    parked,
    settle,
    shown,
)


class TestRequeue:
    @pytest.mark.parametrize("state", states.FINISHED_STATES)
    def test_a_finished_job_starts_anew_and_due_now(self, store: JobStore, state: str) -> None:
        job_id = finished(store, state)
        claims = shown(store, job_id).claims
        before = store.now()

        answer = store.requeue(job_id)

        assert answer == shown(store, job_id)
        assert (answer.state, answer.attempt, answer.claims) == (states.READY, 0, claims)
        assert before <= answer.run_at <= store.now()
        assert (answer.result, answer.finished_at) == (None, None)
        assert (answer.last_error, answer.error_code, answer.stop_reason) == ("", "", "")
        [job] = claim(store)
        assert (job.attempt, job.identity.claim) == (1, claims + 1)

    def test_a_requeue_keeps_steps_and_history(self, store: JobStore) -> None:
        identity = claimed(store)
        stored = store.put_step(identity, NewStep("charge", 1, "done", output="1"))
        settle(store, identity, states.DEAD, failure=BOOM)

        store.requeue(identity.job_id)

        assert store.load_steps(identity.job_id) == [stored]
        assert len(store.attempts(identity.job_id)) == 1

    def test_a_requeue_may_allow_another_number_of_attempts(self, store: JobStore) -> None:
        job_id = finished(store, states.DEAD)

        assert store.requeue(job_id).max_attempts == 3
        store.cancel(job_id, reason="")
        assert store.requeue(job_id, max_attempts=9).max_attempts == 9

    def test_a_live_job_is_not_requeued(self, store: JobStore) -> None:
        running = claimed(store).job_id
        for job_id in (running, enqueue(store, delay=timedelta(hours=1)), parked_id(store)):
            before = shown(store, job_id)

            with pytest.raises(JobNotRequeueable) as refusal:
                store.requeue(job_id)

            assert refusal.value.state == before.state
            assert shown(store, job_id) == before

    def test_a_job_whose_key_is_held_by_a_live_job_is_not_requeued(self, store: JobStore) -> None:
        job_id = finished(store, states.DONE, idempotency_key="order:7")
        holder = enqueue(store, idempotency_key="order:7", delay=timedelta(hours=1))
        before = shown(store, job_id)

        with pytest.raises(JobDuplicate) as refusal:
            store.requeue(job_id)

        assert refusal.value.holder == str(holder)
        assert shown(store, job_id) == before

    def test_a_requeued_job_holds_its_key_again(self, store: JobStore) -> None:
        job_id = finished(store, states.DONE, idempotency_key="order:7")
        store.requeue(job_id)

        [answer] = insert(store, new_job(idempotency_key="order:7"))

        assert (answer.id, answer.created) == (job_id, False)

    def test_an_unknown_job_is_not_requeued(self, store: JobStore) -> None:
        with pytest.raises(JobNotFound):
            store.requeue(new_id())

    def test_a_refused_requeue_leaves_the_callers_transaction_usable(self, store: JobStore) -> None:
        job_id = finished(store, states.DONE, idempotency_key="order:7")
        enqueue(store, idempotency_key="order:7", delay=timedelta(hours=1))

        with store.atomic():
            with pytest.raises(JobDuplicate):
                store.requeue(job_id)
            kept = enqueue(store)

        assert shown(store, kept).state == states.READY


class TestCancel:
    def test_a_live_job_is_cancelled_and_its_former_state_answered(self, store: JobStore) -> None:
        running = claimed(store).job_id
        waiting = {
            states.SUSPENDED: parked_id(store),
            states.DELAYED: enqueue(store, delay=timedelta(hours=1)),
            states.READY: enqueue(store),
            states.RUNNING: running,
        }
        for state, job_id in waiting.items():
            before = shown(store, job_id)

            assert store.cancel(job_id, reason="by hand") == state

            row = shown(store, job_id)
            assert (row.state, row.stop_reason) == (states.CANCELLED, "by hand")
            assert (row.attempt, row.claims) == (before.attempt, before.claims)
            assert (row.lease_expires_at, row.is_armed) == (None, False)
            assert row.finished_at is not None
        assert claim(store) == []

    @pytest.mark.parametrize("state", states.FINISHED_STATES)
    def test_a_finished_job_is_not_touched_by_a_cancel(self, store: JobStore, state: str) -> None:
        job_id = finished(store, state)
        before = shown(store, job_id)

        assert store.cancel(job_id, reason="too late") is None

        assert shown(store, job_id) == before

    def test_an_unknown_job_answers_nothing(self, store: JobStore) -> None:
        assert store.cancel(new_id(), reason="") is None

    def test_a_cancelled_job_is_not_woken_by_its_event(self, store: JobStore) -> None:
        job_id = parked_id(store)
        store.cancel(job_id, reason="by hand")
        before = shown(store, job_id)

        store.publish(new_id(), "approved", "{}", key=None, ttl=timedelta(days=1))

        assert shown(store, job_id) == before


class TestPromote:
    def test_a_delayed_job_is_due_now(self, store: JobStore) -> None:
        job_id = enqueue(store, delay=timedelta(days=9))

        answer = store.promote(job_id)

        assert answer == shown(store, job_id)
        assert (answer.state, answer.attempt, answer.claims) == (states.READY, 0, 0)
        assert answer.run_at <= store.now()
        assert [job.identity.job_id for job in claim(store)] == [job_id]

    def test_a_job_that_backs_off_is_due_now_and_keeps_its_attempts(self, store: JobStore) -> None:
        identity = claimed(store)
        settle(store, identity, states.READY, failure=BOOM, delay=timedelta(hours=1))

        store.promote(identity.job_id)

        [job] = claim(store)
        assert (job.identity.job_id, job.attempt) == (identity.job_id, 2)

    def test_a_job_that_does_not_wait_for_its_time_is_refused(self, store: JobStore) -> None:
        suspended = parked_id(store)
        running = claimed(store).job_id
        ready = enqueue(store)
        finals = [finished(store, states.CANCELLED)]
        for job_id in (suspended, running, ready, *finals):
            before = shown(store, job_id)

            with pytest.raises(JobNotPromotable) as refusal:
                store.promote(job_id)

            assert refusal.value.state == before.state
            assert shown(store, job_id) == before

    def test_an_unknown_job_is_not_promoted(self, store: JobStore) -> None:
        with pytest.raises(JobNotFound):
            store.promote(new_id())


class TestRemove:
    def test_a_removed_job_is_gone_with_its_steps_and_history(self, store: JobStore) -> None:
        identity = claimed(store)
        store.put_step(identity, NewStep("charge", 1, "done", output="1"))
        settle(store, identity, states.DEAD, failure=BOOM)

        store.remove(identity.job_id)

        assert store.show(identity.job_id) is None
        assert store.load_steps(identity.job_id) == []
        assert store.attempts(identity.job_id) == []

    def test_a_running_job_is_not_removed(self, store: JobStore) -> None:
        identity = claimed(store)

        with pytest.raises(JobNotRemovable):
            store.remove(identity.job_id)

        assert settle(store, identity, states.DONE)

    def test_a_removed_waiting_job_is_never_claimed(self, store: JobStore, clock: Clock) -> None:
        for job_id in (enqueue(store), enqueue(store, delay=timedelta(seconds=5))):
            store.remove(job_id)
        clock.advance(minutes=1)

        assert claim(store) == []

    def test_an_unknown_job_is_not_removed(self, store: JobStore) -> None:
        with pytest.raises(JobNotFound):
            store.remove(new_id())


def parked_id(store: JobStore) -> UUID:
    return parked(store)[0]
