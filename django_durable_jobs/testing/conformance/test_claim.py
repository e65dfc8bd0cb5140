from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import ClaimQueuesEmpty
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimIdentity, QueueDemand

from .given import (
    LEASE,
    Clock,
    at_once,
    claim,
    claimed,
    enqueue,
    finished,
    insert,
    new_job,
    settle,
    shown,
)


class TestClaim:
    def test_a_claim_holds_the_job_under_a_lease_and_counts_the_attempt(
        self, store: JobStore
    ) -> None:
        job_id = enqueue(store, tenant_id="acme", enqueued_by="ann", trace_parent="00-1-2-01")
        before = store.now()

        [job] = store.claim("worker-1", [QueueDemand("default", 5)], lease=LEASE)

        assert job.identity == ClaimIdentity(job_id, "worker-1", 1)
        assert (job.name, job.queue, job.attempt, job.max_attempts) == ("shop.pay", "default", 1, 3)
        assert (job.tenant_id, job.enqueued_by, job.trace_parent) == ("acme", "ann", "00-1-2-01")
        assert before <= job.claimed_at <= store.now()
        row = shown(store, job_id)
        assert (row.state, row.worker_id, row.attempt, row.claims) == (
            states.RUNNING,
            "worker-1",
            1,
            1,
        )
        assert not row.is_armed
        assert row.started_at == job.claimed_at
        assert row.lease_expires_at == job.claimed_at + LEASE
        assert job.created_at == row.created_at

    def test_a_running_or_finished_job_is_never_claimed(self, store: JobStore) -> None:
        for state in states.FINISHED_STATES:
            finished(store, state)
        claimed(store)

        assert claim(store) == []

    def test_a_claim_takes_no_more_than_it_asked_for(self, store: JobStore) -> None:
        insert(store, *(new_job() for _ in range(5)))

        assert len(claim(store, 2)) == 2
        assert claim(store, 0) == []
        assert len(claim(store, 10)) == 3

    def test_one_claim_asks_each_queue_for_its_own_number(self, store: JobStore) -> None:
        for queue in ("default", "mail", "other"):
            insert(store, *(new_job(queue=queue) for _ in range(4)))

        jobs = store.claim(
            "worker-1", [QueueDemand("default", 3), QueueDemand("mail", 1)], lease=LEASE
        )

        assert sorted(job.queue for job in jobs) == ["default"] * 3 + ["mail"]

    def test_a_claim_of_several_queues_may_be_bounded_as_a_whole(self, store: JobStore) -> None:
        """The queues are served in the order in which they are named."""
        for queue in ("default", "mail", "other"):
            insert(store, *(new_job(queue=queue) for _ in range(4)))
        demands = [QueueDemand(queue, 3) for queue in ("mail", "default", "other")]

        jobs = store.claim("worker-1", demands, lease=LEASE, limit=5)

        assert Counter(job.queue for job in jobs) == {"mail": 3, "default": 2}
        assert store.claim("worker-1", demands, lease=LEASE, limit=0) == []
        assert len(store.claim("worker-1", demands, lease=LEASE, limit=99)) == 6

    def test_higher_priority_goes_first(self, store: JobStore) -> None:
        low, high, plain = (enqueue(store, priority=priority) for priority in (-5, 7, 0))

        order = [job.identity.job_id for _ in range(3) for job in claim(store, 1)]

        assert order == [high, plain, low]

    def test_higher_priority_goes_first_across_lanes(self, store: JobStore) -> None:
        insert(store, *(new_job(tenant_id="a") for _ in range(5)))
        wanted = enqueue(store, tenant_id="z", priority=1)

        assert [job.identity.job_id for job in claim(store, 1)] == [wanted]

    def test_within_a_lane_the_oldest_due_goes_first_and_ties_go_by_id(
        self, store: JobStore, clock: Clock
    ) -> None:
        start = store.now()
        jobs = [new_job(run_at=start + timedelta(seconds=wait)) for wait in (95, 10, 70, 70, 10)]
        insert(store, *reversed(jobs))
        clock.advance(minutes=2)
        wanted = [job.id for job in sorted(jobs, key=lambda job: (job.run_at, job.id))]

        one_by_one = [job.identity.job_id for _ in range(3) for job in claim(store, 1)]
        together = [job.identity.job_id for job in claim(store, 2)]

        assert one_by_one + together == wanted

    @pytest.mark.parametrize("lane", ["tenant_id", "concurrency_key"])
    def test_a_lane_with_one_job_is_not_starved_by_a_lane_with_a_thousand(
        self, store: JobStore, lane: str
    ) -> None:
        insert(store, *(new_job(**{lane: "a"}) for _ in range(1000)))
        single = enqueue(store, **{lane: "b"})

        jobs = claim(store, 10)

        assert len(jobs) == 10
        assert single in {job.identity.job_id for job in jobs}

    def test_every_lane_has_its_turn_though_each_has_more_than_a_claim_takes(
        self, store: JobStore
    ) -> None:
        lanes = [f"t{number:02}" for number in range(40)]
        insert(store, *(new_job(tenant_id=lane) for lane in lanes for _ in range(12)))

        served = {job.tenant_id for _ in range(8) for job in claim(store, 10)}

        assert served == set(lanes)

    def test_a_claim_is_filled_from_the_lanes_that_have_work(self, store: JobStore) -> None:
        """Lanes with little to do leave their share to the others."""
        insert(store, *(new_job(tenant_id="a") for _ in range(20)))
        insert(store, new_job(tenant_id="b"), new_job(tenant_id="c"))

        assert len(claim(store, 12)) == 12

    def test_a_lane_is_taken_in_order_also_when_others_take_turns(
        self, store: JobStore, clock: Clock
    ) -> None:
        start = store.now()
        lanes = {
            tenant: [
                new_job(tenant_id=tenant, run_at=start + timedelta(seconds=wait))
                for wait in range(1, 7)
            ]
            for tenant in "ab"
        }
        insert(store, *lanes["b"], *lanes["a"])
        clock.advance(minutes=1)

        taken = [job.identity.job_id for _ in range(3) for job in claim(store, 4)]

        for jobs in lanes.values():
            mine = [job.id for job in jobs]
            assert [job_id for job_id in taken if job_id in mine] == mine

    def test_concurrent_claims_never_receive_the_same_job(self, store: JobStore) -> None:
        insert(store, *(new_job(tenant_id=f"t{number % 3}") for number in range(120)))

        def drain(shared: JobStore, number: int) -> list[ClaimIdentity]:
            mine: list[ClaimIdentity] = []
            while jobs := shared.claim(
                f"worker-{number}", [QueueDemand("default", 7)], lease=LEASE
            ):
                mine += [job.identity for job in jobs]
            return mine

        taken = [identity for each in at_once(store, 4, drain) for identity in each]

        assert len(taken) == len({identity.job_id for identity in taken})
        # A claim that met only locked rows may have ended a thread's loop early.
        rest = claim(store, 200)
        assert len(taken) + len(rest) == 120

    def test_of_an_end_and_a_cancel_at_the_same_time_exactly_one_happens(
        self, store: JobStore
    ) -> None:
        insert(store, *(new_job() for _ in range(30)))
        claims = [job.identity for job in claim(store, 30)]

        def act(shared: JobStore, number: int) -> list[bool]:
            if number == 0:
                return [settle(shared, identity, states.DONE) for identity in claims]
            return [
                shared.cancel(identity.job_id, reason="by hand") is not None for identity in claims
            ]

        landed, cancelled = at_once(store, 2, act)

        for identity, is_done, is_cancelled in zip(claims, landed, cancelled, strict=True):
            assert is_done is not is_cancelled
            state = states.DONE if is_done else states.CANCELLED
            assert shown(store, identity.job_id).state == state

    def test_every_claim_of_a_job_has_its_own_identity(self, store: JobStore) -> None:
        first = claimed(store)
        settle(store, first, states.READY, give_back=True)

        [again] = claim(store)

        assert again.identity == ClaimIdentity(first.job_id, "worker-1", 2)
        assert again.attempt == 1
        assert again.may_have_steps


