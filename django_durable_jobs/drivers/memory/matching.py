"""Which event ends which wait, by the rules that PostgreSQL's snapshots give.

Events have a place in one order. Where PostgreSQL remembers a snapshot, this store
remembers the last place at that moment, and those of the caller's own open block, which
count as later: ``"17"`` or ``"17:15,16"``.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django_durable_jobs.store.rows import Cursor, EventFilter, StepRow

from .records import EventRecord


def mark_of(last: int, own: Collection[int] = ()) -> str:
    """The mark of this moment.

    Args:
        last: Place of the newest event.
        own: Places of events that count as later.
    """
    return f"{last}:{','.join(map(str, sorted(own)))}" if own else str(last)


def ends(event: EventRecord, wait: StepRow, now: datetime, last: int) -> bool:
    """Whether *event* ends *wait*; *last* is the place of the newest event."""
    return (
        any(_fits(event, wanted, wait) for wanted in wait.filters)
        and event.row.job_id in (None, wait.job_id)
        and event.expires_at > now
        and _came_after(event, wait, last)
        and (wait.cursor is None or not _is_refused(event, wait.cursor, last))
    )


def to_millisecond(instant: datetime) -> datetime:
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def _fits(event: EventRecord, wanted: EventFilter, wait: StepRow) -> bool:
    key = event.row.correlation_key
    return event.row.name == wanted.event and (
        wanted.key in (None, key) or (key is None and event.row.job_id == wait.job_id)
    )


def _came_after(event: EventRecord, wait: StepRow, last: int) -> bool:
    if not _is_known(wait.mark, last):
        return event.row.published_at >= to_millisecond(wait.started_at)
    return _is_later(event, wait.mark or "")


def _is_refused(event: EventRecord, cursor: Cursor, last: int) -> bool:
    row = event.row
    if (row.published_at, row.id) > (cursor.at, cursor.id):
        return False
    if row.id == cursor.id or not _is_known(cursor.mark, last):
        return True
    return not _is_later(event, cursor.mark or "") or row.id in cursor.refused


def _is_known(mark: str | None, last: int) -> bool:
    """Whether there is a mark, and not one of a store that this one knows nothing of."""
    return mark is not None and int(mark.partition(":")[0]) <= last


def _is_later(event: EventRecord, mark: str) -> bool:
    place, _, own = mark.partition(":")
    return event.order > int(place) or str(event.order) in own.split(",")
