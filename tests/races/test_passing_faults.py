"""What a server says under load or at a change-over speaks against no outcome of a job."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store.rows import Settlement
from django_durable_jobs.testing.conformance.given import (
    claim,
    claimed,
    enqueue,
    put_wait,
    settle,
    shown,
)
from django_durable_jobs.worker.settling import Outcome, Settler

from .stepping import PATIENCE, REAL, waits_for_a_lock

pytestmark = REAL


def set_for_worker(worker, setting: str) -> None:
    """As the OPTIONS of a project's database may: for every statement of the worker."""
    with worker.executor._connection() as connection:
        connection.execute(f"set {setting}")


@pytest.mark.parametrize("timeout", ["statement_timeout", "lock_timeout"])
def test_a_settle_that_ran_into_a_timeout_says_that_the_store_is_unavailable(
    worker, rival, timeout
):
    identity = claimed(worker)
    set_for_worker(worker, f"{timeout} = '50ms'")

    with rival.atomic():
        rival.record_progress(identity, "1")
        with pytest.raises(StoreUnavailable, match="cannot be used now"):
            settle(worker, identity, states.DONE, result="1")

    assert settle(worker, identity, states.DONE, result="1")


@pytest.mark.parametrize("timeout", ["statement_timeout", "lock_timeout"])
def test_a_job_that_was_done_is_not_dead_lettered_because_its_settle_ran_into_a_timeout(
    worker, rival, timeout
):
    enqueue(worker)
    (job,) = claim(worker)
    set_for_worker(worker, f"{timeout} = '50ms'")
    answered = threading.Event()
    answers: list[Settlement | None] = []

    def answer(landed: Settlement | None) -> None:
        answers.append(landed)
        answered.set()

    settler = Settler(worker, lambda *_: None)
    settler.start()
    done = Settlement(job.identity, states.DONE, result="1")
    with rival.atomic():
        rival.record_progress(job.identity, "1")
        settler.hand_in(Outcome(job, done, answer=answer))
        assert not answered.wait(0.5)
    assert settler.finish(PATIENCE)

    assert answers == [done]
    assert shown(worker, job.identity.job_id).state == states.DONE


def test_a_write_that_met_another_under_repeatable_read_is_made_again(worker, rival):
    """Where the role or the database isolates so by default, a renewal is such another."""
    identity = claimed(worker)
    set_for_worker(worker, "default_transaction_isolation = 'repeatable read'")

    with ThreadPoolExecutor(1) as threads:
        with rival.atomic():
            rival.record_progress(identity, "1")
            write = threads.submit(put_wait, worker, identity)
            assert waits_for_a_lock(write)
        assert write.result(PATIENCE).status == "waiting"


def test_a_connection_to_a_server_that_became_a_standby_is_not_used_again(worker):
    identity = claimed(worker)
    set_for_worker(worker, "default_transaction_read_only = on")

    with pytest.raises(StoreUnavailable):
        settle(worker, identity, states.DONE, result="1")

    assert settle(worker, identity, states.DONE, result="1")
