"""Wakes within one process: each listener has a box, each wake goes into every box."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from weakref import WeakSet

from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store.rows import Wake


class MemoryListener:
    """Hears the wakes of its store from the moment it was made."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._box: list[Wake] = []
        self._is_closed = False

    def receive(self, timeout: float) -> list[Wake]:
        with self._arrived:
            self._arrived.wait_for(lambda: self._box or self._is_closed, timeout)
            if self._is_closed:
                raise StoreUnavailable("This listener was closed.", "Open another with listen().")
            heard, self._box = self._box, []
            return heard

    def prove(self, timeout: float) -> bool:
        """True while open: between two threads there is no session that could break."""
        with self._arrived:
            return not self._is_closed

    def close(self) -> None:
        with self._arrived:
            self._is_closed = True
            self._arrived.notify_all()

    def deliver(self, wakes: Sequence[Wake]) -> None:
        with self._arrived:
            if not self._is_closed:
                self._box.extend(wakes)
                self._arrived.notify_all()


class Wakes:
    """The listeners of one store; one that nobody keeps any more is forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: WeakSet[MemoryListener] = WeakSet()

    def listen(self) -> MemoryListener:
        listener = MemoryListener()
        with self._lock:
            self._listeners.add(listener)
        return listener

    def send(self, wakes: Sequence[Wake]) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.deliver(wakes)
