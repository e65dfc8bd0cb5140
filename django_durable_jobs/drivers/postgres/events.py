"""Events, and the wakes of the runs that wait for them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Final
from uuid import UUID

from django_durable_jobs.clock import shift
from django_durable_jobs.store.rows import EventRow, StepRow, Wake

from .rowmaps import event_row
from .session import Session

WOKEN_AT_MOST: Final = 1_000
"""Rows that one waking statement moves; it is repeated while it moves that many."""


class Events(Session):
    """The verbs of events."""

    def publish(
        self,
        event_id: UUID,
        name: str,
        payload: str,
        *,
        key: str | None,
        ttl: timedelta,
        job_id: UUID | None = None,
    ) -> None:
        woken: set[str] = set()
        with self.executor.transaction():
            # Inside, so that the look goes the way of the event when this rolls back.
            self.on_commit(lambda: self._wake_after_commit(name, key, woken))
            self.executor.fetch(
                "publish",
                {
                    "shift": shift(),
                    "id": event_id,
                    "name": name,
                    "payload": payload,
                    "key": key,
                    "ttl": ttl,
                },
            )
            woken |= self._wake_event("wake_event", name, key)

    def _wake_after_commit(self, name: str, key: str | None, woken: set[str]) -> None:
        woken = woken | self._wake_event("wake_event_again", name, key)
        self.wake([Wake(queue) for queue in sorted(woken)])

    def _wake_event(self, statement: str, name: str, key: str | None) -> set[str]:
        queues: set[str] = set()
        moved = WOKEN_AT_MOST
        while moved == WOKEN_AT_MOST:
            rows = self.executor.fetch(
                statement,
                {"shift": shift(), "name": name, "key": key, "limit": WOKEN_AT_MOST},
            )
            moved = len(rows)
            queues.update(row[0] for row in rows)
        return queues

    def find_event(self, wait: StepRow) -> EventRow | None:
        rows = self.executor.fetch(
            "find_event",
            {
                "shift": shift(),
                "name": wait.event,
                "key": wait.correlation_key,
                "mark": wait.mark,
                "since": wait.started_at,
            },
        )
        return event_row(rows[0]) if rows else None

    def wake_waiters(self, job_ids: Collection[UUID]) -> int:
        rows = self.executor.fetch("wake_waiters", {"shift": shift(), "ids": list(job_ids)})
        self.wake([Wake(queue) for queue in sorted({row[0] for row in rows})])
        return len(rows)

    def wake_missed(self, *, limit: int) -> int:
        rows = self.executor.fetch("wake_missed", {"shift": shift(), "limit": limit})
        self.wake([Wake(queue) for queue in sorted({row[0] for row in rows})])
        return len(rows)
