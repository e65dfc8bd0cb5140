"""The value that a wait answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django_durable_jobs.store.rows import EventRow


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, as ``publish_event`` stored it.

    Attributes:
        payload: JSON value, None included: a wait that timed out answers None in place
            of an event, never an event with payload None.
        published_at: By the database's clock.
    """

    id: UUID
    name: str
    key: str | None
    payload: Any
    published_at: datetime


def event_text(row: EventRow) -> str:
    """An event as the JSON text that a step can store."""
    head = json.dumps(
        {
            "id": str(row.id),
            "name": row.name,
            "key": row.correlation_key,
            "published_at": row.published_at.isoformat(),
        }
    )
    # Put in as text: decoded and encoded again it would meet the bounds on depth and size
    # a second time, one level deeper.
    return f'{head[:-1]}, "payload": {row.payload}}}'


def event_from(text: str) -> Event:
    """The event that ``event_text`` wrote."""
    fields = json.loads(text)
    return Event(
        id=UUID(fields["id"]),
        name=fields["name"],
        key=fields["key"],
        payload=fields["payload"],
        published_at=datetime.fromisoformat(fields["published_at"]),
    )
