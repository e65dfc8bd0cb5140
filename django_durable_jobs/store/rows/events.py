"""Events, and what a wait has seen of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class EventFilter:
    """An event that a wait takes: of this name, and of this key unless it is None."""

    event: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a wait has refused what it found. Compared, never looked up.

    Attributes:
        at, id: The pair of the last refused event; what is not after it is refused.
        mark: The snapshot of the search that found it: an event behind the pair that was
            not visible there is still owed, unless it is one of *refused*.
        refused: Ids of events refused behind the pair.
    """

    at: datetime
    id: UUID
    mark: str | None
    refused: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True)
class EventRow:
    """A published event.

    Attributes:
        mark: The snapshot of the search that found it; None outside a search.
    """

    id: UUID
    name: str
    correlation_key: str | None
    payload: str
    published_at: datetime
    job_id: UUID | None = None
    mark: str | None = None
