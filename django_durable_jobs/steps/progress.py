"""How far a run has come, for people who watch it."""

from __future__ import annotations

import logging
import threading
from functools import cache
from typing import Final

from django_durable_jobs import clock
from django_durable_jobs.payloads import Codec

from .execution import Execution

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_WRITES: Final = 1.0


class Progress:
    """Takes any number of reports and writes at most one a second; the last one counts."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._lock = threading.Lock()
        self._waiting: str | None = None
        self._next_write: float | None = None

    def report(self, value: object) -> None:
        """Keep *value*, and write it if the last write is a second ago.

        Raises:
            PayloadInvalid: It has no exact JSON form.
            PayloadTooLarge: It is above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
        """
        subject = f"Progress of job '{self._execution.claimed.name}'"
        text = _json().encode(value, subject=subject, path="progress")
        if not self._execution.recorded:
            return
        now = clock.monotonic()
        with self._lock:
            self._waiting = text
            if self._next_write is not None and now < self._next_write:
                return
            self._next_write = now + SECONDS_BETWEEN_WRITES
        self.flush()

    def flush(self) -> None:
        """Write what was kept back; nothing once the attempt was cancelled. Never raises."""
        with self._lock:
            text, self._waiting = self._waiting, None
        if text is None or self._execution.signal.is_set:
            return
        try:
            self._execution.store.record_progress(self._execution.claimed.identity, text)
        except Exception:
            # Progress is for people; a run must not fail because nobody could be told.
            logger.warning(
                "jobs.progress.lost: progress of job %s was not stored.",
                self._execution.claimed.identity.job_id,
                exc_info=True,
            )


@cache
def _json() -> Codec:
    return Codec()
