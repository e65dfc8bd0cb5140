"""Claim for free slots, as long as there is anything to claim."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
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

LARGE_CLAIM: Final = 32
"""A claim may stop at so many, one of each lane it visited, with more lanes behind them."""


class Claimer:
    """One thread with one bounded pass: claim, report, hand out.

    A pass that got what it asked for is followed by another as soon as a slot is free, and
    so is one that left out a queue which had no slot free. One that got less leaves nothing
    behind, so the next waits for a wake: the supervisor looks at the store while the
    workers are idle.
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
        self._lock = threading.Lock()
        self._has_more = True
        self._is_freed = False
        self._to_rescue = set(queues)
        self._is_stopping = False
        self._is_drained = False
        self._backoff = Backoff(first=0.2, longest=15)
        self._thread = threading.Thread(target=self._serve, name="claimer", daemon=True)

    def start(self) -> None:
        self._kick.set()
        self._thread.start()

    def wake(self) -> None:
        """There is something to claim."""
        with self._lock:
            self._is_drained = False
            self._has_more = True
            self._kick.set()

    def rescue(self) -> None:
        """A lease lapsed."""
        with self._lock:
            self._to_rescue.update(self._order)
        self.wake()

    def slot_freed(self) -> None:
        """A slot or the settler's backlog has room again."""
        with self._lock:
            self._is_freed = True
        self._go_on()

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
                with self._lock:
                    self._is_freed = False
                self._pass()
                self._backoff.reset()
                # Freed while the pass did not know yet that it would leave something.
                if self._is_freed:
                    self._go_on()
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
        self.wake()

    def _go_on(self) -> None:
        if self._has_more and self._crew.wants_refill:
            self._kick.set()

    def _pass(self) -> None:
        self._is_drained = False
        room = self._crew.room()
        if room == 0 or self._backlog() > BACKLOG_AT_MOST:
            return
        with self._lock:
            self._has_more = False
        try:
            room -= self._rescue(room)
            is_complete = self._claim(room) if room > 0 else False
        except BaseException:
            self._has_more = True
            raise
        with self._lock:
            # Whatever came meanwhile stays for the next pass.
            self._has_more = self._has_more or not is_complete or bool(self._to_rescue)
            self._is_drained = not self._has_more
        if self._is_drained:
            self._drained()

    def _claim(self, room: int) -> bool:
        """Claim up to *room* jobs; whether that left nothing behind."""
        demands = [
            QueueDemand(queue, min(room, self._crew.room_in(queue, self._slots(queue))))
            for queue in self._order
        ]
        # Each queue comes first in its turn.
        self._order.rotate(-1)
        asked = [demand for demand in demands if demand.count]
        if not asked:
            return False
        claimed = self._store.claim(self._worker_id, asked, lease=self._lease, limit=room)
        taken = Counter(job.queue for job in claimed)
        # A queue that got all of its own slots may hold more, for when one of them is free.
        is_capped = any(taken[demand.queue] >= demand.count < room for demand in demands)
        is_complete = not is_capped and len(claimed) < min(room, LARGE_CLAIM)
        # Before they are handed out, since they may end at once.
        self._has_more = self._has_more or not is_complete
        if claimed:
            self._take(claimed)
        if LARGE_CLAIM <= len(claimed) < room:
            # Nobody frees a slot to bring the next pass: there are free ones.
            self._kick.set()
        return is_complete

    def _rescue(self, room: int) -> int:
        """Take again what lapsed, up to *room* jobs; how many were found.

        Queues with slots of their own are asked one by one, for no more than those.
        """
        with self._lock:
            queues = [queue for queue in self._order if queue in self._to_rescue]
        free = [queue for queue in queues if self._slots(queue) is None]
        asks = [(free, RESCUED_AT_MOST)] if free else []
        for queue in queues:
            if queue not in free:
                asks.append(([queue], self._crew.room_in(queue, self._slots(queue))))
        found = 0
        for asked, most in asks:
            limit = min(room - found, most)
            if limit > 0:
                found += self._rescue_from(asked, limit)
        return found

    def _rescue_from(self, queues: list[str], limit: int) -> int:
        # Before the statement, or a lease that lapses meanwhile would be forgotten.
        with self._lock:
            self._to_rescue.difference_update(queues)
        try:
            rescued = self._store.rescue(
                self._worker_id,
                queues,
                limit=limit,
                lease=self._lease,
                drop_exhausted=self._drop_exhausted(),
            )
        except BaseException:
            with self._lock:
                self._to_rescue.update(queues)
            raise
        found = len(rescued.claimed) + len(rescued.buried)
        if found >= limit:
            with self._lock:
                self._to_rescue.update(queues)
                self._has_more = True
        if rescued.claimed:
            self._take(rescued.claimed)
        if rescued.buried:
            self._crew.hand_out_buried(rescued.buried)
        if found >= RESCUED_AT_MOST:
            # Nobody frees a slot to bring the next pass: there are free ones.
            self._kick.set()
        return found

    def _slots(self, queue: str) -> int | None:
        slots: int | None = self._options[queue].get("slots")
        return slots
