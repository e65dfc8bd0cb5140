"""The memory driver looks and writes under one lock: no claim is taken in between."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.store import JobStore
from django_durable_jobs.testing.conformance.given import LEASE, claimed, everything
from django_durable_jobs.testing.conformance.test_fences import WRITES


class WatchedLock:
    """The store's lock, which tells when another thread comes to wait for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_awaited = threading.Event()

    def __enter__(self) -> None:
        if not self.lock.acquire(blocking=False):
            self.is_awaited.set()
            self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


@pytest.fixture
def store():
    store: Any = MemoryStore()
    store._lock = WatchedLock()
    return store


def meet(store: Any, write: str) -> tuple[bool, bool]:
    """Let a rival take the job while *write* waits; whether it said it landed, and did."""
    identity = claimed(store)
    with ThreadPoolExecutor(1) as threads:
        with store._lock:
            store.lapse([identity])
            rescued = store.rescue("worker-2", ["default"], limit=1, lease=LEASE, drop_exhausted=())
            assert len(rescued.claimed) == 1
            left = everything(store, identity.job_id)
            attempt = threads.submit(WRITES[write], store, identity)
            assert store._lock.is_awaited.wait(20), "The write did not look under the lock."
        try:
            said = attempt.result(20)
        except LeaseLost:
            said = False
    return said, everything(store, identity.job_id) != left


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_waited_for_the_claim_that_replaced_it_does_not_land(
    store: JobStore, write: str
) -> None:
    assert meet(store, write) == (False, False)


@pytest.mark.parametrize("write", WRITES)
def test_the_same_write_without_the_fence_lands(store: Any, write: str, monkeypatch) -> None:
    """Or the test above could not fail."""
    monkeypatch.setattr(store, "_held", lambda claim: store._live.get(claim.job_id))

    said, has_landed = meet(store, write)

    assert said
    assert has_landed or write == "hold"
