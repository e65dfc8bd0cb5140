"""Cancel attempts that outlive their timeout."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from django_durable_jobs import clock
from django_durable_jobs.exceptions import JobTimeout

from .crew import Run

logger = logging.getLogger("django_durable_jobs.worker")

_HEAP_SLACK: Final = 1_000
"""Entries of ended runs that the heap may hold before it is built anew."""


class Deadlines:
    """One thread that waits for the nearest deadline.

    At the timeout the attempt's signal is set; a body that looks at it ends by itself. One
    that has not ended *grace* later is named in the log and handed to *abandoned*, which
    settles it: its thread runs on, keeps its slot, and can write nothing durable.
    """

    def __init__(self, *, grace: timedelta, abandoned: Callable[[Run], None]) -> None:
        self._grace = grace.total_seconds()
        self._abandoned = abandoned
        self._heap: list[tuple[float, int]] = []
        self._watched: dict[int, tuple[Run, float, bool]] = {}
        self._numbers: dict[Run, int] = {}
        self._number = itertools.count()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="deadlines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, run: Run, timeout: timedelta) -> None:
        """Cancel *run* after *timeout* from now."""
        seconds = timeout.total_seconds()
        with self._changed:
            self._push(clock.monotonic() + seconds, run, seconds, is_cancelled=False)

    def forget(self, run: Run) -> None:
        """The run's body has ended."""
        with self._changed:
            number = self._numbers.pop(run, None)
            if number is not None:
                self._watched.pop(number, None)
            if len(self._heap) > 4 * len(self._watched) + _HEAP_SLACK:
                self._heap = [entry for entry in self._heap if entry[1] in self._watched]
                heapq.heapify(self._heap)

    @property
    def kept(self) -> int:
        """How many runs, ended ones included, are still remembered."""
        with self._changed:
            return max(len(self._heap), len(self._numbers))

    def _push(self, when: float, run: Run, seconds: float, *, is_cancelled: bool) -> None:
        number = next(self._number)
        self._numbers[run] = number
        self._watched[number] = (run, seconds, is_cancelled)
        heapq.heappush(self._heap, (when, number))
        if self._heap[0][1] == number:
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._heap or self._heap[0][0] > clock.monotonic():
                    wait = self._heap[0][0] - clock.monotonic() if self._heap else None
                    self._changed.wait(wait)
                _, number = heapq.heappop(self._heap)
                watched = self._watched.pop(number, None)
            if watched is not None:
                try:
                    self._expire(*watched)
                except Exception:
                    logger.exception("jobs.deadlines.failed")

    def _expire(self, run: Run, seconds: float, is_cancelled: bool) -> None:
        if run.is_settled:
            return
        if not is_cancelled:
            run.signal.cancel(JobTimeout(run.claimed.name, seconds))
            with self._changed:
                # Unless its body has ended meanwhile.
                if run in self._numbers:
                    when = clock.monotonic() + self._grace
                    self._push(when, run, seconds, is_cancelled=True)
            return
        logger.warning(
            "jobs.timeout.abandoned: the body of job %s (%s) ignores that it was cancelled; it "
            "keeps its slot until it ends.",
            run.claimed.identity.job_id,
            run.claimed.name,
        )
        self._abandoned(run)
