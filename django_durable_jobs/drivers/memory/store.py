"""The memory driver as one class."""

from __future__ import annotations

from django_durable_jobs.store.port import Features, JobStore

from .claim import Claiming
from .insert import Inserting
from .operate import Operating
from .settle import Settling


class MemoryStore(Inserting, Claiming, Settling, Operating):
    """A ``JobStore`` in this process's memory, safe to share among threads."""

    features = Features(shared=False, transactional=False, listens=True)

    def for_worker(self) -> JobStore:
        """This store itself: there are no connections to keep apart."""
        return self

    def close(self) -> None:
        """Nothing to give back; the jobs stay."""
