"""Claim for free slots, as long as there is anything to claim."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.lifecycle.backoff import Backoff
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import ClaimedJob, QueueDemand

from .crew import Crew

logger = logging.getLogger("django_durable_jobs.worker")

RESCUED_AT_MOST: Final = 100
BACKLOG_AT_MOST: Final = 2_000
"""Outcomes waiting to be settled above which nothing is claimed."""


class Claimer:
    """One thread with one bounded pass: claim, report, hand out.

    A pass that got what it asked for is followed by another as soon as a slot is free. One
    that got less leaves nothing behind, so the next waits for a wake: the supervisor looks
    at the store while the workers are idle.
    """

    def __init__(
        self,
        store: JobStore,
        crew: Crew,
        *,
        worker_id: str,
        queues: Mapping[str, Mapping[str, Any]],
        lease: timedelta,
        drop_exhausted: Callable[[], Sequence[str]],
        take: Callable[[Sequence[ClaimedJob]], None],
        backlog: Callable[[], int],
        drained: Callable[[], None],
    ) -> None:
        self._store = store
        self._crew = crew
        self._worker_id = worker_id
        self._options = queues
        self._order = deque(queues)
        self._lease = lease
        self._drop_exhausted = drop_exhausted
        self._take = take
        self._backlog = backlog
        self._drained = drained
        self._kick = threading.Event()
        self._has_more = True
        self._wants_rescue = True
        self._is_stopping = False
        self._is_drained = False
        self._backoff = Backoff(first=0.2, longest=15)
        self._thread = threading.Thread(target=self._serve, name="claimer", daemon=True)

    def start(self) -> None:
        self._kick.set()
        self._thread.start()

    def wake(self) -> None:
        """There is something to claim."""
        self._is_drained = False
        self._has_more = True
        self._kick.set()

    def rescue(self) -> None:
        """A lease lapsed."""
        self._wants_rescue = True
        self.wake()

    def slot_freed(self) -> None:
        """A slot or the settler's backlog has room again."""
        if self._has_more and self._crew.wants_refill:
            self._kick.set()

    @property
    def is_drained(self) -> bool:
        """Whether the last pass left nothing behind that is due."""
        return self._is_drained

    def stop(self, timeout: float) -> bool:
        """Claim no more; waits for a pass that is under way, so that its rows are handled."""
        self._is_stopping = True
        self._kick.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            self._kick.wait()
            self._kick.clear()
            if self._is_stopping:
                return
            try:
                self._pass()
                self._backoff.reset()
            except StoreUnavailable as error:
                if self._backoff.is_fresh:
                    logger.warning("jobs.claim.waiting: %s", error)
                self._pause()
            except Exception:
                # A pass must not end the loop, whatever it met; nor may it spin.
                logger.exception("jobs.claim.failed")
                self._pause()

    def _pause(self) -> None:
        self._kick.clear()
        if not self._is_stopping:
            self._kick.wait(self._backoff.wait())
        self._has_more = True
        self._kick.set()

    def _pass(self) -> None:
        self._is_drained = False
        room = self._crew.room()
        if room == 0 or self._backlog() > BACKLOG_AT_MOST:
            return
        if self._wants_rescue:
            self._wants_rescue = False
            try:
                room -= self._rescue(min(room, RESCUED_AT_MOST))
            except BaseException:
                self._wants_rescue = True
                raise
            if room <= 0:
                self._has_more = True
                return
        demands = [
            QueueDemand(queue, min(room, self._crew.room_in(queue, self._slots(queue))))
            for queue in self._order
        ]
        # A queue at its own limit may hold more, for when one of its slots is free.
        is_capped = any(demand.count < room for demand in demands)
        # Each queue comes first in its turn.
        self._order.rotate(-1)
        demands = [demand for demand in demands if demand.count]
        if not demands:
            self._has_more = True
            return
        self._has_more = False
        try:
            claimed = self._store.claim(self._worker_id, demands, lease=self._lease, limit=room)
        except BaseException:
            self._has_more = True
            raise
        if is_capped or len(claimed) >= room:
            self._has_more = True
        if claimed:
            self._take(claimed)
        self._is_drained = not self._has_more
        if self._is_drained:
            self._drained()

    def _rescue(self, limit: int) -> int:
        rescued = self._store.rescue(
            self._worker_id,
            list(self._order),
            limit=limit,
            lease=self._lease,
            drop_exhausted=self._drop_exhausted(),
        )
        if rescued.claimed:
            self._take(rescued.claimed)
        if rescued.buried:
            self._crew.hand_out_buried(rescued.buried)
        found = len(rescued.claimed) + len(rescued.buried)
        if found >= limit:
            self._wants_rescue = True
        return found

    def _slots(self, queue: str) -> int | None:
        slots: int | None = self._options[queue].get("slots")
        return slots
