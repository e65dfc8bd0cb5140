from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import JobDuplicate
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import QueueDemand

from .given import (
    LEASE,
    Clock,
    at_once,
    claim,
    claimed,
    enqueue,
    every_job,
    finished,
    insert,
    new_job,
    settle,
    shown,
)


class TestEnqueue:
    def test_a_job_due_now_is_ready_and_can_be_claimed_at_once(self, store: JobStore) -> None:
        [answer] = insert(store, new_job())

        assert (answer.created, answer.state, answer.queue) == (True, states.READY, "default")
        assert answer.due_in <= 0
        row = shown(store, answer.id)
        assert (row.state, row.is_armed, row.attempt, row.claims) == (states.READY, True, 0, 0)
        taken = store.claim("worker-1", [QueueDemand("default", 1)], lease=LEASE)
        assert [job.identity.job_id for job in taken] == [answer.id]

    def test_a_job_with_a_delay_is_delayed_and_waits_for_its_time(
        self, store: JobStore, clock: Clock
    ) -> None:
        [answer] = insert(store, new_job(delay=timedelta(minutes=10)))

        assert answer.state == states.DELAYED
        assert 590 < answer.due_in <= 600
        assert not shown(store, answer.id).is_armed
        clock.advance(minutes=9)
        assert claim(store) == []
        clock.advance(minutes=1, seconds=1)
        assert [job.identity.job_id for job in claim(store)] == [answer.id]

    @pytest.mark.parametrize("delay", [timedelta(0), timedelta(seconds=-5)])
    def test_a_delay_that_is_over_means_due_now(self, store: JobStore, delay: timedelta) -> None:
        assert insert(store, new_job(delay=delay))[0].state == states.READY

    def test_an_instant_wins_over_a_delay_and_is_kept_exactly(self, store: JobStore) -> None:
        later = store.now() + timedelta(days=3)

        job_id = enqueue(store, run_at=later, delay=timedelta(0))

        row = shown(store, job_id)
        assert (row.state, row.run_at) == (states.DELAYED, later)

    def test_an_instant_in_the_past_means_due_now_and_is_kept(self, store: JobStore) -> None:
        earlier = store.now() - timedelta(days=1)

        row = shown(store, enqueue(store, run_at=earlier))

        assert (row.state, row.is_armed, row.run_at) == (states.READY, True, earlier)

    def test_all_that_the_enqueue_decided_is_stored(self, store: JobStore) -> None:
        before = store.now()
        job = new_job(
            name="shop.ship",
            queue="mail",
            priority=-3,
            tenant_id="acme",
            idempotency_key="order:7",
            concurrency_key="ups",
            max_attempts=9,
            enqueued_by="ann",
            trace_parent="00-1-2-01",
        )

        row = shown(store, insert(store, job)[0].id)

        assert (row.id, row.name, row.queue, row.priority) == (job.id, "shop.ship", "mail", -3)
        assert (row.tenant_id, row.idempotency_key, row.concurrency_key) == (
            "acme",
            "order:7",
            "ups",
        )
        assert (row.max_attempts, row.enqueued_by, row.trace_parent) == (9, "ann", "00-1-2-01")
        assert before <= row.created_at <= store.now()
        assert (row.result, row.progress, row.worker_id, row.lease_expires_at) == (None,) * 4
        assert (row.started_at, row.finished_at, row.last_error) == (None, None, "")

    def test_many_jobs_of_one_call_are_answered_one_each_in_order(self, store: JobStore) -> None:
        jobs = [new_job() for _ in range(300)]

        answers = insert(store, *jobs)

        assert [answer.id for answer in answers] == [job.id for job in jobs]
        assert all(answer.created for answer in answers)

    def test_an_enqueue_of_no_jobs_answers_nothing(self, store: JobStore) -> None:
        assert store.insert([], on_conflict="existing") == []


