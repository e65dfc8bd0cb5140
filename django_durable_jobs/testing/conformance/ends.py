"""The ways in which a child ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimedJob

from .given import BOOM, LEASE, Clock, Family, claim, settle, shown

End = Callable[[JobStore, Clock, UUID], object]


def settled(state: str) -> End:
    def end(store: JobStore, clock: Clock, child: UUID) -> None:
        (job,) = [job for job in start(store) if job.identity.job_id == child]
        failure = None if state == states.DONE else BOOM
        assert settle(store, job.identity, state, failure=failure)

    return end


def bury(store: JobStore, clock: Clock, child: UUID) -> None:
    start(store)
    clock.advance(seconds=61)
    rescued = store.rescue("w", ["children"], limit=1, lease=LEASE, drop_exhausted=())
    assert [job.id for job in rescued.buried] == [child]


ENDS: Final[dict[str, End]] = {
    "done": settled(states.DONE),
    "dead": settled(states.DEAD),
    "failed": settled(states.FAILED),
    "cancelled": lambda store, _, child: store.cancel(child, reason="by hand"),
    "cancelled while running": lambda store, _, child: (
        start(store) and store.cancel(child, reason="by hand")
    ),
    "removed": lambda store, _, child: store.remove(child),
    "buried": bury,
}
every_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


def start(store: JobStore) -> list[ClaimedJob]:
    return claim(store, 100, queue="children")


def is_due(store: JobStore, job_id: UUID) -> bool:
    return shown(store, job_id).is_armed


def due(store: JobStore, made: Family) -> list[int]:
    """The places of those children that could be claimed now."""
    rows = [store.show(child) for child in made.ids]
    return [place for place, row in enumerate(rows) if row is not None and row.is_armed]
