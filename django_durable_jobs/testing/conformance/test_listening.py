from __future__ import annotations

from contextlib import closing

import pytest

from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store import JobStore, Listener
from django_durable_jobs.store.rows import Wake

from .given import parked, publish


class TestListening:
    def test_a_wake_is_heard_by_every_listener(self, store: JobStore) -> None:
        if not store.features.listens:
            assert store.listen() is None
            return
        with closing(_listener(store)) as first, closing(_listener(store)) as second:
            store.wake([Wake("default"), Wake("mail", 5.0)])

            assert _hear(first, 2) == _hear(second, 2) == {("default", 0.0), ("mail", 5.0)}

    def test_a_listener_that_hears_nothing_answers_nothing(self, store: JobStore) -> None:
        if not store.features.listens:
            pytest.skip("This driver has no listener.")
        with closing(_listener(store)) as listener:
            assert listener.receive(0.01) == []

    def test_a_listener_proves_itself_and_keeps_what_it_heard_meanwhile(
        self, store: JobStore
    ) -> None:
        if not store.features.listens:
            pytest.skip("This driver has no listener.")
        with closing(_listener(store)) as listener:
            store.wake([Wake("mail")])

            assert listener.prove(10)
            assert _hear(listener, 1) == {("mail", 0.0)}

    def test_the_wakes_of_woken_runs_and_of_a_resumed_queue_are_sent(self, store: JobStore) -> None:
        if not store.features.listens:
            pytest.skip("This driver has no listener.")
        parked(store, queue="mail")
        store.pause_queue("slow", by="ann", reason="")
        with closing(_listener(store)) as listener:
            publish(store)
            store.resume_queue("slow")

            assert _hear(listener, 2) >= {("mail", 0.0), ("slow", 0.0)}

    def test_a_closed_listener_does_not_answer_as_if_it_heard(self, store: JobStore) -> None:
        if not store.features.listens:
            pytest.skip("This driver has no listener.")
        listener = _listener(store)
        listener.close()

        with pytest.raises(StoreUnavailable):
            listener.receive(0.01)


def _listener(store: JobStore) -> Listener:
    listener = store.listen()
    assert listener is not None
    return listener


def _hear(listener: Listener, queues: int) -> set[tuple[str, float]]:
    """What the listener hears until it knows of so many queues; an empty answer ends it."""
    heard: set[tuple[str, float]] = set()
    while len({queue for queue, _ in heard}) < queues:
        wakes = listener.receive(10)
        if not wakes:
            break
        heard |= {(wake.queue, wake.due_in) for wake in wakes}
    return heard
