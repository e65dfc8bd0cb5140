"""The slots: threads that take claimed jobs and run their bodies."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final
from uuid import UUID

from django_durable_jobs import clock
from django_durable_jobs.exceptions import RunFault
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.store.rows import BuriedJob, ClaimedJob

from .interruption import Interruption

logger = logging.getLogger("django_durable_jobs.worker")

AHEAD_SECONDS: Final = 0.02
"""Jobs are claimed ahead of free slots only for so much work of all slots."""

AHEAD_AT_MOST: Final = 200


@dataclass(eq=False, slots=True)
class Run:
    """A claimed job in this process's hands.

    Attributes:
        has_started: Its body was begun; until then it can be given back unspent.
        is_settled: Its outcome was handed over; a body that ends later changes nothing.
        lock: Held by whoever decides either of them.
        interruption: How its body is thrown out of the threads that it runs in.
    """

    claimed: ClaimedJob
    signal: CancelSignal
    has_started: bool = False
    is_settled: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    interruption: Interruption = field(default_factory=Interruption)

    @property
    def key(self) -> tuple[UUID, int]:
        return self.claimed.identity.job_id, self.claimed.identity.claim

    def start_once(self) -> bool:
        """True if its body may be begun: nobody has settled it, and nobody will unstarted."""
        with self.lock:
            if self.is_settled or self.has_started:
                return False
            self.has_started = True
            return True

    def settle_unstarted(self) -> bool:
        """True for the one caller who may settle it, if its body was not begun."""
        with self.lock:
            if self.is_settled or self.has_started:
                return False
            self.is_settled = True
            return True

    def settle_once(self) -> bool:
        """True for the one caller who may settle it."""
        with self.lock:
            if self.is_settled:
                return False
            self.is_settled = True
            return True


Work = Callable[[Run], None]
"""Runs a job to its outcome."""


class Crew:
    """A fixed number of threads that run *work* on each run handed out.

    A thread in which a body was interrupted is replaced by a new one.
    """

    def __init__(
        self,
        slots: int,
        *,
        work: Work,
        announce: Callable[[BuriedJob], None],
        freed: Callable[[], None],
    ) -> None:
        self.slots = slots
        self._work = work
        self._announce = announce
        self._freed = freed
        self._waiting: SimpleQueue[Run | BuriedJob | None] = SimpleQueue()
        self._runs: dict[tuple[UUID, int], Run] = {}
        self._in_queue: Counter[str] = Counter()
        self._buried = 0
        self._changed = threading.Condition()
        self._seconds_per_run: float | None = None

    def start(self) -> None:
        for number in range(self.slots):
            self._start_slot(f"slot-{number}")

    def hand_out(self, runs: Iterable[Run]) -> None:
        """Queue runs for the next free slots."""
        runs = list(runs)
        with self._changed:
            for run in runs:
                self._runs[run.key] = run
                self._in_queue[run.claimed.queue] += 1
        for run in runs:
            self._waiting.put(run)

    def hand_out_buried(self, buried: Iterable[BuriedJob]) -> None:
        """Queue announcements, which run a project's hook and so need a slot."""
        buried = list(buried)
        with self._changed:
            self._buried += len(buried)
        for job in buried:
            self._waiting.put(job)

    def room(self) -> int:
        """How many more jobs may be claimed now: free slots, and a little ahead of them."""
        with self._changed:
            return max(self.slots + self._ahead() - self._in_hand, 0)

    @property
    def wants_refill(self) -> bool:
        """Whether a claim is worth its statement: a slot stands idle, or half is used up."""
        with self._changed:
            in_hand, ahead = self._in_hand, self._ahead()
            return in_hand < self.slots or in_hand <= (self.slots + ahead) // 2

    def room_in(self, queue: str, slots: int | None) -> int:
        """How many more of *queue*, which may have *slots* at once; None for all."""
        with self._changed:
            limit = self.slots + self._ahead() if slots is None else slots
            return max(limit - self._in_queue[queue], 0)

    def runs(self) -> list[Run]:
        with self._changed:
            return list(self._runs.values())

    def find(self, key: tuple[UUID, int]) -> Run | None:
        with self._changed:
            return self._runs.get(key)

    def cancel(self, runs: Iterable[Run], reason: Callable[[Run], RunFault]) -> None:
        for run in runs:
            run.signal.cancel(reason(run))

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until nothing is in hand; whether that came within *timeout* seconds."""
        deadline = clock.monotonic() + timeout
        with self._changed:
            while self._in_hand:
                left = deadline - clock.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    @property
    def is_idle(self) -> bool:
        """Whether no run and no announcement is in hand."""
        with self._changed:
            return not self._in_hand

    @property
    def _in_hand(self) -> int:
        return len(self._runs) + self._buried

    def _ahead(self) -> int:
        seconds = self._seconds_per_run
        if seconds is None:
            return 0
        return min(int(AHEAD_SECONDS * self.slots / max(seconds, 1e-6)), AHEAD_AT_MOST)

    def _serve(self) -> None:
        while (item := self._waiting.get()) is not None:
            try:
                # What one body sets in context variables, the next must not see.
                copy_context().run(self._do, item)
            except BaseException:
                # A slot that ended would be missing for as long as the process lives.
                logger.exception("jobs.slot.failed")
            finally:
                self._freed()
            # What interrupted code left half done in this thread, nobody knows.
            if isinstance(item, Run) and item.interruption.was_interrupted and self._replace():
                return

    def _replace(self) -> bool:
        """Have another thread serve in the place of this one; False when there can be none."""
        try:
            self._start_slot(threading.current_thread().name)
        except RuntimeError:
            # The system has no thread left; a used one serves better than none.
            logger.exception("jobs.slot.kept")
            return False
        return True

    def _start_slot(self, name: str) -> None:
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _do(self, item: Run | BuriedJob) -> None:
        began = clock.monotonic()
        try:
            if isinstance(item, BuriedJob):
                self._announce_logged(item)
            else:
                self._work(item)
        finally:
            self._end(item, clock.monotonic() - began)

    def _announce_logged(self, job: BuriedJob) -> None:
        try:
            self._announce(job)
        except BaseException:
            # A project's hook may raise anything.
            logger.exception("jobs.claim.exhausted-unannounced: job %s", job.id)

    def _end(self, item: Run | BuriedJob, seconds: float) -> None:
        with self._changed:
            if isinstance(item, BuriedJob):
                self._buried -= 1
            else:
                self._runs.pop(item.key, None)
                self._in_queue[item.claimed.queue] -= 1
                mean = self._seconds_per_run
                self._seconds_per_run = seconds if mean is None else mean * 0.9 + seconds * 0.1
            self._changed.notify_all()
