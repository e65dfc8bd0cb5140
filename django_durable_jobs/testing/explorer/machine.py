"""The machine around a run: workers that claim and run, and a world that goes on meanwhile.

Time is moved and never slept through. Everything is bounded: a machine that does not come to
its end says so.
"""

from __future__ import annotations

import os
import socket
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from django.db import DatabaseError, connections

from django_durable_jobs import clock
from django_durable_jobs.conf import settings
from django_durable_jobs.events.publish import publish_event
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.jobs import declared_queues, registered_jobs
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.store import JobStore, get_store
from django_durable_jobs.store.rows import ClaimedJob, QueueDemand, Rescued, Settlement
from django_durable_jobs.worker.attempts import Attempts
from django_durable_jobs.worker.channel import Channel
from django_durable_jobs.worker.connections import fresh_connections
from django_durable_jobs.worker.crew import Run
from django_durable_jobs.worker.deadlines import Deadlines
from django_durable_jobs.worker.interruption import current_frames
from django_durable_jobs.worker.process import Worker, WorkerOptions
from django_durable_jobs.worker.settling import Outcome, Settler

from .observer import PATIENCE, Observer
from .wire import unwatched

PASSES_AT_MOST: Final = 5_000
CLAIMED_AT_ONCE: Final = 8
MISSED_AT_MOST: Final = 1_000
PUBLISHED_AT_MOST: Final = 5
"""Times that the world tries to publish one event."""

_LOOK_EVERY: Final = 0.02
_MOMENT: Final = timedelta(milliseconds=1)
_QUEUES_OF_ALL: Final = 10_000


class Stuck(Exception):
    """The machine came to no end; the message says how."""


class Worked(Protocol):
    """Something that runs what is due."""

    def run_due(self) -> bool:
        """Run some of what is due; False when nothing is."""
        ...


