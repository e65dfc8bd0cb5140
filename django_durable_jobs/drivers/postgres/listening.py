"""Hearing and sending wakes: LISTEN and NOTIFY on one channel."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
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
        try:
            self._connection.execute(f"listen {CHANNEL}")
        except psycopg.Error as error:
            raise self._broken(error) from error

    def receive(self, timeout: float) -> list[Wake]:
        if not self._heard:
            self._listen(timeout, proof=None)
        heard, self._heard = self._heard, []
        return heard

    def prove(self, timeout: float) -> bool:
        proof = f"{_PROOF} {uuid4().hex}"
        deadline = monotonic() + timeout
        # The statement itself may never be answered on a half-open connection.
        cut = threading.Timer(timeout, self._cut)
        cut.daemon = True
        cut.start()
        try:
            self._connection.execute("select pg_notify(%s, %s)", (CHANNEL, proof))
        except psycopg.Error as error:
            raise self._broken(error) from error
        finally:
            cut.cancel()
        while (left := deadline - monotonic()) > 0:
            if self._listen(left, proof=proof):
                return True
        return False

    def close(self) -> None:
        self._connection.close()

    def _listen(self, timeout: float, *, proof: str | None) -> bool:
        """Collect what comes within *timeout*, at least one packet; whether *proof* was in it."""
        is_proven = False
        try:
            # To the end of the packet: what stands in it behind the proof comes no second time.
            for notification in self._connection.notifies(timeout=timeout, stop_after=1):
                if notification.payload == proof:
                    is_proven = True
                elif (wake := _wake(notification.payload)) is not None:
                    self._heard.append(wake)
        except psycopg.Error as error:
            raise self._broken(error) from error
        return is_proven

    def _cut(self) -> None:
        """Hang up from another thread: whoever waits for an answer gets an end of file."""
        with (
            suppress(OSError, psycopg.Error),
            # A copy, so that the number is not closed under the connection that owns it.
            socket.socket(fileno=os.dup(self._connection.fileno())) as ours,
        ):
            ours.shutdown(socket.SHUT_RDWR)

    def _broken(self, error: Exception) -> StoreUnavailable:
        self._connection.close()
        reason = " ".join(str(error).split()).rstrip(".")
        return StoreUnavailable(f"The wake-up session on '{self._alias}' broke: {reason}.")


def _wake(text: str) -> Wake | None:
    """The wake that a notification is; None for the proofs of others and for what is not ours."""
    due_in, _, queue = text.partition(" ")
    if due_in == _PROOF or not queue:
        return None
    try:
        return Wake(queue, float(due_in))
    except ValueError:
        # Anybody may notify on a channel.
        return None


def payloads(wakes: Sequence[Wake]) -> list[str]:
    """The notifications for *wakes*, the soonest of each queue only."""
    soonest: dict[str, Wake] = {}
    for wake in wakes:
        known = soonest.get(wake.queue)
        if known is None or wake.due_in < known.due_in:
            soonest[wake.queue] = wake
    return [payload(wake) for wake in soonest.values()]
