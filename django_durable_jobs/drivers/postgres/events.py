"""Events, and the wakes of the runs that wait for them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import OperationalError

from django_durable_jobs.clock import shift
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store.rows import EventRow, StepRow

from .executor import sqlstate_of
from .families import Families
from .rowmaps import cursor_parameters, event_row

logger = logging.getLogger("django_durable_jobs.store")

PATIENCE: Final = "2s"
"""How long a publisher waits after its commit for a run that another transaction has locked."""

WOKEN_AT_MOST: Final = 1_000
"""Rows that one waking statement moves; it is repeated while it moves that many."""


class Events(Families):
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
        event: dict[str, Any] = {"id": event_id, "name": name, "key": key, "to": job_id}
        woken: set[str] = set()
        with self.executor.transaction():
            # Inside, so that the look goes the way of the event when this rolls back.
            self.on_commit(lambda: self._wake_after_commit(event, woken))
            self.executor.fetch(
                "publish", {"shift": shift(), **event, "payload": payload, "ttl": ttl}
            )
            woken |= self._wake_event("wake_event", event)

    def _wake_after_commit(self, event: Mapping[str, Any], woken: set[str]) -> None:
        try:
            # First: the look may wait for a lock that somebody's long transaction holds.
            self._wake_queues(woken)
        finally:
            self._wake_queues(self._look_again(event))

    def _look_again(self, event: Mapping[str, Any]) -> set[str]:
        """Make due whom the look before the commit left, and answer their queues."""
        try:
            return self._wake_event("wake_event_again", {**event, "patience": PATIENCE})
        except (StoreUnavailable, OperationalError) as error:
            if sqlstate_of(error) != "55P03":
                raise
        # They are woken when that transaction commits. When it rolls back, the look of the last
        # resort finds them.
        logger.warning(
            "jobs.event.locked: a run that waits for event '%s' is locked by a transaction that "
            "has been open for more than %s; the publisher waits for it no longer.",
            event["name"],
            PATIENCE,
        )
        return self._wake_event("wake_event", event)

    def _wake_event(self, statement: str, event: Mapping[str, Any]) -> set[str]:
        queues: set[str] = set()
        moved = WOKEN_AT_MOST
        while moved == WOKEN_AT_MOST:
            rows = self.executor.fetch(
                statement, {"shift": shift(), **event, "limit": WOKEN_AT_MOST}
            )
            moved = len(rows)
            queues.update(row[0] for row in rows)
        return queues

    def find_event(self, wait: StepRow) -> EventRow | None:
        rows = self.executor.fetch(
            "find_event",
            {
                "shift": shift(),
                "job_id": wait.job_id,
                "names": [each.event for each in wait.filters],
                "keys": [each.key for each in wait.filters],
                "mark": wait.mark,
                "since": wait.started_at,
                **cursor_parameters(wait.cursor),
            },
        )
        return event_row(rows[0]) if rows else None

    def wake_waiters(self, job_ids: Collection[UUID]) -> int:
        queues = self._wake_unlocked("wake_waiters", job_ids)
        self._wake_queues(queues)
        return len(queues)

    def wake_missed(self, *, limit: int) -> int:
        rows = self.executor.fetch("wake_missed", {"shift": shift(), "limit": limit})
        self._wake_queues([row[0] for row in rows])
        return len(rows) + self._wake_missed_parents(limit - len(rows))

    def set_waits_aside(self, *, limit: int) -> int:
        rows = self.executor.fetch("set_waits_aside", {"limit": limit})
        return int(rows[0][0])

    def purge_events(self, *, limit: int) -> int:
        return len(self.executor.fetch("purge_events", {"shift": shift(), "limit": limit}))
