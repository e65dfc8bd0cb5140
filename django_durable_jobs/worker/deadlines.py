"""Cancel attempts that outlive their timeout, and see that cancelled ones end."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from django_durable_jobs import clock
from django_durable_jobs.exceptions import Aborted, JobTimeout, RunFault

from .crew import Run

logger = logging.getLogger("django_durable_jobs.worker")

UNWINDING: Final = 1.0
"""Seconds that an interrupted body has at most to end in."""

LOCK_GRACE: Final = 0.05
"""Seconds until a body that waited for a lock when it was to be interrupted is tried again."""

_HEAP_SLACK: Final = 1_000
"""Entries of ended runs that the heap may hold before it is built anew."""

Due = Literal["timeout", "grace", "unwinding"]
"""What is over when a watch is due: the attempt's time, the kill grace, the last chance."""


@dataclass(slots=True)
class _Watch:
    """How long a run may take.

    Attributes:
        number: That of its entry in the heap.
        seconds: Its timeout.
        given_up_at: When it is abandoned, once its grace is over.
    """

    number: int
    seconds: float
    unsubscribe: Callable[[], None]
    given_up_at: float | None = None


class Deadlines:
    """One thread that waits for the nearest deadline.

    At its timeout the attempt's signal is set; a body that looks at it ends by itself.
    However the signal was set, one that has not ended *grace* later is interrupted in its
    threads. One that goes on even then is named in the log and handed to *abandoned*, which
    settles it: its thread runs on, keeps its slot, and can write nothing durable.
    """

    def __init__(self, *, grace: timedelta, abandoned: Callable[[Run], None]) -> None:
        self._grace = grace.total_seconds()
        self._abandoned = abandoned
        self._heap: list[tuple[float, int]] = []
        self._due: dict[int, tuple[Run, Due]] = {}
        self._watches: dict[Run, _Watch] = {}
        self._number = itertools.count()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="deadlines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, run: Run, timeout: timedelta | None) -> None:
        """Cancel *run* after *timeout* from now, if any; whatever cancels it, see it end."""
        seconds = 0.0 if timeout is None else timeout.total_seconds()
        watch = _Watch(-1, seconds, lambda: None)
        with self._changed:
            self._watches[run] = watch
            if timeout is not None:
                self._wait_for(run, watch, "timeout", seconds)
        watch.unsubscribe = run.signal.subscribe(lambda reason: self._expect_end(run, reason))

    def forget(self, run: Run) -> None:
        """The run's body has ended."""
        with self._changed:
            watch = self._watches.pop(run, None)
            if watch is None:
                return
            self._due.pop(watch.number, None)
            if len(self._heap) > 4 * len(self._due) + _HEAP_SLACK:
                self._heap = [entry for entry in self._heap if entry[1] in self._due]
                heapq.heapify(self._heap)
        watch.unsubscribe()

    @property
    def kept(self) -> int:
        """How many runs, ended ones included, are still remembered."""
        with self._changed:
            return max(len(self._heap), len(self._watches))

    def _expect_end(self, run: Run, reason: RunFault) -> None:
        # It has ended: whatever it left running is refused its writes and no more.
        if isinstance(reason, Aborted):
            return
        with self._changed:
            watch = self._watches.get(run)
            if watch is not None:
                self._wait_for(run, watch, "grace", self._grace)

    def _wait_for(self, run: Run, watch: _Watch, due: Due, seconds: float) -> None:
        self._due.pop(watch.number, None)
        watch.number = next(self._number)
        self._due[watch.number] = run, due
        heapq.heappush(self._heap, (clock.monotonic() + seconds, watch.number))
        if self._heap[0][1] == watch.number:
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._heap or self._heap[0][0] > clock.monotonic():
                    wait = self._heap[0][0] - clock.monotonic() if self._heap else None
                    self._changed.wait(wait)
                _, number = heapq.heappop(self._heap)
                found = self._due.pop(number, None)
            if found is not None:
                try:
                    self._expire(*found)
                except Exception:
                    logger.exception("jobs.deadlines.failed")

    def _expire(self, run: Run, due: Due) -> None:
        with self._changed:
            watch = self._watches.get(run)
        if watch is None or run.is_settled:
            return
        if due == "timeout":
            # Its grace begins by that, as with any other reason.
            run.signal.cancel(JobTimeout(run.claimed.name, watch.seconds))
        elif due == "unwinding" or not self._throw_out(run, watch):
            logger.warning(
                "jobs.timeout.abandoned: the body of job %s (%s) ignores that it was cancelled; "
                "it keeps its slot until it ends.",
                run.claimed.identity.job_id,
                run.claimed.name,
            )
            self._abandoned(run)

    def _throw_out(self, run: Run, watch: _Watch) -> bool:
        """Interrupt the body in its threads; whether it is given time to end by that."""
        interruption = run.interruption
        was_interrupted = interruption.was_interrupted
        if interruption.interrupt() and not was_interrupted:
            self._log_interrupted(run)
        now = clock.monotonic()
        if watch.given_up_at is None:
            watch.given_up_at = now + min(self._grace, UNWINDING)
        left = watch.given_up_at - now
        if left <= 0 or not (interruption.was_interrupted or interruption.is_inside):
            return False
        with self._changed:
            # Unless its body has ended meanwhile.
            if run not in self._watches:
                return True
            if interruption.is_inside:
                self._wait_for(run, watch, "grace", min(LOCK_GRACE, left))
            else:
                self._wait_for(run, watch, "unwinding", left)
        return True

    def _log_interrupted(self, run: Run) -> None:
        logger.warning(
            "jobs.body.interrupted: the body of job %s (%s) had not ended %g s after it was "
            "cancelled; an exception was raised in it.",
            run.claimed.identity.job_id,
            run.claimed.name,
            self._grace,
        )
