"""Hearing and sending wakes: LISTEN and NOTIFY on one channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import psycopg

from django_durable_jobs.clock import monotonic
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store.rows import Wake

from .executor import connect

CHANNEL: Final = "x_jobs_wake"
"""One channel for all queues: a channel's name ends at 63 bytes, a queue's need not."""

_PROOF: Final = "proof"


def payload(wake: Wake) -> str:
    """The text of a notification: seconds until due, then the queue's name."""
    return f"{max(wake.due_in, 0.0):.3f} {wake.queue}"


class PostgresListener:
    """A LISTEN session on a connection of its own."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._heard: list[Wake] = []
        self._connection = connect(alias)
        self._connection.execute(f"listen {CHANNEL}")

    def receive(self, timeout: float) -> list[Wake]:
        if not self._heard:
            self._listen(timeout, proof=None)
        heard, self._heard = self._heard, []
        return heard

    def prove(self, timeout: float) -> bool:
        proof = f"{_PROOF} {uuid4().hex}"
        try:
            self._connection.execute("select pg_notify(%s, %s)", (CHANNEL, proof))
        except psycopg.OperationalError as error:
            raise self._broken(error) from error
        deadline = monotonic() + timeout
        while (left := deadline - monotonic()) > 0:
            if self._listen(left, proof=proof):
                return True
        return False

    def close(self) -> None:
        self._connection.close()

    def _listen(self, timeout: float, *, proof: str | None) -> bool:
        """Collect what comes within *timeout*; True as soon as *proof* is heard."""
        try:
            for notification in self._connection.notifies(timeout=timeout, stop_after=1):
                text = notification.payload
                if text == proof:
                    return True
                due_in, _, queue = text.partition(" ")
                # Proofs of other sessions come by as well.
                if due_in != _PROOF and queue:
                    self._heard.append(Wake(queue, float(due_in)))
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._broken(error) from error
        return False

    def _broken(self, error: Exception) -> StoreUnavailable:
        self._connection.close()
        return StoreUnavailable(f"The wake-up session on '{self._alias}' broke: {error}.")


def payloads(wakes: Sequence[Wake]) -> list[str]:
    """The notifications for *wakes*, the soonest of each queue only."""
    soonest: dict[str, Wake] = {}
    for wake in wakes:
        known = soonest.get(wake.queue)
        if known is None or wake.due_in < known.due_in:
            soonest[wake.queue] = wake
    return [payload(wake) for wake in soonest.values()]
