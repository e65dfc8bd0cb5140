"""The same verb on several jobs, each judged by itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django_durable_jobs.exceptions import (
    BulkTooLarge,
    DurableJobsError,
    EnqueueRefused,
    OperationRefused,
    StateUnknown,
)

from .catalogue import Operation

MAX_BULK_ROWS: Final = 1_000
"""Jobs a single call may name."""

REFUSALS: Final = (OperationRefused, EnqueueRefused, StateUnknown)
"""What a verb raises when it does not apply.

A requeue can meet a live job with its key, and any verb a state that a newer version wrote.
"""


@dataclass(frozen=True, slots=True)
class BulkOutcome:
    """What became of each named job.

    Attributes:
        done: Jobs that the verb moved.
        skipped: Jobs it does not apply to (any more), each with the refusal.
    """

    done: tuple[UUID, ...]
    skipped: tuple[tuple[UUID, DurableJobsError], ...]


def apply_to_each(
    operation: Operation, job_ids: Collection[UUID], *, reason: str = ""
) -> BulkOutcome:
    """Apply *operation* to each of *job_ids*; a refused job does not stop the others.

    The jobs are taken in the order of their ids, so that two such calls inside
    transactions lock their rows in the same order. An id named twice counts once.

    Raises:
        BulkTooLarge: More than ``MAX_BULK_ROWS`` ids; nothing was changed.
    """
    wanted = sorted(set(job_ids))
    if len(wanted) > MAX_BULK_ROWS:
        raise BulkTooLarge(len(wanted), MAX_BULK_ROWS)
    done: list[UUID] = []
    skipped: list[tuple[UUID, DurableJobsError]] = []
    for job_id in wanted:
        try:
            operation.act(job_id, reason)
        except REFUSALS as refusal:
            skipped.append((job_id, refusal))
        else:
            done.append(job_id)
    return BulkOutcome(tuple(done), tuple(skipped))