class GatheringSettler(Settler):
    """Takes in the outcomes of several bodies together, as a busy worker's does by itself."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._gathered: list[Outcome] = []

    def hand_in(self, outcome: Outcome) -> None:
        if outcome.answer is None:
            self._gathered.append(outcome)
        else:
            # Somebody waits for it.
            super().hand_in(outcome)

    def settle_gathered(self) -> None:
        """Land what was handed in until now."""
        gathered, self._gathered = self._gathered, []
        for outcome in gathered:
            super().hand_in(outcome)


class InlineWorker:
    """A worker whose parts are the real ones and whose passes are made one after another.

    It claims on the calling thread and runs each body in one slot of its own; the outcomes
    of what one claim took are landed together by a settler's thread, as in a worker
    process. So the order of its statements is the same at every run.
    """

    def __init__(self, worker_id: str = "explorer-1") -> None:
        self.worker_id = worker_id
        self.store: JobStore = get_store().for_worker()
        self._released = threading.Condition()
        self._landed: set[tuple[Any, int]] = set()
        self._settler = GatheringSettler(self.store, self._release)
        self._deadlines = Deadlines(
            grace=settings.KILL_GRACE, abandoned=lambda run: self._attempts.abandon(run)
        )
        self._attempts = Attempts(
            store=self.store,
            user_store=get_store(),
            settler=self._settler,
            deadlines=self._deadlines,
            is_draining=lambda: False,
        )
        self._settler.start()
        self._deadlines.start()
        self._slot = ThreadPoolExecutor(1, thread_name_prefix=f"{worker_id}-slot")

    def begin(self) -> None:
        """Forget what was of an earlier run of the flow."""
        self._landed.clear()

    def close(self) -> None:
        self._slot.submit(connections.close_all).result(PATIENCE)
        self._slot.shutdown()
        self._attempts.finish(PATIENCE)
        self._settler.finish(PATIENCE)
        self.store.close()

    def run_due(self) -> bool:
        queues = declared_queues()
        demands = [QueueDemand(queue, CLAIMED_AT_ONCE) for queue in queues]
        try:
            claimed = self.store.claim(
                self.worker_id, demands, lease=settings.LEASE, limit=CLAIMED_AT_ONCE
            )
            if claimed:
                self.run(claimed)
                return True
            probe = self.store.probe(queues)
            if probe.lapse_in is not None and probe.lapse_in < 0:
                self.run_rescued(self.rescue())
                return True
            if probe.due_in is not None and probe.due_in <= 0:
                self.store.arm(limit=_QUEUES_OF_ALL)
                return True
        except StoreUnavailable:
            # As the claimer does: ask again.
            return True
        return False

    def rescue(self) -> Rescued:
        """Take what lapsed, as any worker may."""
        dropped = [each.name for each in registered_jobs() if not each.retry.dead_letter]
        return self.store.rescue(
            self.worker_id,
            declared_queues(),
            limit=_QUEUES_OF_ALL,
            lease=settings.LEASE,
            drop_exhausted=dropped,
        )

    def run_rescued(self, rescued: Rescued) -> None:
        for buried in rescued.buried:
            self.do(partial(self._attempts.announce_buried, buried))
        self.run(rescued.claimed)

    def run(self, claimed: Sequence[ClaimedJob]) -> None:
        """Run these one after another, and land their outcomes together."""
        runs = [Run(each, CancelSignal(each.identity.job_id)) for each in claimed]
        for run in runs:
            self.do(partial(self._attempts.work, run))
        self._settler.settle_gathered()
        for run in runs:
            with self._released:
                if not self._released.wait_for(partial(self._is_released, run), PATIENCE):
                    raise Stuck(f"The outcome of job {run.claimed.identity.job_id} was not landed.")

    def do(self, act: Callable[[], object]) -> None:
        """Run *act* in the slot.

        Raises:
            Stuck: It came to no end.
        """
        try:
            self._slot.submit(act).result(PATIENCE)
        except TimeoutError:
            raise Stuck(f"A slot of worker {self.worker_id} came to no end.\n{_stacks()}") from None

    def _is_released(self, run: Run) -> bool:
        return run.key in self._landed

    def _release(self, outcomes: Sequence[Outcome], landed: Sequence[Settlement | None]) -> None:
        with self._released:
            self._landed.update(
                (outcome.claimed.identity.job_id, outcome.claimed.identity.claim)
                for outcome in outcomes
            )
            self._released.notify_all()


class BurstWorker:
    """A real worker, with all its threads, for as long as something is due; then another one."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._store = get_store().for_worker()

    def run_due(self) -> bool:
        armed = self._store.arm(limit=_QUEUES_OF_ALL)
        queues = declared_queues()
        if not armed and not self._store.probe(queues).queues:
            return False
        ours, theirs = socket.socketpair()
        with ours:
            options = WorkerOptions(
                worker_id=self._worker_id,
                queues=tuple(queues),
                slots=1,
                grace=timedelta(seconds=PATIENCE),
                burst=True,
            )
            Worker(options, Channel(theirs)).run()
        return True


