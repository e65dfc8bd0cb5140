"""What the memory driver's ``atomic()`` keeps, and what it says it cannot."""

from __future__ import annotations

from contextlib import suppress

import pytest

from django_durable_jobs import states
from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.store.rows import NewStep
from django_durable_jobs.testing.conformance.given import at_once, claimed, enqueue, settle, shown

CHARGE = NewStep("charge", 1, "done", output="1")
SHIP = NewStep("ship", 2, "done", output="2")


@pytest.fixture
def store():
    return MemoryStore()


def names(store, job_id):
    return [step.name for step in store.load_steps(job_id)]


def test_a_checkpoint_is_seen_by_others_only_after_the_block(store):
    identity = claimed(store)

    with store.atomic():
        store.put_step(identity, CHARGE)
        assert names(store, identity.job_id) == ["charge"]
        assert at_once(store, 1, lambda own, _: names(own, identity.job_id)) == [[]]

    assert at_once(store, 1, lambda own, _: names(own, identity.job_id)) == [["charge"]]


def test_a_block_inside_that_fails_takes_back_its_own_checkpoints_only(store):
    identity = claimed(store)

    with store.atomic():
        store.put_step(identity, CHARGE)
        with suppress(RuntimeError), store.atomic():
            store.put_step(identity, SHIP)
            raise RuntimeError

    assert names(store, identity.job_id) == ["charge"]


def test_a_claim_lost_before_the_end_of_the_block_stores_none_of_its_checkpoints(store):
    identity = claimed(store)

    def lose_the_claim():
        with store.atomic():
            store.put_step(identity, CHARGE)
            at_once(store, 1, lambda own, _: own.cancel(identity.job_id, reason="by hand"))

    with pytest.raises(LeaseLost):
        lose_the_claim()

    assert names(store, identity.job_id) == []


def test_an_act_waiting_for_a_commit_that_failed_never_runs(store):
    identity = claimed(store)
    acts = []

    with suppress(LeaseLost), store.atomic():
        store.hold(identity)
        store.on_commit(lambda: acts.append("ran"))
        store.cancel(identity.job_id, reason="by hand")

    assert acts == []


def test_a_step_put_twice_in_a_block_is_stored_once(store):
    identity = claimed(store)

    with store.atomic():
        first = store.put_step(identity, CHARGE)
        assert store.put_step(identity, NewStep("charge", 2, "done", output="2")) == first

    assert store.load_steps(identity.job_id) == [first]


def test_an_attempt_settled_in_the_block_that_held_it_ends(store):
    """The end of an atomic job: its settlement is the block's last write."""
    identity = claimed(store)

    with store.atomic():
        with store.atomic():
            store.put_step(identity, CHARGE)
            store.hold(identity)
        assert settle(store, identity, states.DONE)

    assert shown(store, identity.job_id).state == states.DONE
    assert names(store, identity.job_id) == ["charge"]


def test_a_job_enqueued_in_a_block_that_fails_stays(store):
    """Said in the driver's docstring: this store joins no transaction."""
    with suppress(RuntimeError), store.atomic():
        job_id = enqueue(store)
        raise RuntimeError

    assert shown(store, job_id).state == states.READY
    assert not store.features.transactional


def test_a_workers_store_is_the_same_store_and_survives_its_close(store):
    job_id = enqueue(store)
    worker = store.for_worker()

    worker.close()

    assert worker.show(job_id) is not None
    assert store.show(job_id) is not None
