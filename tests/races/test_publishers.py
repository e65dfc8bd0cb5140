"""Publishers meet one another at the rows of the runs that wait for their events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pytest
from django.db import connection, transaction

from django_durable_jobs import states
from django_durable_jobs.drivers.postgres import PostgresStore, events
from django_durable_jobs.store.rows import Wake
from django_durable_jobs.testing.conformance.given import (
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

from .stepping import PATIENCE, REAL, waits_for_a_lock

pytestmark = REAL


class Undone(Exception):
    pass


@contextmanager
def rolled_back(store: PostgresStore) -> Iterator[None]:
    """A transaction that ends, and leaves nothing."""
    with suppress(Undone), store.atomic():
        yield
        raise Undone


def test_a_publisher_does_not_wait_for_another_whose_transaction_is_open(worker, store, rival):
    job_id, _ = parked(worker)

    with rival.atomic():
        publish(rival)
        with transaction.atomic():
            # On one thread: waiting would be for ever.
            publish(store)
            transaction.set_rollback(True)

    assert shown(worker, job_id).is_armed


def test_a_run_is_woken_by_the_second_publisher_when_the_first_rolls_back(worker, rival):
    job_id, _ = parked(worker)
    with ThreadPoolExecutor(1) as threads:
        with rolled_back(rival):
            publish(rival)
            second = threads.submit(publish, worker)
            assert waits_for_a_lock(second)
        event_id = second.result(PATIENCE)

    identity = claim_id(worker, job_id)
    assert found(worker, worker.load_steps(job_id)[0]) == event_id
    assert settle(worker, identity, states.DONE)


def test_workers_hear_of_the_woken_runs_while_the_publisher_waits_for_another(worker, rival):
    locked, _ = parked(worker, correlation_key="7")
    free, _ = parked(worker)
    with closing(worker.listen()) as listener, ThreadPoolExecutor(1) as threads:
        with rival.atomic():
            publish(rival, job_id=locked)
            publisher = threads.submit(publish, worker, key="7")
            assert waits_for_a_lock(publisher)

            assert listener.receive(PATIENCE) == [Wake("default")]
            assert [job.identity.job_id for job in claim(worker)] == [free]
        publisher.result(PATIENCE)

    assert shown(worker, locked).is_armed


@pytest.mark.parametrize("publisher", ["store", "worker"])
def test_a_publisher_does_not_wait_for_ever_for_a_run_that_is_locked(
    worker, rival, monkeypatch, caplog, request, publisher
):
    """The one that has it may be a transaction of hours, and the publisher a request."""
    monkeypatch.setattr(events, "PATIENCE", "50ms")
    publisher = request.getfixturevalue(publisher)
    waiting = [parked(worker, correlation_key=key)[0] for key in ("7", None)]
    parks_late = claimed(worker)
    put_wait(worker, parks_late)

    def park_late():
        assert settle(worker, parks_late, states.SUSPENDED, give_back=True)

    with rival.atomic():
        publish(rival, job_id=waiting[0])
        with publisher.atomic():
            # Runs before the look.
            publisher.on_commit(park_late)
            publish(publisher, key="7")
        due = [*waiting, parks_late.job_id]
        assert [shown(worker, job_id).is_armed for job_id in due] == [False, True, True]

    assert "jobs.event.locked" in caplog.text
    assert shown(worker, waiting[0]).is_armed
    with connection.cursor() as cursor:
        cursor.execute("show lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_two_that_publish_the_same_events_in_turns_do_not_deadlock(worker, store, rival):
    waiting = [parked(worker, event=event)[0] for event in ("paid", "packed")]

    with rival.atomic():
        publish(rival, "paid")
        with transaction.atomic():
            publish(store, "packed")
            publish(store, "paid")
            # The other way round; on one thread it would hang here and not only deadlock.
            publish(rival, "packed")
            transaction.set_rollback(True)

    assert [shown(worker, job_id).is_armed for job_id in waiting] == [True, True]


def test_a_run_that_parks_while_its_publisher_is_open_is_woken_by_the_commit(worker, rival):
    identity = claimed(worker)
    wait = put_wait(worker, identity)
    with rival.atomic():
        publish(rival)
        assert found(worker, wait) is None
        assert settle(worker, identity, states.SUSPENDED, give_back=True, waits=True)
        assert not shown(worker, identity.job_id).is_armed

    assert shown(worker, identity.job_id).is_armed
    assert found(worker, wait) is not None


def test_a_worker_that_parks_a_run_does_not_wait_for_a_publisher_that_wakes_it(make, rival):
    """Behind the run that parks, the outcomes of all others would wait."""

    class Parks(PostgresStore):
        def wake_waiters(self, job_ids):
            # Between the park and the look after it.
            publish(rival)
            return super().wake_waiters(job_ids)

    worker = make(Parks)
    identity = claimed(worker)
    wait = put_wait(worker, identity)
    with rival.atomic():
        # Found by the look; seen by nobody who could have woken the run.
        publish(worker)
        # On one thread: waiting would be for ever.
        assert settle(worker, identity, states.SUSPENDED, give_back=True, waits=True)
        assert not shown(worker, identity.job_id).is_armed

    assert shown(worker, identity.job_id).is_armed
    assert found(worker, wait) is not None


def test_a_run_that_was_locked_in_passing_as_it_parked_is_woken_all_the_same(
    worker, rival, monkeypatch
):
    """Such as by a renewal that still saw it running; it looks for nobody."""
    identity = claimed(worker)
    put_wait(worker, identity)
    publish(worker)
    fetch = worker.executor.fetch
    passing = ExitStack()

    def let_go_behind_the_first_look(name: str, parameters: Mapping[str, Any]) -> list[Any]:
        rows: list[Any] = fetch(name, parameters)
        if name == "wake_waiters":
            passing.close()
        if name == "settle":
            passing.enter_context(rolled_back(rival))
            assert rival.cancel(identity.job_id, reason="") == states.SUSPENDED
        return rows

    monkeypatch.setattr(worker.executor, "fetch", let_go_behind_the_first_look)
    with passing:
        assert settle(worker, identity, states.SUSPENDED, give_back=True, waits=True)

    assert shown(worker, identity.job_id).is_armed


def test_an_event_that_is_committed_by_hand_wakes_its_waiters(worker, store):
    job_id, _ = parked(worker)
    transaction.set_autocommit(False)
    try:
        publish(store)
        assert not shown(worker, job_id).is_armed
        transaction.commit()
        assert shown(worker, job_id).is_armed
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


def test_a_wake_that_is_asked_for_before_a_commit_by_hand_is_sent_behind_it(store):
    sent: list[str] = []
    transaction.set_autocommit(False)
    try:
        store.on_commit(lambda: sent.append("rolled back"))
        transaction.rollback()
        store.on_commit(lambda: sent.append("committed"))
        transaction.commit()
        assert sent == []
    finally:
        transaction.set_autocommit(True)

    assert sent == ["committed"]
