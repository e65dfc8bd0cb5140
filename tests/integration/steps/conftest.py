from __future__ import annotations

import pytest

from django_durable_jobs import clock as moved_clock
from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.store import install_store, reset_store
from django_durable_jobs.testing.conformance.fixtures import clock as clock
from tests.integration.steps.bench import REAL, Bench
from tests.integration.steps.calling import failing as failing
from tests.integration.steps.calling import ship as ship


@pytest.fixture(params=["memory", pytest.param("postgres", marks=REAL)])
def bench(request):
    """A bench on each driver."""
    yield from bench_on(MemoryStore() if request.param == "memory" else PostgresStore())


@pytest.fixture
def real_bench():
    """A bench on PostgreSQL; the test itself is marked ``REAL``."""
    yield from bench_on(PostgresStore())


def bench_on(store):
    install_store(store)
    bench = Bench(store)
    yield bench
    bench.close()
    reset_store()
    moved_clock.reset()


@pytest.fixture
def declaring():
    """Forget the jobs that the test declares."""
    with scratch_registry():
        yield
