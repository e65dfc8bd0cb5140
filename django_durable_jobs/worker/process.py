"""A worker process: its threads, its orders, its end."""

from __future__ import annotations

import logging
import os
import selectors
import signal as signals
import socket
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, Final

from django_durable_jobs import clock
from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import Draining, LeaseLost, StoreUnavailable
from django_durable_jobs.jobs import registered_jobs
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.store import get_store
from django_durable_jobs.store.rows import ClaimedJob, Settlement, Wake

from .attempts import Attempts
from .channel import Channel, Holding, Message, read
from .claiming import Claimer
from .crew import Crew, Run
from .deadlines import UNWINDING, Deadlines
from .reporting import Reporter, due_in
from .settling import Outcome, Settler

logger = logging.getLogger("django_durable_jobs.worker")

EXIT_DRAINED: Final = 0
LAST_WRITES: Final = 5.0
"""Seconds that the last settlements may take when a worker ends."""

LAST_WORDS: Final = 0.2
"""Seconds that bodies have to end in when the worker is told to stop at once."""

LISTEN_EVERY: Final = 0.1
"""Seconds between looks at the supervisor's messages while bodies end."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What the supervisor tells a worker at its start.

    Attributes:
        slots: Bodies at once.
        grace: How long a drain waits for them.
        burst: End when nothing is left to claim.
    """

    worker_id: str
    queues: tuple[str, ...]
    slots: int
    grace: timedelta
    burst: bool


