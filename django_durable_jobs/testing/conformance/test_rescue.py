from __future__ import annotations

from contextlib import suppress

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import ClaimQueuesEmpty
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimIdentity, NewStep, Rescued

from .given import LEASE, Clock, at_once, claim, claimed, insert, new_job, settle, shown


def rescue(
    store: JobStore,
    *queues: str,
    worker: str = "worker-2",
    limit: int = 10,
    drop: tuple[str, ...] = (),
) -> Rescued:
    return store.rescue(
        worker, queues or ("default",), limit=limit, lease=LEASE, drop_exhausted=drop
    )


class TestRescue:
    def test_a_lapsed_job_is_taken_again_under_a_new_claim(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        clock.advance(seconds=61)

        rescued = rescue(store)

        [job] = rescued.claimed
        assert rescued.buried == ()
        assert job.identity == ClaimIdentity(identity.job_id, "worker-2", 2)
        assert (job.attempt, job.name, job.queue) == (2, "shop.pay", "default")
        row = shown(store, identity.job_id)
        assert (row.state, row.attempt, row.claims) == (states.RUNNING, 2, 2)
        assert row.worker_id == "worker-2"
        assert row.lease_expires_at == job.claimed_at + LEASE
        assert settle(store, job.identity, states.DONE)

    def test_a_lease_that_holds_is_not_rescued(self, store: JobStore, clock: Clock) -> None:
        claimed(store)
        clock.advance(seconds=59)

        assert rescue(store) == Rescued((), ())

    def test_a_renewed_lease_is_not_rescued(self, store: JobStore, clock: Clock) -> None:
        identity = claimed(store)
        clock.advance(seconds=50)
        store.renew([identity], lease=LEASE, beats=())
        clock.advance(seconds=50)

        assert rescue(store) == Rescued((), ())

    def test_a_lapsed_lease_that_nobody_took_can_be_renewed(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        clock.advance(seconds=90)

        assert store.renew([identity], lease=LEASE, beats=()).held == {identity}
        assert rescue(store) == Rescued((), ())

    def test_the_jobs_of_a_dead_worker_are_rescued_without_waiting(self, store: JobStore) -> None:
        identity, kept = claimed(store), claimed(store)

        assert store.lapse([identity]) == 1

        assert [job.identity.job_id for job in rescue(store).claimed] == [identity.job_id]
        assert shown(store, kept.job_id).claims == 1

    def test_a_lapsed_attempt_is_kept_in_the_history(self, store: JobStore, clock: Clock) -> None:
        identity = claimed(store)
        clock.advance(seconds=61)
        rescue(store)

        [attempt] = store.attempts(identity.job_id)

        assert (attempt.claim, attempt.attempt, attempt.outcome) == (1, 1, "lapsed")
        assert (attempt.worker_id, attempt.code) == ("worker-1", "")
        assert attempt.message
        assert attempt.started_at is not None
        assert attempt.finished_at > attempt.started_at

    def test_a_rescue_takes_no_more_than_its_limit_in_the_order_of_ids(
        self, store: JobStore, clock: Clock
    ) -> None:
        insert(store, *(new_job(priority=number) for number in range(5)))
        ids = sorted(job.identity.job_id for job in claim(store))
        clock.advance(seconds=61)

        first = [job.identity.job_id for job in rescue(store, limit=2).claimed]
        rest = [job.identity.job_id for job in rescue(store, limit=10).claimed]

        assert first == ids[:2]
        assert rest == ids[2:]
        assert rescue(store, limit=10) == Rescued((), ())

    def test_a_rescue_looks_into_its_own_queues_only(self, store: JobStore, clock: Clock) -> None:
        insert(store, new_job(queue="mail"))
        [job] = claim(store, queue="mail")
        clock.advance(seconds=61)

        assert rescue(store, "default", "other") == Rescued((), ())
        assert [each.identity.job_id for each in rescue(store, "mail").claimed] == [
            job.identity.job_id
        ]

    def test_a_rescue_that_names_no_queue_takes_nothing(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        clock.advance(seconds=61)

        with suppress(ClaimQueuesEmpty):
            assert store.rescue("worker-2", [], limit=1, lease=LEASE, drop_exhausted=()) == Rescued(
                (), ()
            )
        assert shown(store, identity.job_id).claims == 1

    def test_concurrent_rescues_never_receive_the_same_job(
        self, store: JobStore, clock: Clock
    ) -> None:
        insert(store, *(new_job(max_attempts=1 + number % 2) for number in range(40)))
        claim(store, 40)
        clock.advance(seconds=61)

        found = at_once(
            store,
            4,
            lambda shared, number: rescue(shared, worker=f"rescuer-{number}", limit=40),
        )

        taken = [job.identity.job_id for each in found for job in each.claimed]
        buried = [job.id for each in found for job in each.buried]
        assert len(taken) == len(set(taken)) == 20
        assert len(buried) == len(set(buried)) == 20

    def test_a_rescued_run_still_has_its_steps(self, store: JobStore, clock: Clock) -> None:
        identity = claimed(store)
        store.put_step(identity, NewStep("charge", 1, "done", output="1"))
        clock.advance(seconds=61)

        [job] = rescue(store).claimed

        assert job.may_have_steps
        assert [step.name for step in store.load_steps(identity.job_id)] == ["charge"]


class TestBurial:
    @pytest.mark.parametrize(
        ("drop", "state"), [((), states.DEAD), (("shop.pay", "shop.ship"), states.FAILED)]
    )
    def test_a_lease_that_lapsed_on_the_final_attempt_buries_the_job(
        self, store: JobStore, clock: Clock, drop: tuple[str, ...], state: str
    ) -> None:
        identity = claimed(store, max_attempts=1, tenant_id="acme")
        clock.advance(seconds=61)

        rescued = rescue(store, drop=drop)

        assert rescued.claimed == ()
        [job] = rescued.buried
        assert (job.id, job.name, job.queue, job.state) == (
            identity.job_id,
            "shop.pay",
            "default",
            state,
        )
        assert (job.attempt, job.max_attempts, job.tenant_id) == (1, 1, "acme")
        assert job.error == states.LEASE_LAPSED_FINAL_ATTEMPT
        row = shown(store, identity.job_id)
        assert (row.state, row.attempt, row.claims) == (state, 1, 1)
        assert (row.last_error, row.error_code) == (states.LEASE_LAPSED_FINAL_ATTEMPT, "")
        assert row.lease_expires_at is None
        assert row.finished_at is not None

    def test_a_job_of_another_name_than_those_dropped_ends_dead(
        self, store: JobStore, clock: Clock
    ) -> None:
        claimed(store, max_attempts=1)
        clock.advance(seconds=61)

        assert [job.state for job in rescue(store, drop=("shop.ship",)).buried] == [states.DEAD]

    def test_a_burial_is_reported_once(self, store: JobStore, clock: Clock) -> None:
        claimed(store, max_attempts=1)
        clock.advance(seconds=61)
        assert len(rescue(store).buried) == 1

        assert rescue(store) == Rescued((), ())

    def test_a_job_that_kills_its_workers_is_buried_after_its_attempts(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store, max_attempts=3)
        outcomes = []
        for _ in range(3):
            clock.advance(seconds=61)
            rescued = rescue(store)
            outcomes.append((len(rescued.claimed), len(rescued.buried)))

        assert outcomes == [(1, 0), (1, 0), (0, 1)]
        assert [attempt.outcome for attempt in store.attempts(identity.job_id)] == [
            states.DEAD,
            "lapsed",
            "lapsed",
        ]

    def test_one_rescue_takes_some_and_buries_others(self, store: JobStore, clock: Clock) -> None:
        final, other = claimed(store, max_attempts=1), claimed(store)
        clock.advance(seconds=61)

        rescued = rescue(store)

        assert [job.identity.job_id for job in rescued.claimed] == [other.job_id]
        assert [job.id for job in rescued.buried] == [final.job_id]

    def test_a_buried_job_can_be_requeued_by_a_person(self, store: JobStore, clock: Clock) -> None:
        identity = claimed(store, max_attempts=1)
        clock.advance(seconds=61)
        rescue(store)

        store.requeue(identity.job_id)

        [job] = claim(store)
        assert (job.attempt, job.identity.claim) == (1, 2)
