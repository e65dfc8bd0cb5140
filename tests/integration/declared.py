"""What tests of declaring and enqueueing share: a clean registry, and ears for wakes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_durable_jobs import clock
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.models import Job
from django_durable_jobs.store import Listener, get_store, reset_store

# Real commits, flushed of few tables.
APPS = ["django_durable_jobs", "django.contrib.auth", "django.contrib.contenttypes"]
REAL = pytest.mark.django_db(transaction=True, available_apps=APPS)
REAL_ON_BOTH = pytest.mark.django_db(
    transaction=True, available_apps=APPS, databases=["default", "other"]
)


@pytest.fixture(autouse=True)
def _clean_process() -> Iterator[None]:
    """Forget the jobs a test declared, its store and its moved clock."""
    with scratch_registry():
        yield
    reset_store()
    clock.reset()


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Another session that hears wakes."""
    listener = get_store().listen()
    assert listener is not None
    yield listener
    listener.close()


def heard(listener: Listener) -> list[str]:
    """The queues woken until now, in order, each as often as it was."""
    # Notifications come in the order of their commits, so its own says that all are here.
    assert listener.prove(timeout=10)
    return [wake.queue for wake in listener.receive(0)]


def stored(alias: str = "default") -> list[str]:
    """The names of all jobs there are."""
    return list(Job.objects.using(alias).order_by("id").values_list("name", flat=True))
