"""How far a wait has refused what it found.

Events are taken in the order of the pair (published_at, id). A refused event leaves a
cursor that is that pair: it is compared and never looked up, so it excludes the same
events when the row it came from is long purged.

A pair alone would lose events. One that was published before the refused event and
committed after the search that found it stands in front of the pair, and was never seen.
So the cursor carries the snapshot of that search too: what was not visible there is owed
yet. Refusing such an event cannot move the cursor, which only ever advances, so that event
is excluded by its id.
"""

from __future__ import annotations

from dataclasses import replace

from django_durable_jobs.store.rows import Cursor, EventRow


def refuse(cursor: Cursor | None, event: EventRow) -> Cursor:
    """The cursor of a wait after it refused *event*, which it found under *cursor*."""
    if cursor is None or (event.published_at, event.id) > (cursor.at, cursor.id):
        # The search that found it saw every event refused by its id before: they are in
        # front of the new pair, and visible in the new snapshot.
        return Cursor(at=event.published_at, id=event.id, mark=event.mark)
    return replace(cursor, refused=cursor.refused | {event.id})
