"""The memory driver keeps every promise of the port."""

import pytest

from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.testing.conformance import *  # noqa: F403 - how a driver runs the suite


@pytest.fixture
def store():
    return MemoryStore()
