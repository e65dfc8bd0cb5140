"""What every driver refuses alike, before it looks at a row.

Shared so that no two drivers can come to differ; the constants are what they write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from django_durable_jobs.exceptions import ClaimQueuesEmpty, PageInvalid
from django_durable_jobs.policies.bounds import finite_count
from django_durable_jobs.states import MOVES, RUNNING

from .rows import QueueDemand, Settlement

MAX_JOB_PAGE: Final = 200

LEASE_LAPSED: Final = "The lease lapsed: the worker was killed or cut off."
"""Message of an attempt that was taken over."""

WORKERS_LOST: Final = "attempts exhausted by lost workers"
"""Stop reason of a buried job."""

_ENDS: Final = MOVES[RUNNING, "settle"]


def wanted_of(demands: Sequence[QueueDemand], limit: int | None) -> tuple[dict[str, int], int]:
    """A claim's count for each queue, and the most over all.

    Raises:
        ClaimQueuesEmpty: *demands* is empty.
        NumberInvalid: A count or the limit is not a whole number of at least 0.
    """
    if not demands:
        raise ClaimQueuesEmpty
    wanted = {
        demand.queue: finite_count(demand.count, minimum=0, subject="A claim's count")
        for demand in demands
    }
    most = sum(wanted.values())
    if limit is not None:
        most = min(most, finite_count(limit, minimum=0, subject="A claim's limit"))
    return wanted, most


def page_limit(limit: int, *, after: UUID | None, before: UUID | None) -> int:
    """The rows of a page.

    Raises:
        PageInvalid: More than ``MAX_JOB_PAGE``, or both cursors.
        NumberInvalid: Not a whole number of at least 0.
    """
    rows = finite_count(limit, minimum=0, subject="A page's limit")
    if rows > MAX_JOB_PAGE:
        raise PageInvalid(
            f"A page of {rows} jobs was asked for; the most is {MAX_JOB_PAGE}.",
            "Ask for fewer and page on with a cursor.",
        )
    if after is not None and before is not None:
        raise PageInvalid("Both cursors were given, after and before.", "Give one of them.")
    return rows


def check_ends(settlements: Sequence[Settlement]) -> None:
    """Refuse a state in which no attempt ends.

    Raises:
        ValueError: One of *settlements* names such a state; nothing was settled.
    """
    for settlement in settlements:
        if settlement.state not in _ENDS:
            raise ValueError(f"No attempt ends '{settlement.state}': settle to {', '.join(_ENDS)}.")


def steps_of(job_ids: Collection[UUID]) -> Mapping[UUID, Collection[str]]:
    """The steps to look at of each job, empty for all of its open ones."""
    return job_ids if isinstance(job_ids, Mapping) else dict.fromkeys(job_ids, ())