class TestIdempotencyKeys:
    def test_a_held_key_is_answered_with_its_holder_and_stores_nothing(
        self, store: JobStore
    ) -> None:
        holder = enqueue(store, idempotency_key="order:7", delay=timedelta(hours=1))

        [answer] = insert(store, new_job(idempotency_key="order:7"))

        assert (answer.id, answer.created, answer.state) == (holder, False, states.DELAYED)
        assert answer.due_in > 3500
        assert [row.id for row in every_job(store)] == [holder]

    def test_a_refusal_names_the_holder_and_inserts_none_of_the_call(self, store: JobStore) -> None:
        holder = enqueue(store, idempotency_key="order:7")
        jobs = [new_job(), new_job(idempotency_key="order:7"), new_job()]

        with pytest.raises(JobDuplicate) as refusal:
            store.insert(jobs, on_conflict="raise")

        assert (refusal.value.job, refusal.value.holder) == ("shop.pay", str(holder))
        assert [row.id for row in every_job(store)] == [holder]

    def test_of_two_jobs_with_one_key_in_one_call_the_second_answers_the_first(
        self, store: JobStore
    ) -> None:
        first, other, second = (
            new_job(idempotency_key="order:7"),
            new_job(),
            new_job(idempotency_key="order:7"),
        )

        answers = insert(store, first, other, second)

        assert [(answer.id, answer.created) for answer in answers] == [
            (first.id, True),
            (other.id, True),
            (first.id, False),
        ]
        assert len(every_job(store)) == 2

    def test_two_jobs_with_one_key_in_one_refusing_call_insert_nothing(
        self, store: JobStore
    ) -> None:
        jobs = [new_job(idempotency_key="order:7"), new_job(idempotency_key="order:7")]

        with pytest.raises(JobDuplicate):
            store.insert(jobs, on_conflict="raise")

        assert every_job(store) == []

    def test_a_refusing_call_with_free_keys_inserts_all(self, store: JobStore) -> None:
        jobs = [new_job(idempotency_key="order:7"), new_job(idempotency_key="order:8"), new_job()]

        answers = store.insert(jobs, on_conflict="raise")

        assert [answer.created for answer in answers] == [True] * 3

    @pytest.mark.parametrize(
        "other",
        [{"name": "shop.ship"}, {"tenant_id": "acme"}, {"idempotency_key": "order:8"}],
        ids=["name", "tenant", "key"],
    )
    def test_a_key_is_held_within_its_name_and_tenant_only(
        self, store: JobStore, other: dict[str, str]
    ) -> None:
        enqueue(store, idempotency_key="order:7")

        [answer] = insert(store, new_job(**{"idempotency_key": "order:7", **other}))

        assert answer.created

    def test_the_queue_is_no_part_of_the_key(self, store: JobStore) -> None:
        holder = enqueue(store, idempotency_key="order:7")

        [answer] = insert(store, new_job(idempotency_key="order:7", queue="mail"))

        assert (answer.id, answer.queue) == (holder, "default")

    def test_jobs_without_a_key_never_meet(self, store: JobStore) -> None:
        assert all(answer.created for answer in insert(store, new_job(), new_job()))

    def test_a_running_job_holds_its_key(self, store: JobStore) -> None:
        identity = claimed(store, idempotency_key="order:7")

        [answer] = insert(store, new_job(idempotency_key="order:7"))

        assert (answer.id, answer.state) == (identity.job_id, states.RUNNING)

    def test_a_backing_off_or_suspended_job_holds_its_key(
        self, store: JobStore, clock: Clock
    ) -> None:
        for state in (states.READY, states.SUSPENDED):
            identity = claimed(store, idempotency_key=state)
            assert settle(store, identity, state, delay=timedelta(hours=1))

            [answer] = insert(store, new_job(idempotency_key=state))

            assert (answer.id, answer.created, answer.state) == (identity.job_id, False, state)

    @pytest.mark.parametrize("state", states.FINISHED_STATES)
    def test_a_finished_job_frees_its_key(self, store: JobStore, state: str) -> None:
        former = finished(store, state, idempotency_key="order:7")

        [answer] = insert(store, new_job(idempotency_key="order:7"))

        assert answer.created
        assert answer.id != former

    def test_a_buried_or_removed_job_frees_its_key(self, store: JobStore, clock: Clock) -> None:
        identity = claimed(store, idempotency_key="order:7", max_attempts=1)
        clock.advance(seconds=61)
        store.rescue("worker-2", ["default"], limit=1, lease=LEASE, drop_exhausted=())
        second = insert(store, new_job(idempotency_key="order:7"))[0]
        store.remove(second.id)

        third = insert(store, new_job(idempotency_key="order:7"))[0]

        assert second.created
        assert second.id != identity.job_id
        assert third.created

    def test_of_concurrent_enqueues_with_one_key_exactly_one_inserts(self, store: JobStore) -> None:
        answers = at_once(
            store, 8, lambda shared, _: insert(shared, new_job(idempotency_key="order:7"))[0]
        )

        assert sum(answer.created for answer in answers) == 1
        assert len({answer.id for answer in answers}) == 1
        assert len(every_job(store)) == 1

    def test_of_concurrent_refusing_enqueues_all_but_one_are_refused(self, store: JobStore) -> None:
        def attempt(shared: JobStore, number: int) -> bool:
            with suppress(JobDuplicate):
                return shared.insert([new_job(idempotency_key="order:7")], on_conflict="raise")[
                    0
                ].created
            return False

        assert sum(at_once(store, 8, attempt)) == 1
        assert len(every_job(store)) == 1
