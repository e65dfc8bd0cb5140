"""Connections of the worker's own: broken, cut off, refused for now."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest
from django.db import connection

from django_durable_jobs.drivers.postgres import PooledExecutor, PostgresStore
from django_durable_jobs.drivers.postgres.executor import connect
from django_durable_jobs.drivers.postgres.listening import CHANNEL, PostgresListener
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store.rows import Settlement, Wake
from django_durable_jobs.testing.conformance import given
from tests.acceptance.conditions import until
from tests.integration.declared import REAL

pytestmark = REAL


class PooledStore(PostgresStore):
    """The store as a worker has it."""

    executor: PooledExecutor

    def __init__(self) -> None:
        super().__init__(PooledExecutor("default"))


@pytest.fixture
def store() -> Iterator[PooledStore]:
    store = PooledStore()
    yield store
    store.close()


@pytest.fixture
def listener() -> Iterator[PostgresListener]:
    listener = PostgresListener("default")
    yield listener
    listener.close()


def hang_up_on_all_others() -> None:
    """What a restart of the server does to connections that are kept."""
    others = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and application_name = 'durable-jobs'"
    )
    with connection.cursor() as cursor:

        def none_is_left() -> bool:
            cursor.execute(others)
            return bool(cursor.fetchone()[0] == 0)

        until(none_is_left, seconds=20)


def test_a_kept_connection_that_was_hung_up_on_costs_nobody_a_statement(store):
    """Else the first step of a job after a restart of the server would fail its attempt."""
    barrier = threading.Barrier(4)

    def use_one() -> None:
        with store.atomic():
            store.now()
            barrier.wait(20)

    threads = [threading.Thread(target=use_one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    hang_up_on_all_others()

    for _ in range(5):
        assert store.now()


def test_a_connection_that_breaks_in_a_transaction_says_that_the_store_is_away(store):
    def use_it() -> None:
        with store.atomic():
            store.now()
            hang_up_on_all_others()
            store.now()

    with pytest.raises(StoreUnavailable):
        use_it()
    assert store.now()


def test_a_commit_that_breaks_says_that_the_store_is_away(store):
    def use_it() -> None:
        with store.atomic():
            store.now()
            hang_up_on_all_others()

    with pytest.raises(StoreUnavailable):
        use_it()
    assert store.now()


def test_a_database_that_is_read_only_for_a_moment_is_asked_again(store):
    """The outcome of a job must not be called impossible to store for that."""
    identity = given.claimed(store)
    outcome = Settlement(identity, "done", result="1")
    with store.executor._connection() as kept:
        kept.execute("set default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable, match="cannot be used now"):
        store.settle([outcome])
    with store.executor._connection() as kept:
        kept.execute("set default_transaction_read_only = off")

    assert store.settle([outcome]) == [True]


def test_what_others_send_on_the_channel_is_passed_over(store, listener):
    with connect("default") as other:
        for text in ("", "nonsense", "soon mail", "proof 1234", "\u00e9 \u00e9", "nan mail"):
            other.execute("select pg_notify(%s, %s)", (CHANNEL, text))
    store.wake([Wake("mail")])

    assert listener.prove(10)
    assert Wake("mail") in listener.receive(0)


def test_a_session_that_was_ended_is_said_to_be_broken(listener):
    hang_up_on_all_others()
    with pytest.raises(StoreUnavailable):
        listener.receive(20)
    with pytest.raises(StoreUnavailable):
        listener.prove(5)


def test_a_half_open_session_fails_its_proof_in_time(listener):
    """The other side took the words and never answers: a firewall forgot the flow."""
    ours, silent = socket.socketpair()
    with ours, silent:
        os.dup2(silent.fileno(), listener._connection.fileno())
        with pytest.raises(StoreUnavailable):
            listener.prove(0.2)
