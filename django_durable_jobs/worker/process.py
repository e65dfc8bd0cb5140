"""A worker process: its threads, its orders, its end."""

from __future__ import annotations

import logging
import os
import selectors
import signal as signals
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, Final

from django_durable_jobs import clock
from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import Draining, LeaseLost
from django_durable_jobs.jobs import get_job, registered_jobs
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.settle import (
    announce_buried,
    announce_settled,
    settlement_of,
    settlement_of_unknown,
)
from django_durable_jobs.signals import job_settled
from django_durable_jobs.states import READY, SUSPENDED
from django_durable_jobs.store import get_store
from django_durable_jobs.store.rows import BuriedJob, ClaimedJob, Settlement

from .channel import Channel, Holding, Message, named, read, written
from .claiming import Claimer
from .connections import fresh_connections
from .crew import Crew, Run
from .deadlines import Deadlines
from .execute import execute
from .settling import Outcome, Settler

logger = logging.getLogger("django_durable_jobs.worker")

EXIT_DRAINED: Final = 0
LAST_WRITES: Final = 5.0
"""Seconds that the last settlements may take when a worker ends."""

DUE_AHEAD: Final = 30.0
"""Own retries and sleeps due within so many seconds are told to the supervisor."""


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
        self._lease = settings.LEASE
        self._kill_grace = settings.KILL_GRACE
        self._unknown: set[str] = set()
        self._orders, self._orders_end = socket.socketpair()
        self._is_draining = threading.Event()
        self._stops_at_once = False
        self._grace = options.grace
        self._crew = Crew(
            options.slots,
            work=self._work,
            announce=self._announce_buried,
            freed=self._on_freed,
        )
        self._deadlines = Deadlines(grace=self._kill_grace, abandoned=self._abandon)
        self._settler = Settler(self._store, self._release)
        self._claimer = Claimer(
            self._store,
            self._crew,
            worker_id=options.worker_id,
            queues=_queue_options(options.queues),
            lease=self._lease,
            drop_exhausted=_names_without_dead_letter,
            take=self._take,
            bury=self._crew.hand_out_buried,
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
        if not self._is_draining.is_set():
            self._is_draining.set()
            self._orders_end.send(b"d")

    def _listen(self) -> None:
        """Take the supervisor's messages until it is time to end."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel.fileno(), selectors.EVENT_READ)
            selector.register(self._orders, selectors.EVENT_READ)
            while not self._is_draining.is_set():
                for key, _ in selector.select():
                    if key.fileobj is not self._orders:
                        self._obey(self._channel.receive())
                if not self._channel.is_open:
                    logger.warning("jobs.worker.orphaned: the supervisor is gone; draining.")
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

    # -- one job

    def _take(self, claimed: Sequence[ClaimedJob]) -> None:
        """Tell the supervisor first, so that no body runs whose lease nobody renews."""
        self._channel.send("holding", claims=written(self._holding(job) for job in claimed))
        self._crew.hand_out(Run(job, CancelSignal(job.identity.job_id)) for job in claimed)

    def _holding(self, claimed: ClaimedJob) -> Holding:
        definition = get_job(claimed.name)
        timeout = None if definition is None else definition.timeout
        # Twice the lease on top: a job may wait for its slot, and settling takes a while.
        slack = 2 * self._lease + self._kill_grace
        limit = None if timeout is None else (timeout + slack).total_seconds()
        return Holding(claimed.identity.job_id, claimed.identity.claim, limit)

    def _work(self, run: Run) -> None:
        if self._is_draining.is_set():
            self._give_back(run)
            return
        claimed = run.claimed
        definition = get_job(claimed.name)
        if definition is None:
            self._hand_in_unknown(run)
            return
        if definition.timeout is not None:
            self._deadlines.watch(run, definition.timeout)
        run.has_started = True
        with fresh_connections():
            executed = execute(
                claimed,
                definition,
                store=self._store,
                user_store=self._user_store,
                signal=run.signal,
            )
            if executed.error is not None:
                self._log_error(claimed, executed.settlement, executed.error)
            if not run.settle_once():
                return
            has_hook = definition.on_settled is not None
            if executed.has_landed and executed.settlement is not None:
                self._release([Outcome(claimed, executed.settlement)], [True])
                landed = True
            else:
                landed = self._hand_in(claimed, executed.settlement, wait=has_hook)
            if has_hook and landed and executed.settlement is not None:
                announce_settled(definition, claimed, executed.settlement)

    def _hand_in(
        self, claimed: ClaimedJob, settlement: Settlement | None, *, wait: bool = False
    ) -> bool:
        """Give an outcome to the settler; with *wait*, answer whether it landed."""
        if not wait:
            self._settler.hand_in(Outcome(claimed, settlement))
            return False
        verdicts: list[bool] = []
        settled = threading.Event()

        def landed(verdict: bool) -> None:
            verdicts.append(verdict)
            settled.set()

        self._settler.hand_in(Outcome(claimed, settlement, landed))
        settled.wait()
        return verdicts[0]

    def _hand_in_unknown(self, run: Run) -> None:
        name = run.claimed.name
        if name not in self._unknown:
            self._unknown.add(name)
            logger.error(
                "jobs.name.unknown: no job '%s' is declared here; its jobs are given back until "
                "a worker knows it. Deploy its code, or list the name in aliases=[...].",
                name,
            )
        if run.settle_once():
            self._hand_in(run.claimed, settlement_of_unknown(run.claimed))

    def _give_back(self, run: Run) -> None:
        if run.settle_once():
            settlement = Settlement(run.claimed.identity, READY, give_back=True)
            self._hand_in(run.claimed, settlement)

    def _abandon(self, run: Run) -> None:
        definition = get_job(run.claimed.name)
        reason = run.signal.reason
        if definition is None or reason is None or not run.settle_once():
            return
        settlement = settlement_of(
            reason, claimed=run.claimed, definition=definition, reason=reason
        )
        self._hand_in(run.claimed, settlement)

    def _release(self, outcomes: Sequence[Outcome], landed: Sequence[bool]) -> None:
        self._channel.send(
            "released", claims=named(outcome.claimed.identity for outcome in outcomes)
        )
        due = [
            outcome.settlement.delay.total_seconds()
            for outcome, has_landed in zip(outcomes, landed, strict=True)
            if has_landed
            and outcome.settlement is not None
            and outcome.settlement.delay is not None
            and outcome.settlement.state == READY
        ]
        parked = any(
            outcome.settlement is not None
            and outcome.settlement.state == SUSPENDED
            and outcome.settlement.run_at is not None
            for outcome in outcomes
        )
        if due or parked:
            self._channel.send("due", seconds=min([*due, *([0.0] if parked else [])]))
        for outcome, has_landed in zip(outcomes, landed, strict=True):
            if not has_landed and outcome.settlement is not None:
                logger.warning(
                    "jobs.settle.lost: the outcome of job %s (%s) was not stored; it was "
                    "cancelled, or another claim has it.",
                    outcome.claimed.identity.job_id,
                    outcome.claimed.name,
                )
            elif has_landed and outcome.settlement is not None and job_settled.has_listeners():
                job_settled.send_robust(
                    sender=Worker,
                    job_name=outcome.claimed.name,
                    queue=outcome.claimed.queue,
                    job_id=outcome.claimed.identity.job_id,
                    attempt=outcome.claimed.attempt,
                    state=outcome.settlement.state,
                )
        self._on_freed()

    def _on_freed(self) -> None:
        self._claimer.slot_freed()
        self._consider_burst()

    def _announce_buried(self, buried: BuriedJob) -> None:
        logger.error(
            "jobs.claim.exhausted: job %s (%s) is %s after %d of %d attempts: %s",
            buried.id,
            buried.name,
            buried.state,
            buried.attempt,
            buried.max_attempts,
            buried.error,
        )
        definition = get_job(buried.name)
        if definition is None:
            return
        with fresh_connections():
            announce_buried(definition, buried)

    def _log_error(
        self, claimed: ClaimedJob, settlement: Settlement | None, error: BaseException
    ) -> None:
        state = "not settled" if settlement is None else settlement.state
        logger.warning(
            "jobs.run.failed: job %s (%s), attempt %d of %d, is %s: %s: %s",
            claimed.identity.job_id,
            claimed.name,
            claimed.attempt,
            claimed.max_attempts,
            state,
            type(error).__name__,
            error,
            exc_info=error if state in ("dead", "failed") else None,
        )

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
        self._claimer.stop(max(deadline - clock.monotonic(), LAST_WRITES))
        if not self._stops_at_once:
            self._wait_for_bodies(deadline)
        self._crew.cancel(self._crew.runs(), lambda run: Draining())
        self._crew.wait_until_idle(0.2 if self._stops_at_once else self._kill_grace.total_seconds())
        abandoned = self._crew.runs()
        for run in abandoned:
            self._give_back(run)
        landed = self._settler.finish(LAST_WRITES)
        self._channel.close()
        self._store.close()
        if abandoned or not landed:
            # Their threads would keep the interpreter from ending.
            logging.shutdown()
            os._exit(EXIT_DRAINED)
        return EXIT_DRAINED

    def _wait_for_bodies(self, deadline: float) -> None:
        """Wait for running bodies; an order to stop at once ends the wait."""
        while not self._crew.wait_until_idle(min(0.1, max(deadline - clock.monotonic(), 0))):
            if clock.monotonic() >= deadline or self._is_told_to_stop():
                return

    def _is_told_to_stop(self) -> bool:
        if not self._channel.is_open:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel.fileno(), selectors.EVENT_READ)
            while selector.select(timeout=0) and self._channel.is_open:
                self._obey(self._channel.receive())
        return self._stops_at_once


def _queue_options(queues: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    return {queue: settings.QUEUES.get(queue, {}) for queue in queues}


def _names_without_dead_letter() -> list[str]:
    return [
        name
        for definition in registered_jobs()
        if not definition.retry.dead_letter
        for name in (definition.name, *definition.aliases)
    ]
