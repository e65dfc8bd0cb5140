"""What a worker asks before it goes to sleep, and its signs of life."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from django_durable_jobs import states
from django_durable_jobs.exceptions import ClaimQueuesEmpty
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import ClaimIdentity, Probe, Renewal, WorkerBeat

from .given import LEASE, Clock, at_once, claim, claimed, enqueue, insert, new_job, settle

YEAR = 365 * 24 * 3600
BEAT = WorkerBeat("worker-1", "host", 7, ("default", "mail"), 4, "0.1")


class TestProbe:
    def test_an_empty_store_has_nothing_to_wait_for(self, store: JobStore) -> None:
        assert store.probe(["default"]) == Probe(frozenset(), None, None)

    def test_a_probe_names_the_queues_that_hold_a_due_job(self, store: JobStore) -> None:
        insert(store, new_job(), new_job(queue="mail"), new_job(queue="other"))
        enqueue(store, queue="later", delay=timedelta(hours=1))

        assert store.probe(["default", "mail", "later", "empty"]).queues == {"default", "mail"}

    def test_a_probe_tells_when_the_next_job_falls_due(self, store: JobStore) -> None:
        enqueue(store, delay=timedelta(hours=2))
        enqueue(store, delay=timedelta(minutes=10))

        due_in = store.probe(["default"]).due_in

        assert due_in is not None
        assert 590 < due_in <= 600

    def test_a_run_parked_without_a_time_is_not_about_to_fall_due(self, store: JobStore) -> None:
        settle(store, claimed(store), states.SUSPENDED, give_back=True)

        due_in = store.probe(["default"]).due_in

        assert due_in is None or due_in > YEAR

    def test_a_probe_tells_when_the_next_lease_lapses(self, store: JobStore, clock: Clock) -> None:
        claimed(store)
        clock.advance(seconds=20)
        claimed(store)

        lapse_in = store.probe(["default"]).lapse_in

        assert lapse_in is not None
        assert 30 < lapse_in <= 40

    def test_a_lease_that_lapsed_is_told_as_due(self, store: JobStore, clock: Clock) -> None:
        claimed(store)
        clock.advance(seconds=90)

        lapse_in = store.probe(["default"]).lapse_in

        assert lapse_in is not None
        assert lapse_in <= -29

    def test_finished_jobs_are_nothing_to_wait_for(self, store: JobStore) -> None:
        settle(store, claimed(store), states.DONE)
        store.cancel(claimed(store).job_id, reason="")

        assert store.probe(["default"]) == Probe(frozenset(), None, None)

    def test_a_probe_takes_nothing(self, store: JobStore) -> None:
        job_id = enqueue(store)
        store.probe(["default"])

        assert [job.identity.job_id for job in claim(store)] == [job_id]

    def test_a_probe_that_names_no_queue_finds_none(self, store: JobStore) -> None:
        enqueue(store)

        with suppress(ClaimQueuesEmpty):
            assert store.probe([]).queues == frozenset()


class TestRenewal:
    def test_renewing_nothing_records_the_signs_of_life(self, store: JobStore) -> None:
        for _ in range(2):
            assert store.renew([], lease=LEASE, beats=[BEAT]) == Renewal(frozenset(), frozenset())

    def test_a_claim_of_an_unknown_job_is_lost(self, store: JobStore) -> None:
        stranger = ClaimIdentity(new_id(), "worker-1", 1)

        assert store.renew([stranger], lease=LEASE, beats=()).lost == {stranger}

    def test_many_claims_of_several_workers_are_renewed_in_one_call(
        self, store: JobStore, clock: Clock
    ) -> None:
        insert(store, *(new_job() for _ in range(60)))
        claims = [job.identity for worker in "ab" for job in claim(store, 30, worker=worker)]
        clock.advance(seconds=50)

        assert store.renew(claims, lease=LEASE, beats=[BEAT]).held == set(claims)
        clock.advance(seconds=50)
        rescued = store.rescue("worker-2", ["default"], limit=99, lease=LEASE, drop_exhausted=())
        assert rescued.claimed == ()

    def test_a_worker_that_stopped_is_forgotten(self, store: JobStore) -> None:
        store.renew([], lease=LEASE, beats=[BEAT])

        store.forget_workers(["worker-1", "worker-nobody"])
        store.forget_workers([])

    def test_lapsing_nothing_lapses_nothing(self, store: JobStore) -> None:
        assert store.lapse([]) == 0


class TestClock:
    def test_the_stores_clock_moves_with_the_tests(self, store: JobStore, clock: Clock) -> None:
        before = store.now()

        clock.advance(days=30)

        assert before.tzinfo is not None
        assert timedelta(days=30) <= store.now() - before < timedelta(days=30, minutes=1)

    def test_every_connection_reads_the_same_clock(self, store: JobStore, clock: Clock) -> None:
        clock.advance(days=30)
        before = store.now()

        [theirs] = at_once(store, 1, lambda own, _: own.now())

        assert before <= theirs <= store.now()
