"""The process tree: start, watch, restart, drain."""

from __future__ import annotations

import logging
import selectors
import signal as signals
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Final

from django_durable_jobs import clock
from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.lifecycle.backoff import Backoff
from django_durable_jobs.store import get_store

from .child import Child, ChildOptions
from .hearing import Hearing
from .keeper import NEVER, Keeper

logger = logging.getLogger("django_durable_jobs.supervisor")

STOP_SECONDS: Final = 10.0
"""How long a worker may take to end behind its grace before it is killed."""

SOON: Final = 5.0
"""A worker that dies within so many seconds of its start is started again after a pause."""

EXIT_OK: Final = 0
EXIT_KILLED: Final = 1


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """What ``runjobs`` was told.

    Attributes:
        processes: Workers.
        log: Level of the workers' log on standard error, "" to leave logging alone.
        say: Told what happens, a line at a time.
    """

    processes: int
    slots: int
    queues: tuple[str, ...]
    grace: timedelta
    burst: bool
    log: str
    say: Callable[[str], None]


class Supervisor:
    """Runs until it is told to stop, or in burst mode until nothing is left."""

    def __init__(self, options: SupervisorOptions) -> None:
        self._options = options
        self._say = options.say
        self._store = get_store().for_worker()
        self._children: list[Child] = []
        self._signals, self._signals_end = socket.socketpair()
        self._signals_end.setblocking(False)
        self._orders = 0
        self._restarts = Backoff(first=0.5, longest=30)
        self._start_at: list[float] = []
        self._exit = EXIT_OK
        self._hearing = Hearing(
            self._store,
            heard=lambda wakes: self._keeper.heard(wakes),
            changed=lambda: self._keeper.look(),
        )
        self._keeper = Keeper(
            self._store,
            queues=options.queues,
            lease=settings.LEASE,
            poll_max=settings.POLL_MAX,
            children=lambda: list(self._children),
            wake=lambda: self._tell_all("wake"),
            rescue=self._tell_all_to_rescue,
            is_wake_proven=lambda: self._hearing.is_proven,
        )

    def run(self) -> int:
        """Start everything and serve; the exit code, 0 when all workers ended in order."""
        with self._signals_caught():
            if not self._wait_for_store():
                return self._exit
            self._keeper.start()
            self._hearing.start()
            for _ in range(self._options.processes):
                self._start_child()
            self._say(self._described())
            self._serve()
            self._drain()
        self._hearing.stop(timeout=2)
        self._keeper.stop(timeout=5)
        self._store.close()
        self._signals.close()
        self._signals_end.close()
        return self._exit

    # -- signals

    @contextmanager
    def _signals_caught(self) -> Iterator[None]:
        before = {
            number: signals.signal(number, self._on_signal)
            for number in (signals.SIGINT, signals.SIGTERM)
        }
        # A worker's end is also seen when a program that it started keeps its channel open.
        before[signals.SIGCHLD] = signals.signal(signals.SIGCHLD, lambda *_: self._nudge())
        try:
            yield
        finally:
            for number, handler in before.items():
                signals.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._orders += 1
        self._nudge()

    def _nudge(self) -> None:
        """Bring the main loop round, from whatever thread or handler."""
        # A full buffer is full of such nudges; a closed one has nobody behind it any more.
        with suppress(OSError):
            self._signals_end.send(b"s")

    # -- serving

    def _wait_for_store(self) -> bool:
        """Ask the store until it answers; False when told to stop meanwhile."""
        backoff = Backoff(first=0.5, longest=10)
        while True:
            try:
                self._store.probe(self._options.queues)
            except StoreUnavailable as error:
                seconds = backoff.wait()
                self._say(f"{error} Trying again in {seconds:.1f} s.")
                until = clock.monotonic() + seconds
                while not self._orders and clock.monotonic() < until:
                    self._wait(until)
                if self._orders:
                    return False
            else:
                return True

    def _serve(self) -> None:
        while not self._orders:
            now = clock.monotonic()
            due = [when for when in self._start_at if when <= now]
            self._start_at = [when for when in self._start_at if when > now]
            for _ in due:
                self._start_child()
            if not self._children and not self._start_at:
                # Burst: each ended by itself.
                return
            self._wait(min(self._start_at, default=NEVER))
            self._look_after_children()

    def _wait(self, until: float) -> None:
        """Take in what workers and signals say, once, up to monotonic time *until*."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals, selectors.EVENT_READ)
            for child in self._children:
                until = min(until, child.ends_by)
                if child.channel.is_open:
                    # One that was stopped takes what was kept for it once it goes on.
                    writes = selectors.EVENT_WRITE if child.channel.has_outgoing else 0
                    selector.register(child.channel.fileno(), selectors.EVENT_READ | writes, child)
            timeout = min(until - clock.monotonic(), settings.LEASE.total_seconds() / 4)
            for key, events in selector.select(max(timeout, 0.0)):
                if isinstance(key.data, Child):
                    if events & selectors.EVENT_WRITE:
                        key.data.channel.flush()
                    if events & selectors.EVENT_READ:
                        self._take_in(key.data)
                else:
                    self._signals.recv(64)

    def _take_in(self, child: Child) -> None:
        for message in child.channel.receive():
            if message["kind"] == "due":
                self._keeper.due_in(message["seconds"])
            else:
                child.take_in(message)
                if message["kind"] == "ready":
                    self._keeper.register()
                    # What was woken before it could listen.
                    child.channel.send("rescue")
        if not child.channel.is_open:
            child.ends_by = clock.monotonic() + STOP_SECONDS

    def _start_child(self) -> None:
        options = ChildOptions(
            queues=self._options.queues,
            slots=self._options.slots,
            grace=self._options.grace.total_seconds(),
            burst=self._options.burst,
            log=self._options.log,
        )
        try:
            self._children.append(Child(options, kept=self._nudge))
        except OSError as error:
            # No process or no memory to be had for now.
            pause = self._restarts.wait()
            self._say(f"A worker could not be started: {error}. Trying again in {pause:.1f} s.")
            self._start_at.append(clock.monotonic() + pause)

    def _look_after_children(self) -> None:
        """Bury those that have ended, kill those that should have, tell of lapsed leases."""
        for child in list(self._children):
            code = child.process.poll()
            if code is not None:
                self._bury(child, code)
            elif child.ends_by <= clock.monotonic():
                # Its death brings the loop round again.
                child.process.kill()
                child.ends_by = clock.monotonic() + STOP_SECONDS
        # Here as well as after each renewal, since a renewal may hang.
        self._keeper.tell_overdue()

    def _bury(self, child: Child, code: int) -> None:
        for message in child.channel.receive_rest():
            child.take_in(message)
        has_ended_in_order = code == 0 and not child.claims()
        self._children.remove(child)
        child.channel.close()
        self._keeper.bury(child)
        if has_ended_in_order and (self._orders or self._options.burst):
            return
        self._say(f"Worker {child.pid} {_ending(code)}; its jobs are given to the others.")
        if self._orders:
            return
        if clock.monotonic() - child.started_at > SOON:
            self._restarts.reset()
        pause = 0.0 if self._restarts.is_fresh and child.is_ready else self._restarts.wait()
        if pause:
            self._say(f"A new worker starts in {pause:.1f} s.")
        self._start_at.append(clock.monotonic() + pause)

    # -- to the workers

    def _tell_all(self, kind: str) -> None:
        for child in list(self._children):
            child.channel.hint(kind)

    def _tell_all_to_rescue(self) -> None:
        # Which of them has a free slot is not known here, and rows are skipped when locked.
        for child in list(self._children):
            if child.is_ready:
                child.channel.hint("rescue")

    # -- the end

    def _drain(self) -> None:
        if not self._children:
            return
        grace = self._options.grace.total_seconds()
        self._say(
            f"Stopping: no job is claimed any more; running ones have {grace:g} s to end. "
            "Signal again to stop at once."
        )
        for child in self._children:
            child.channel.send("drain", grace=grace)
        # Two signals at once are a first and a second one.
        ordered = 1
        deadline = clock.monotonic() + grace + settings.KILL_GRACE.total_seconds() + STOP_SECONDS
        while self._children and clock.monotonic() < deadline:
            if self._orders > ordered:
                ordered = self._orders
                self._say("Stopping at once; interrupted jobs run again elsewhere.")
                for child in self._children:
                    child.channel.send("stop")
                deadline = min(deadline, clock.monotonic() + STOP_SECONDS)
            self._wait(deadline)
            self._look_after_children()
        for child in list(self._children):
            self._say(f"Worker {child.pid} did not end in time and is killed.")
            self._exit = EXIT_KILLED
            child.process.kill()
            self._bury(child, child.process.wait())
        self._say("Stopped.")

    def _described(self) -> str:
        options = self._options
        workers = "1 worker" if options.processes == 1 else f"{options.processes} workers"
        return (
            f"Running jobs: {workers} with {options.slots} slots each, queues "
            f"{', '.join(options.queues)}, lease {settings.LEASE.total_seconds():g} s, "
            f"grace {options.grace.total_seconds():g} s."
        )


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signals.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
