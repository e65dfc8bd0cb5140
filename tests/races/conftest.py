from __future__ import annotations

from contextlib import ExitStack, closing

import pytest

from django_durable_jobs.drivers.postgres import PooledExecutor, PostgresStore
from django_durable_jobs.testing.conformance import clock

__all__ = ["clock"]


@pytest.fixture
def store():
    """On Django's connection of the test's thread, as a request has it."""
    with closing(PostgresStore()) as store:
        yield store


@pytest.fixture
def worker(store):
    """On a worker's own connections."""
    with closing(store.for_worker()) as worker:
        yield worker


@pytest.fixture
def rival(store):
    """On connections of somebody else's."""
    with closing(store.for_worker()) as rival:
        yield rival


@pytest.fixture
def make():
    """Makes a store of the given class on connections of its own."""
    with ExitStack() as stack:
        yield lambda kind: stack.enter_context(closing(kind(PooledExecutor("default"))))
