"""Read jobs page by page, newest first."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django_durable_jobs.exceptions import JobNotFound, PageInvalid
from django_durable_jobs.store import get_store
from django_durable_jobs.store.asked import MAX_JOB_PAGE
from django_durable_jobs.store.rows import AttemptRow, JobFilter, JobRow

DEFAULT_JOB_PAGE: Final = 100

_UUID_VERSION: Final = 7


def list_jobs(
    where: JobFilter | None = None,
    *,
    limit: int = DEFAULT_JOB_PAGE,
    after: str | None = None,
    before: str | None = None,
) -> list[JobRow]:
    """Return one page of the jobs that match *where*, newest first.

    Fewer rows than *limit* mean that there are no more. Ids are ordered by time, so
    jobs of one instant are neither lost nor shown twice between two pages.

    Args:
        limit: Rows wanted, from 1 to ``MAX_JOB_PAGE``.
        after: Cursor of the last row shown; answers the older ones.
        before: Cursor of the first row shown; answers the newer ones closest to it.

    Raises:
        PageInvalid: A limit out of range, both cursors, or one that ``job_cursor`` did
            not make.
    """
    if not 1 <= limit <= MAX_JOB_PAGE:
        raise PageInvalid(
            f"A page of jobs cannot have {limit} rows.",
            f"Ask for 1 to {MAX_JOB_PAGE}, and page on with a cursor.",
        )
    if after is not None and before is not None:
        raise PageInvalid(
            "A page of jobs is either after one cursor or before one, not both.",
            "Pass after= for older jobs or before= for newer ones.",
        )
    return get_store().list_jobs(
        JobFilter() if where is None else where,
        limit=limit,
        after=None if after is None else _parse(after, "after"),
        before=None if before is None else _parse(before, "before"),
    )


def job_cursor(row: JobRow) -> str:
    """Return the cursor of *row*, for ``after`` and ``before``."""
    return str(row.id)


def show(job_id: UUID) -> JobRow:
    """Return the whole job.

    Raises:
        JobNotFound: No job has this id.
    """
    row = get_store().show(job_id)
    if row is None:
        raise JobNotFound(job_id)
    return row


def attempts(job_id: UUID) -> list[AttemptRow]:
    """Return the tries that did not end ``done``, or whose steps were taken back; newest first."""
    return get_store().attempts(job_id)


def version_waits() -> dict[tuple[str, str], int]:
    """Return how many runs wait for a worker with that version, by job name and version."""
    return get_store().version_waits()


def _parse(cursor: str, which: str) -> UUID:
    try:
        position = UUID(cursor)
    except (TypeError, ValueError, AttributeError):
        position = None
    if position is None or position.version != _UUID_VERSION:
        # The text is not echoed: it came from an address anybody may write.
        raise PageInvalid(
            f"The cursor '{which}' was not made by this list.",
            "Take it from a row of the page before.",
        )
    return position
