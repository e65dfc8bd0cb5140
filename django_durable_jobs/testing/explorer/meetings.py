"""What else happens in front of a statement: events, other workers, a lease that lapses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connections

from django_durable_jobs.conf import settings

from .machine import Held, InlineWorker, World, move_clock, publish_at_once, wait_unless_blocked
from .observer import PATIENCE, Observer
from .wire import Boundary, Wire

_PAST: Final = timedelta(seconds=1)


class Meetings:
    """The meetings of one run; at most one of them takes place.

    What was begun and not ended when the run's own worker goes on is ended when that has
    nothing to do.

    Attributes:
        problems: What the run's own worker did that it must not.
    """

    def __init__(self, observer: Observer, other: InlineWorker, events: Mapping[str, Any]) -> None:
        self._observer = observer
        self._other = other
        self._events = events
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="explorer-beside")
        self._go_on = threading.Event()
        self._paused = threading.Event()
        self.problems: list[str] = []
        self.acts: dict[str, Callable[[Boundary], object]] = {
            "event": self._event,
            "held-event": self._held_event,
            "other-worker": self._other_worker,
            "lapse": self._lapse,
        }

    def take_place_in(self, wire: Wire, worker: InlineWorker, world: World) -> None:
        self._wire, self._worker, self._world = wire, worker, world

    def let_go(self) -> None:
        """Nothing may wait any longer: the run is over, or given up."""
        self._go_on.set()

    def close(self) -> None:
        self._go_on.set()
        self._beside.submit(connections.close_all).result(PATIENCE)
        self._beside.shutdown()

    def _event(self, boundary: Boundary) -> None:
        self._do_beside(lambda: publish_at_once(self._observer, self._events))

    def _held_event(self, boundary: Boundary) -> None:
        held = Held(
            lambda: publish_at_once(self._observer, self._events),
            self._observer.someone_is_blocked,
        )
        held.wait_until_begun()
        self._world.later(held.commit)

    def _other_worker(self, boundary: Boundary) -> None:
        def run_all() -> None:
            while self._other.run_due():
                pass

        self._do_beside(run_all)

    def _lapse(self, boundary: Boundary) -> None:
        move_clock(settings.LEASE + _PAST)
        rescued = self._other.rescue()
        if not rescued.claimed:
            return
        self._wire.pause_after("load_steps", self._pause)
        future = self._beside.submit(self._other.run_rescued, rescued)
        wait_unless_blocked(future, self._paused.is_set)
        if future.done():
            # A body without steps reads none; left there, the pause would hit the first worker.
            self._wire.pause_no_more()
        job_ids = [each.identity.job_id for each in rescued.claimed]
        kept = self._observer.kept_of(job_ids) if self._paused.is_set() else None
        self._world.later(lambda: self._resume(future, job_ids, kept))

    def _pause(self) -> None:
        self._paused.set()
        self._go_on.wait(PATIENCE)

    def _resume(
        self, future: Future[None], job_ids: Sequence[UUID], kept: list[str] | None
    ) -> None:
        if kept is not None:
            now = self._observer.kept_of(job_ids)
            for line in sorted({*kept} ^ {*now}):
                when = "was" if line in kept else "is"
                self.problems.append(
                    f"A claim that another worker had taken changed its job: there {when} {line}."
                )
        self._go_on.set()
        future.result(PATIENCE)

    def _do_beside(self, act: Callable[[], object]) -> None:
        """Do it now, or as far as it gets without the locks of the run's own worker."""
        future = self._beside.submit(act)
        wait_unless_blocked(future, self._observer.someone_is_blocked)
        self._world.later(lambda: future.result(PATIENCE))
