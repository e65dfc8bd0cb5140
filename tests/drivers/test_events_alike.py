"""What a wait takes is the same in every driver, event by event."""

from __future__ import annotations

from contextlib import closing

import pytest

from django_durable_jobs import clock as moved_clock
from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.testing.conformance.test_event_looks import told

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"])


@pytest.mark.parametrize("seed", range(100, 112))
def test_the_drivers_find_the_same_events(clock, seed):
    with closing(PostgresStore()) as postgres:
        on_postgres = told(postgres, clock, seed).taken(postgres)
    moved_clock.reset()
    in_memory = MemoryStore()

    assert told(in_memory, clock, seed).taken(in_memory) == on_postgres