class TestClaimBounds:
    def test_a_claim_that_names_no_queue_is_refused(self, store: JobStore) -> None:
        job_id = enqueue(store)

        with pytest.raises(ClaimQueuesEmpty):
            store.claim("worker-1", [], lease=LEASE)

        assert shown(store, job_id).state == states.READY

    @pytest.mark.parametrize("count", [-1, 1.5, float("nan"), float("inf"), True, "3", None])
    def test_a_count_that_is_no_whole_number_is_refused(
        self, store: JobStore, count: object
    ) -> None:
        job_id = enqueue(store)
        demands = [QueueDemand("default", 1), QueueDemand("mail", count)]  # type: ignore[arg-type]  # what is refused

        with pytest.raises(ValueError, match="count"):
            store.claim("worker-1", demands, lease=LEASE)

        assert shown(store, job_id).state == states.READY


class TestArm:
    def test_arming_takes_the_longest_due_first_and_no_more_than_its_limit(
        self, store: JobStore, clock: Clock
    ) -> None:
        late, early, middle = (
            enqueue(store, delay=timedelta(seconds=seconds)) for seconds in (30, 10, 20)
        )
        clock.advance(minutes=1)

        assert store.arm(limit=2) == 2
        assert [shown(store, job_id).is_armed for job_id in (early, middle, late)] == [
            True,
            True,
            False,
        ]
        assert store.arm(limit=2) == 1
        assert store.arm(limit=2) == 0

    def test_a_job_whose_time_has_not_come_is_not_armed(
        self, store: JobStore, clock: Clock
    ) -> None:
        job_id = enqueue(store, delay=timedelta(seconds=30))
        clock.advance(seconds=29)

        assert store.arm(limit=10) == 0
        assert not shown(store, job_id).is_armed

    def test_arming_moves_no_state_and_no_due_time(self, store: JobStore, clock: Clock) -> None:
        job_id = enqueue(store, delay=timedelta(seconds=30))
        before = shown(store, job_id)
        clock.advance(minutes=1)

        store.arm(limit=10)

        after = shown(store, job_id)
        assert (after.state, after.run_at) == (before.state, before.run_at)

    def test_backing_off_and_sleeping_runs_are_armed_when_their_time_comes(
        self, store: JobStore, clock: Clock
    ) -> None:
        jobs = {state: claimed(store) for state in (states.READY, states.SUSPENDED)}
        for state, identity in jobs.items():
            settle(store, identity, state, delay=timedelta(minutes=5))
        assert claim(store) == []
        clock.advance(minutes=5, seconds=1)

        assert {job.identity.job_id for job in claim(store)} == {
            identity.job_id for identity in jobs.values()
        }

    def test_finished_and_running_jobs_are_never_armed(self, store: JobStore, clock: Clock) -> None:
        for state in states.FINISHED_STATES:
            finished(store, state)
        claimed(store)
        clock.advance(days=2)

        assert store.arm(limit=100) == 0
