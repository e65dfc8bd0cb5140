"""A worker that lost its claim can change nothing.

Every fenced write is tried against every way of losing a claim, and, so that these
tests can fail, also by a worker that still holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimIdentity, NewStep

from .given import BOOM, LEASE, Clock, claim, claimed, everything, put_wait, settle

Write = Callable[[JobStore, ClaimIdentity], bool]
Loss = Callable[[JobStore, Clock, ClaimIdentity], ClaimIdentity]


def _put(step: NewStep) -> Write:
    def put(store: JobStore, identity: ClaimIdentity) -> bool:
        store.put_step(identity, step)
        return True

    return put


def _hold(store: JobStore, identity: ClaimIdentity) -> bool:
    with store.atomic():
        store.hold(identity)
    return True


def _put_in_a_transaction(store: JobStore, identity: ClaimIdentity) -> bool:
    with store.atomic():
        store.put_step(identity, NewStep("charge", 1, "done", output="1"))
        store.hold(identity)
    return True


WRITES: Final[dict[str, Write]] = {
    "settle done": lambda s, i: settle(s, i, states.DONE, result="1"),
    "settle ready": lambda s, i: settle(s, i, states.READY, failure=BOOM),
    "settle ready later": lambda s, i: settle(s, i, states.READY, delay=timedelta(hours=1)),
    "settle given back": lambda s, i: settle(s, i, states.READY, give_back=True),
    "settle unknown": lambda s, i: settle(s, i, states.READY, unknown_name=True),
    "settle suspended": lambda s, i: settle(s, i, states.SUSPENDED, waits=True),
    "settle dead": lambda s, i: settle(s, i, states.DEAD, failure=BOOM),
    "settle failed": lambda s, i: settle(s, i, states.FAILED, failure=BOOM),
    "renew": lambda s, i: i in s.renew([i], lease=LEASE * 9, beats=()).held,
    "lapse": lambda s, i: bool(s.lapse([i])),
    "progress": lambda s, i: s.record_progress(i, "1"),
    "version": lambda s, i: s.record_version(i, "2"),
    "finished step": _put(NewStep("charge", 1, "done", output="1")),
    "sleeping step": _put(NewStep("cool off", 1, "sleeping", wait=timedelta(hours=1))),
    "waiting step": _put(NewStep("approval", 1, "waiting", event="approved")),
    "end of a wait": _put(NewStep("opened", 1, "timed_out")),
    "hold": _hold,
    "atomic step": _put_in_a_transaction,
}


def _rescued(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    _lapse_and_rescue(store, clock, "worker-2")
    return identity


def _rescued_by_itself(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    _lapse_and_rescue(store, clock, identity.worker_id)
    return identity


def _claimed_again(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    settle(store, identity, states.READY, give_back=True)
    assert len(claim(store, worker=identity.worker_id)) == 1
    return identity


def _cancelled(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    store.cancel(identity.job_id, reason="by hand")
    return identity


def _cancelled_and_run_again(
    store: JobStore, clock: Clock, identity: ClaimIdentity
) -> ClaimIdentity:
    store.cancel(identity.job_id, reason="by hand")
    store.requeue(identity.job_id)
    assert len(claim(store, worker=identity.worker_id)) == 1
    return identity


def _buried(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    for _ in range(3):
        _lapse_and_rescue(store, clock, identity.worker_id)
    return identity


def _settled(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    settle(store, identity, states.DONE, result="1")
    return identity


def _suspended(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    settle(store, identity, states.SUSPENDED, give_back=True, delay=timedelta(hours=1))
    return identity


def _removed(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    store.cancel(identity.job_id, reason="by hand")
    store.remove(identity.job_id)
    return identity


def _another_worker(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    return ClaimIdentity(identity.job_id, "worker-2", identity.claim)


def _a_claim_to_come(store: JobStore, clock: Clock, identity: ClaimIdentity) -> ClaimIdentity:
    return ClaimIdentity(identity.job_id, identity.worker_id, identity.claim + 1)


LOSSES: Final[dict[str, Loss]] = {
    "rescued by another worker": _rescued,
    "rescued by the same worker": _rescued_by_itself,
    "claimed again by the same worker": _claimed_again,
    "cancelled": _cancelled,
    "cancelled, requeued and claimed again": _cancelled_and_run_again,
    "buried": _buried,
    "settled": _settled,
    "suspended": _suspended,
    "removed": _removed,
    "never its own": _another_worker,
    "not yet claimed": _a_claim_to_come,
}


class TestFences:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("write", WRITES)
    def test_a_claim_that_does_not_hold_the_job_changes_nothing(
        self, store: JobStore, clock: Clock, write: str, loss: str
    ) -> None:
        identity = claimed(store)
        put_wait(store, identity, name="opened", event="opened")
        lost = LOSSES[loss](store, clock, identity)
        before = everything(store, identity.job_id)

        try:
            has_landed = WRITES[write](store, lost)
        except LeaseLost as error:
            assert error.job_id == str(identity.job_id)
            has_landed = False

        assert not has_landed
        assert everything(store, identity.job_id) == before

    @pytest.mark.parametrize("write", WRITES)
    def test_a_claim_that_holds_the_job_may_write(self, store: JobStore, write: str) -> None:
        identity = claimed(store)
        put_wait(store, identity, name="opened", event="opened")
        before = everything(store, identity.job_id)

        assert WRITES[write](store, identity)

        assert write == "hold" or everything(store, identity.job_id) != before

    @pytest.mark.parametrize("write", WRITES)
    def test_a_lapsed_claim_may_write_until_somebody_takes_the_job(
        self, store: JobStore, clock: Clock, write: str
    ) -> None:
        identity = claimed(store)
        put_wait(store, identity, name="opened", event="opened")
        clock.advance(hours=1)

        assert WRITES[write](store, identity)

    def test_a_renewal_names_the_lost_claims_and_keeps_the_held_ones(
        self, store: JobStore, clock: Clock
    ) -> None:
        held, lost = claimed(store), claimed(store)
        store.cancel(lost.job_id, reason="by hand")
        clock.advance(seconds=40)

        renewal = store.renew([held, lost], lease=LEASE, beats=())

        assert (set(renewal.held), set(renewal.lost)) == ({held}, {lost})
        clock.advance(seconds=40)
        rescued = store.rescue("worker-2", ["default"], limit=9, lease=LEASE, drop_exhausted=())
        assert rescued.claimed == ()

    def test_a_transaction_that_lost_its_claim_in_the_middle_stores_no_checkpoint(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)

        with pytest.raises(LeaseLost), store.atomic():
            store.put_step(identity, NewStep("charge", 1, "done", output="1"))
            store.cancel(identity.job_id, reason="by hand")
            store.hold(identity)

        assert store.load_steps(identity.job_id) == []

    def test_an_attempt_may_end_in_the_transaction_that_held_it(self, store: JobStore) -> None:
        identity = claimed(store)

        with store.atomic():
            store.put_step(identity, NewStep("charge", 1, "done", output="1"))
            with store.atomic():
                store.hold(identity)
            assert settle(store, identity, states.DONE)

        after = everything(store, identity.job_id)
        assert after.job is not None
        assert after.job.state == states.DONE
        assert [step.name for step in after.steps] == ["charge"]

    def test_a_transaction_that_fails_stores_no_checkpoint(self, store: JobStore) -> None:
        identity = claimed(store)

        with pytest.raises(RuntimeError), store.atomic():
            store.put_step(identity, NewStep("charge", 1, "done", output="1"))
            raise RuntimeError

        assert store.load_steps(identity.job_id) == []
        assert settle(store, identity, states.DONE)


def _lapse_and_rescue(store: JobStore, clock: Clock, worker: str) -> None:
    clock.advance(seconds=61)
    rescued = store.rescue(worker, ["default"], limit=9, lease=LEASE, drop_exhausted=())
    assert len(rescued.claimed) + len(rescued.buried) == 1