class Worker:
    """Everything in one process; ``run()`` returns when it has drained."""

    def __init__(self, options: WorkerOptions, channel: Channel) -> None:
        self.options = options
        self._channel = channel
        self._user_store = get_store()
        self._store = self._user_store.for_worker()
        self._kill_grace = settings.KILL_GRACE
        self._orders, self._orders_end = socket.socketpair()
        self._orders_end.setblocking(False)
        self._is_draining = threading.Event()
        self._stops_at_once = False
        self._grace = options.grace
        self._renewed_until = float("inf")
        self._reporter = Reporter(channel, lease=settings.LEASE, kill_grace=self._kill_grace)
        self._settler = Settler(self._store, self._release)
        self._deadlines = Deadlines(
            grace=self._kill_grace, abandoned=lambda run: self._attempts.abandon(run)
        )
        self._attempts = Attempts(
            store=self._store,
            user_store=self._user_store,
            settler=self._settler,
            deadlines=self._deadlines,
            is_draining=self._is_draining.is_set,
        )
        self._crew = Crew(
            options.slots,
            work=self._attempts.work,
            announce=self._attempts.announce_buried,
            freed=self._on_freed,
        )
        self._claimer = Claimer(
            self._store,
            self._crew,
            worker_id=options.worker_id,
            queues=_queue_options(options.queues),
            lease=settings.LEASE,
            drop_exhausted=_names_without_dead_letter,
            take=self._take,
            backlog=lambda: self._settler.backlog,
            drained=self._consider_burst,
        )

    def run(self) -> int:
        """Serve until told to stop; the exit code."""
        self._catch_signals()
        for part in (self._settler, self._deadlines, self._crew, self._claimer):
            part.start()
        self._channel.send("ready")
        self._listen()
        return self._end()

    # -- orders

    def _catch_signals(self) -> None:
        # The supervisor hears the terminal; the worker gets its orders from there.
        signals.signal(signals.SIGINT, signals.SIG_IGN)
        signals.signal(signals.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        self._order_drain()

    def _order_drain(self) -> None:
        # Called by a signal's handler as well, which may take no lock: the thread that it
        # interrupted could be the one that holds it. A full buffer is full of such orders.
        with suppress(BlockingIOError):
            self._orders_end.send(b"d")

    def _listen(self) -> None:
        """Take the supervisor's messages until it is time to end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel.fileno(), selectors.EVENT_READ)
            selector.register(self._orders, selectors.EVENT_READ)
            while not self._is_draining.is_set():
                for key, _ in selector.select():
                    if key.fileobj is self._orders:
                        self._is_draining.set()
                    else:
                        self._hear()

    def _hear(self) -> None:
        self._obey(self._channel.receive())
        if not self._channel.is_open:
            logger.warning("jobs.worker.orphaned: the supervisor is gone; draining.")
            # Nobody renews the leases any more.
            self._renewed_until = clock.monotonic() + settings.LEASE.total_seconds() / 3
            self._is_draining.set()

    def _obey(self, messages: list[Message]) -> None:
        for message in messages:
            match message["kind"]:
                case "wake":
                    self._claimer.wake()
                case "rescue":
                    self._claimer.rescue()
                case "lost":
                    self._lose(read([*row, None] for row in message["claims"]))
                case "drain":
                    self._grace = timedelta(seconds=message["grace"])
                    self._is_draining.set()
                case "stop":
                    self._stops_at_once = True
                    self._is_draining.set()

    def _lose(self, claims: list[Holding]) -> None:
        for claim in claims:
            run = self._crew.find((claim.job_id, claim.claim))
            # A row already handed to the settler is no longer held, and rightly so.
            if run is not None and not run.is_settled:
                logger.warning("jobs.lease.lost: job %s (%s)", claim.job_id, run.claimed.name)
                run.signal.cancel(LeaseLost(claim.job_id, "go on with it"))

    # -- between the parts

    def _take(self, claimed: Sequence[ClaimedJob]) -> None:
        self._reporter.hold(claimed)
        self._crew.hand_out(Run(job, CancelSignal(job.identity.job_id)) for job in claimed)

    def _release(self, outcomes: Sequence[Outcome], landed: Sequence[Settlement | None]) -> None:
        queues = {
            outcome.claimed.queue
            for outcome, settlement in zip(outcomes, landed, strict=True)
            if settlement is not None and due_in(settlement) == 0
        }
        if queues and not self._is_draining.is_set():
            # Before a burst is told that nothing is due any more.
            self._claimer.wake()
        self._reporter.release(outcomes, landed)
        self._on_freed()
        if queues and self._is_draining.is_set():
            self._wake_others(queues)

    def _wake_others(self, queues: Collection[str]) -> None:
        """What was given back here is for the workers that stay."""
        try:
            self._store.wake([Wake(queue) for queue in sorted(queues)])
        except StoreUnavailable as error:
            logger.info("jobs.wake.unsent: the other workers find the jobs by looking. %s", error)

    def _on_freed(self) -> None:
        self._claimer.slot_freed()
        self._consider_burst()

    # -- the end

    def _consider_burst(self) -> None:
        if (
            self.options.burst
            and self._claimer.is_drained
            and self._crew.is_idle
            and self._settler.backlog == 0
        ):
            self._order_drain()

    def _end(self) -> int:
        """Drain: claim no more, wait, cancel what still runs, give it back, land everything."""
        deadline = clock.monotonic() + self._grace.total_seconds()
        self._give_back_unstarted()
        self._claimer.stop(max(deadline - clock.monotonic(), LAST_WRITES))
        # What the pass that was under way has claimed.
        self._give_back_unstarted()
        self._wait_for_bodies(deadline)
        self._crew.cancel(self._crew.runs(), lambda run: Draining())
        self._wait_for_bodies(clock.monotonic() + self._kill_grace.total_seconds() + UNWINDING)
        if self._stops_at_once:
            self._crew.wait_until_idle(LAST_WORDS)
        abandoned = self._crew.runs()
        for run in abandoned:
            self._attempts.give_back(run)
        landed = self._settler.finish(LAST_WRITES)
        is_over = self._attempts.finish(LAST_WRITES)
        self._channel.close()
        self._store.close()
        if abandoned or not landed or not is_over:
            # Their threads would keep the interpreter from ending.
            logging.shutdown()
            os._exit(EXIT_DRAINED)
        return EXIT_DRAINED

    def _give_back_unstarted(self) -> None:
        for run in self._crew.runs():
            self._attempts.give_back_unstarted(run)

    def _wait_for_bodies(self, deadline: float) -> None:
        """Wait for running bodies while the supervisor renews their leases and lets them end."""
        while not self._stops_at_once:
            left = min(deadline, self._renewed_until) - clock.monotonic()
            if left <= 0 or self._crew.wait_until_idle(min(LISTEN_EVERY, left)):
                return
            self._hear_what_came()

    def _hear_what_came(self) -> None:
        if not self._channel.is_open:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel.fileno(), selectors.EVENT_READ)
            if selector.select(timeout=0):
                self._hear()


def _queue_options(queues: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    return {queue: settings.QUEUES.get(queue, {}) for queue in queues}


def _names_without_dead_letter() -> list[str]:
    return [
        name
        for definition in registered_jobs()
        if not definition.retry.dead_letter
        for name in (definition.name, *definition.aliases)
    ]
