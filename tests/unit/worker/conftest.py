from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_durable_jobs import clock as moved_clock
from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.store import install_store, reset_store


@pytest.fixture(autouse=True)
def store() -> Iterator[MemoryStore]:
    """A store of its own for each test, and a registry without jobs."""
    store = MemoryStore()
    install_store(store)
    with scratch_registry():
        yield store
    reset_store()
    moved_clock.reset()
