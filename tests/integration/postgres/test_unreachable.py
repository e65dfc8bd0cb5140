"""A server that is down is told in one way, whatever was asked of it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
from django.db import connections

from django_durable_jobs.drivers.postgres import DjangoExecutor, PostgresStore
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.testing.conformance.given import enqueue, publish

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"])

ASKED: dict[str, Callable[[PostgresStore], object]] = {
    "enqueue": enqueue,
    "enqueue under a key": lambda store: enqueue(store, idempotency_key="k"),
    "publish": publish,
    "requeue": lambda store: store.requeue(new_id()),
    "show": lambda store: store.show(new_id()),
}


@pytest.fixture
def cut_off(monkeypatch) -> Iterator[Executor]:
    """A thread, whose connections are its own, while nobody runs the server."""
    with socket.socket() as unused, ThreadPoolExecutor(1) as thread:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setitem(connections.settings["default"], "HOST", "127.0.0.1")
        monkeypatch.setitem(connections.settings["default"], "PORT", str(unused.getsockname()[1]))
        yield thread


@pytest.mark.parametrize("asked", ASKED)
def test_whatever_is_asked_of_a_server_that_is_down_says_that_the_store_is_unavailable(
    cut_off, asked
):
    answer = cut_off.submit(ASKED[asked], PostgresStore(DjangoExecutor("default")))

    with pytest.raises(StoreUnavailable, match="'default' cannot be reached"):
        answer.result()
