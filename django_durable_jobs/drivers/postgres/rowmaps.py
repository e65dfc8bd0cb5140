"""Between the port's values and the statements' columns and parameters."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any
from uuid import UUID

from django_durable_jobs.exceptions import StateUnknown
from django_durable_jobs.states import STATES
from django_durable_jobs.store.asked import steps_of
from django_durable_jobs.store.rows import (
    AttemptRow,
    BuriedJob,
    ChildRow,
    ClaimedJob,
    ClaimIdentity,
    Cursor,
    EventFilter,
    EventRow,
    JobRow,
    StepRow,
)

Row = tuple[Any, ...]


def claimed_job(row: Row, worker_id: str) -> ClaimedJob:
    """The first 15 columns of ``claim.sql`` and ``rescue.sql``, and the last."""
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
        code_version=row[13],
        generation=row[14],
        awaited_version=row[-1],
    )


def looked_at(job_ids: Collection[UUID]) -> dict[str, Any]:
    """Pairs of a job and one of its steps, or None for all, as a look for what ended takes them."""
    steps = steps_of(job_ids)
    pairs = [(job_id, name) for job_id in steps for name in steps[job_id] or (None,)]
    return {"ids": [job_id for job_id, _ in pairs], "steps": [name for _, name in pairs]}


def buried_job(row: Row) -> BuriedJob:
    """A row of ``rescue.sql`` that ended there."""
    return BuriedJob(
        id=row[0],
        name=row[2],
        queue=row[3],
        state=row[15],
        input=row[4],
        attempt=row[5],
        max_attempts=row[6],
        tenant_id=row[7],
        error=row[16],
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
    *plain, alternatives, at, event_id, mark, refused, family_id, children, at_once, job_id = row
    cursor = None
    if at is not None:
        behind = frozenset(UUID(each) for each in json.loads(refused or "[]"))
        cursor = Cursor(at, event_id, mark, behind)
    return replace(
        StepRow(*plain),
        alternatives=tuple(EventFilter(*each) for each in json.loads(alternatives or "[]")),
        cursor=cursor,
        family_id=family_id,
        children=children,
        children_at_once=at_once,
        job_id=job_id,
    )


def event_row(row: Row) -> EventRow:
    """A row of ``find_event.sql``."""
    return EventRow(*row)


def child_row(row: Row) -> ChildRow:
    """A row of ``children.sql``."""
    return ChildRow(*row)


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


def cursor_parameters(cursor: Cursor | None) -> dict[str, Any]:
    """The parameters of how far a wait has refused; empty without a cursor."""
    if cursor is None:
        return dict.fromkeys(("cursor_at", "cursor_id", "cursor_mark", "refused"))
    return {
        "cursor_at": cursor.at,
        "cursor_id": cursor.id,
        "cursor_mark": cursor.mark,
        "refused": json.dumps(sorted(map(str, cursor.refused))) if cursor.refused else None,
    }


def filters_text(filters: Collection[EventFilter]) -> str | None:
    """Filters as the JSON that ``step_row`` reads; None for none."""
    return json.dumps([[each.event, each.key] for each in filters]) if filters else None


def identities(claims: Collection[ClaimIdentity]) -> dict[str, Any]:
    """The parameters of a fence on many rows."""
    return {
        "ids": [identity.job_id for identity in claims],
        "claims": [identity.claim for identity in claims],
        "claim_workers": [identity.worker_id for identity in claims],
    }
