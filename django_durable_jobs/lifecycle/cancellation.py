"""Tell a running body that it should stop, and why."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django_durable_jobs.exceptions import Aborted, RunFault

logger = logging.getLogger(__name__)

CancelListener = Callable[[RunFault], object]
"""Called once, with the reason, on the thread that cancelled."""


class CancelSignal:
    """One attempt's order to stop: given at most once, for one reason, by any thread.

    The worker owns it and gives the order when the deadline passes, the lease is lost or
    the process drains, and in any case when the attempt has ended, so that a body that
    still runs in the background can write nothing more.
    """

    def __init__(self, job_id: object) -> None:
        self.job_id = job_id
        self._lock = threading.Lock()
        self._set = threading.Event()
        self._reason: RunFault | None = None
        # A dict keeps the order of subscription and takes the same callable twice.
        self._listeners: dict[object, CancelListener] = {}

    @property
    def is_set(self) -> bool:
        """Whether the order was given."""
        return self._set.is_set()

    @property
    def reason(self) -> RunFault | None:
        """Why; None until the order is given."""
        return self._reason

    def cancel(self, reason: RunFault) -> bool:
        """Give the order; whether it was the first. A later reason changes nothing.

        Listeners are called before it returns. One that raises is logged, and the
        others are called all the same.
        """
        with self._lock:
            if self._reason is not None:
                return False
            self._reason = reason
            listeners = list(self._listeners.values())
            self._listeners.clear()
            self._set.set()
        for listener in listeners:
            self._tell(listener, reason)
        return True

    def end(self) -> None:
        """Close the attempt: whatever it still tries to write is refused from now on."""
        self.cancel(Aborted(self.job_id, "it has ended"))

    def wait(self, timeout: float | None = None) -> bool:
        """Block up to *timeout* seconds until the order is given; whether it was."""
        return self._set.wait(timeout)

    def check(self) -> None:
        """Return if the attempt may go on.

        Raises:
            Aborted: The order was given.
        """
        reason = self._reason
        if reason is not None:
            why = reason.reason if isinstance(reason, Aborted) else reason.code
            raise Aborted(self.job_id, why) from reason

    def subscribe(self, listener: CancelListener) -> Callable[[], None]:
        """Call *listener* when the order is given, at once if it already was.

        Returns:
            A callable that undoes the subscription; calling it twice does no harm.
        """
        key = object()
        with self._lock:
            reason = self._reason
            if reason is None:
                self._listeners[key] = listener

        def unsubscribe() -> None:
            with self._lock:
                self._listeners.pop(key, None)

        if reason is not None:
            self._tell(listener, reason)
        return unsubscribe

    @contextmanager
    def narrowed(self) -> Iterator[CancelSignal]:
        """A signal for a part of the attempt: follows this one, and may be set alone.

        On leaving, the tie is cut, so that an attempt of many parts gathers no listeners.
        """
        part = CancelSignal(self.job_id)
        unsubscribe = self.subscribe(part.cancel)
        try:
            yield part
        finally:
            unsubscribe()

    def _tell(self, listener: CancelListener, reason: RunFault) -> None:
        try:
            listener(reason)
        except Exception:
            logger.exception("A listener to the cancelling of job %s raised.", self.job_id)
