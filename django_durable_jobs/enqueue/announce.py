"""Tell the workers of one commit's jobs, each queue once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import Wake

logger = logging.getLogger("django_durable_jobs.enqueue")


class Announcement:
    """What one commit tells the workers, however many enqueues it held.

    Every enqueue of a transaction sends its wakes through the same one, after the commit.
    The first tells all there is to tell of a queue, since all the jobs are visible by then;
    only jobs due at another time are news.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self._told: set[Wake] = set()

    def send(self, store: JobStore, wakes: Sequence[Wake]) -> None:
        """Wake the queues that were not told yet."""
        self.has_begun = True
        news = {Wake(wake.queue, max(wake.due_in, 0.0)) for wake in wakes} - self._told
        self._told |= news
        if not news:
            return
        try:
            store.wake(sorted(news, key=lambda wake: (wake.queue, wake.due_in)))
        except Exception:
            # The rows are committed and polling finds them; a caller told of an error here
            # would enqueue again.
            logger.warning(
                "jobs.wake.failed: workers will find the jobs by polling.", exc_info=True
            )


class _OfThread(threading.local):
    current: Announcement | None = None


_of_thread = _OfThread()


def announcement_of_transaction() -> Announcement:
    """The one that the next commit of this thread shares.

    One that has begun belongs to a commit that is over. One that has not may have outlived
    a rollback; nothing was told then, so the next transaction can take it.
    """
    current = _of_thread.current
    if current is None or current.has_begun:
        current = _of_thread.current = Announcement()
    return current
