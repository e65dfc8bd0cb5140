"""The PostgreSQL driver keeps every promise of the port."""

import pytest

from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.testing.conformance import *  # noqa: F403 - how a driver runs the suite

# Real commits, since workers' connections must see them; only our own tables are emptied.
pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"])


@pytest.fixture
def store():
    store = PostgresStore()
    yield store
    store.close()
