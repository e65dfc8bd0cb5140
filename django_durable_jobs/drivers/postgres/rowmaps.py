"""Between the port's values and the statements' columns and parameters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django_durable_jobs.exceptions import StateUnknown
from django_durable_jobs.states import STATES
from django_durable_jobs.store.rows import (
    AttemptRow,
    BuriedJob,
    ClaimedJob,
    ClaimIdentity,
    EventRow,
    JobRow,
    StepRow,
)

Row = tuple[Any, ...]


def claimed_job(row: Row, worker_id: str) -> ClaimedJob:
    """The first 13 columns of ``claim.sql`` and ``rescue.sql``."""
    return ClaimedJob(
        identity=ClaimIdentity(row[0], worker_id, row[1]),
        name=row[2],
        queue=row[3],
        input=row[4],
        attempt=row[5],
        max_attempts=row[6],
        tenant_id=row[7],
        enqueued_by=row[8],
        trace_parent=row[9],
        created_at=row[10],
        claimed_at=row[11],
        unknown_since=row[12],
    )


def buried_job(row: Row) -> BuriedJob:
    """A row of ``rescue.sql`` that ended there."""
    return BuriedJob(
        id=row[0],
        name=row[2],
        queue=row[3],
        state=row[13],
        input=row[4],
        attempt=row[5],
        max_attempts=row[6],
        tenant_id=row[7],
        error=row[14],
    )


def job_row(row: Row) -> JobRow:
    """A row of ``show.sql`` and its kin.

    Raises:
        StateUnknown: The stored state is none that this version knows.
    """
    if row[3] not in STATES:
        raise StateUnknown(row[0], row[3])
    return JobRow(*row)


def step_row(row: Row) -> StepRow:
    """A row of ``load_steps.sql`` and ``put_step.sql``."""
    return StepRow(*row)


def event_row(row: Row) -> EventRow:
    """A row of ``find_event.sql``."""
    return EventRow(*row)


def attempt_row(row: Row) -> AttemptRow:
    """A row of ``attempts.sql``."""
    return AttemptRow(*row)


def identity_parameters(identity: ClaimIdentity) -> dict[str, Any]:
    """The parameters of a fence on one row."""
    return {
        "job_id": identity.job_id,
        "claim": identity.claim,
        "worker_id": identity.worker_id,
    }


def identities(claims: Collection[ClaimIdentity]) -> dict[str, Any]:
    """The parameters of a fence on many rows."""
    return {
        "ids": [identity.job_id for identity in claims],
        "claims": [identity.claim for identity in claims],
        "claim_workers": [identity.worker_id for identity in claims],
    }
