"""Hear the wakes, and know whether they can be heard."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from django_durable_jobs import clock
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.lifecycle.backoff import Backoff
from django_durable_jobs.store.port import JobStore, Listener
from django_durable_jobs.store.rows import Wake

logger = logging.getLogger("django_durable_jobs.supervisor")

PROVE_EVERY: Final = 60.0
PROOF_TIMEOUT: Final = 5.0
RECEIVE_TIMEOUT: Final = 1.0


class Hearing:
    """One thread on a listening session.

    The session counts only while it is proven: it sent a wake to itself and heard it, at the
    start and once a minute. A half-open connection fails that, and another is opened;
    meanwhile the store is polled.
    """

    def __init__(
        self,
        store: JobStore,
        *,
        heard: Callable[[Sequence[Wake]], None],
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._heard = heard
        self._changed = changed
        self._is_stopping = threading.Event()
        self._backoff = Backoff(first=0.5, longest=30)
        self.is_proven = False
        self._thread = threading.Thread(target=self._serve, name="hearing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        self._is_stopping.set()
        self._thread.join(timeout)

    def _serve(self) -> None:
        while not self._is_stopping.is_set():
            try:
                listener = self._store.listen()
                if listener is None:
                    return
                self._listen(listener)
            except StoreUnavailable as error:
                if self._backoff.is_fresh:
                    logger.warning("jobs.wake.lost: polling until it is back. %s", error)
            except Exception:
                logger.exception("jobs.wake.failed")
            self._set_proven(False)
            self._is_stopping.wait(self._backoff.wait())

    def _listen(self, listener: Listener) -> None:
        prove_at = clock.monotonic()
        try:
            while not self._is_stopping.is_set():
                if clock.monotonic() >= prove_at:
                    if not listener.prove(PROOF_TIMEOUT):
                        raise StoreUnavailable(
                            "A wake sent to itself did not come back.",
                            "Behind a pooler, name a direct alias in "
                            'DURABLE_JOBS["LISTEN_DATABASE"].',
                        )
                    self._set_proven(True)
                    if not self._backoff.is_fresh:
                        logger.warning("jobs.wake.back: wakes are heard again.")
                    self._backoff.reset()
                    prove_at = clock.monotonic() + PROVE_EVERY
                wakes = listener.receive(RECEIVE_TIMEOUT)
                if wakes:
                    self._heard(wakes)
        finally:
            listener.close()

    def _set_proven(self, is_proven: bool) -> None:
        if self.is_proven != is_proven:
            self.is_proven = is_proven
            # What came while nothing was heard is found by looking.
            self._changed()
