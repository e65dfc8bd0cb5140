"""Cancel attempts that outlive their timeout."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from django_durable_jobs import clock
from django_durable_jobs.exceptions import JobTimeout

from .crew import Run

logger = logging.getLogger("django_durable_jobs.worker")


class Deadlines:
    """One thread that waits for the nearest deadline.

    At the timeout the attempt's signal is set; a body that looks at it ends by itself. One
    that has not ended *grace* later is named in the log and handed to *abandoned*, which
    settles it: its thread runs on, keeps its slot, and can write nothing durable.
    """

    def __init__(self, *, grace: timedelta, abandoned: Callable[[Run], None]) -> None:
        self._grace = grace.total_seconds()
        self._abandoned = abandoned
        self._heap: list[tuple[float, int, Run, float, bool]] = []
        self._number = itertools.count()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="deadlines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, run: Run, timeout: timedelta) -> None:
        """Cancel *run* after *timeout* from now."""
        seconds = timeout.total_seconds()
        self._push(clock.monotonic() + seconds, run, seconds, is_second=False)

    def _push(self, when: float, run: Run, seconds: float, *, is_second: bool) -> None:
        with self._changed:
            heapq.heappush(self._heap, (when, next(self._number), run, seconds, is_second))
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._heap or self._heap[0][0] > clock.monotonic():
                    wait = self._heap[0][0] - clock.monotonic() if self._heap else None
                    self._changed.wait(wait)
                _, _, run, seconds, is_second = heapq.heappop(self._heap)
            if run.is_settled:
                continue
            if not is_second:
                run.signal.cancel(JobTimeout(run.claimed.name, seconds))
                later = clock.monotonic() + self._grace
                self._push(later, run, seconds, is_second=True)
            else:
                logger.warning(
                    "jobs.timeout.abandoned: the body of job %s (%s) ignores that it was "
                    "cancelled; it keeps its slot until it ends.",
                    run.claimed.identity.job_id,
                    run.claimed.name,
                )
                self._abandoned(run)