class World:
    """What happens around the workers when they have nothing to do, and how it all ends.

    Attributes:
        missed: Parked runs that only the look for missed wakes brought back.
    """

    def __init__(
        self,
        observer: Observer,
        worker: Worked,
        *,
        events: Mapping[str, Any],
        store: JobStore,
        do: Callable[[Callable[[], object]], object] = lambda act: act(),
    ) -> None:
        self._observer = observer
        self._worker = worker
        self._events = events
        self._do = do
        self._store = store
        self._answered: set[tuple[Any, str]] = set()
        self._later: list[Callable[[], object]] = []
        self.missed = 0

    def later(self, act: Callable[[], object]) -> None:
        """Call *act* when the workers have nothing to do next."""
        self._later.append(act)

    def go_on(self) -> None:
        """Let the machine run until no job is live.

        Raises:
            Stuck: It came to no end.
        """
        for _ in range(PASSES_AT_MOST):
            if self._worker.run_due():
                continue
            if self._later:
                self._later.pop()()
            elif not self._observer.live_jobs():
                return
            elif not self._wake_missed() and not self._publish() and not self._let_time_pass():
                raise Stuck("Jobs are live, and nothing will ever bring them on.")
        raise Stuck(f"Jobs are live after {PASSES_AT_MOST} passes.")

    def _wake_missed(self) -> bool:
        # Whoever parked, published or ended a child has looked by now. What this finds, nobody
        # would have woken for a quarter of an hour.
        with unwatched():
            missed = self._store.wake_missed(limit=MISSED_AT_MOST)
        self.missed += missed
        return missed > 0

    def _publish(self) -> bool:
        """Publish what a parked run waits for, once for each wait."""
        published = False
        for wait in self._observer.open_waits():
            if wait.event in self._events and (wait.job_id, wait.step) not in self._answered:
                self._answered.add((wait.job_id, wait.step))
                payload = self._events[wait.event]
                self._do(partial(_publish, wait.event, payload, wait.key))
                published = True
        return published

    def _let_time_pass(self) -> bool:
        left = self._observer.next_due()
        if left is None:
            return False
        move_clock(left + _MOMENT)
        return True


def publish_at_once(observer: Observer, events: Mapping[str, Any]) -> None:
    """Publish what waits are open for, parked or not, on a connection of its own."""
    rows = observer.ask("select event, correlation_key from x_job_steps where status = 'waiting'")
    for event, key in rows:
        if event in events:
            publish_event(event, events[event], key=key)


class Held:
    """An act in an open transaction of another connection.

    It commits when told, or when somebody waits for its locks: they would wait for ever,
    since it is told only when nobody has anything left to do.
    """

    def __init__(self, act: Callable[[], object], is_blocked: Callable[[], bool]) -> None:
        self._act = act
        self._is_blocked = is_blocked
        self._begun = threading.Event()
        self._told = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="explorer-held")
        self._ended = self._thread.submit(self._hold)

    def wait_until_begun(self) -> None:
        """Return when it is done, or waits for a lock itself."""
        deadline = clock.monotonic() + PATIENCE
        while not self._begun.wait(_LOOK_EVERY) and not self._ended.done():
            if self._is_blocked():
                return
            if clock.monotonic() > deadline:
                raise Stuck("A transaction beside the run came to no end.")

    def commit(self) -> None:
        self._told.set()
        self._ended.result(PATIENCE)
        self._thread.shutdown()

    def _hold(self) -> None:
        try:
            with get_store().atomic():
                self._act()
                self._begun.set()
                while not self._told.wait(_LOOK_EVERY) and not self._is_blocked():
                    pass
        finally:
            connections.close_all()


def wait_unless_blocked(future: Future[Any], is_blocked: Callable[[], bool]) -> None:
    """Return when *future* is done, or some session waits for another's lock."""
    deadline = clock.monotonic() + PATIENCE
    while not future.done():
        try:
            future.exception(timeout=_LOOK_EVERY / 4)
        except TimeoutError:
            if is_blocked():
                return
            if clock.monotonic() > deadline:
                raise Stuck("Something beside the run came to no end.") from None


def _stacks() -> str:
    """Where the threads of this process stand."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in current_frames().items():
        parts += [f"{names.get(ident, ident)}:\n", *traceback.format_stack(frame)]
    return "".join(parts)


def move_clock(by: timedelta) -> None:
    """Move the database's clock as the product sees it, in this process."""
    path = os.environ.get(clock.SHIFT_FILE)
    if path is None:
        clock.move(by)
    else:
        Path(path).write_text(str((clock.shift() + by).total_seconds()))


def _publish(event: str, payload: Any, key: str | None) -> None:
    """Publish as an application does that tries again: perhaps twice, but not never."""
    for _ in range(PUBLISHED_AT_MOST):
        with fresh_connections():
            try:
                publish_event(event, payload, key=key)
            except (StoreUnavailable, DatabaseError):
                continue
            return
    raise Stuck(f"Event '{event}' could not be published.")
