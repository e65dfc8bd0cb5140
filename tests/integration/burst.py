"""A worker in the test's own process, with the threads and connections of a real one."""

from __future__ import annotations

import signal
import socket
import threading
from datetime import timedelta
from uuid import uuid4

from django_durable_jobs.jobs import declared_queues
from django_durable_jobs.store import get_store
from django_durable_jobs.worker.channel import Channel
from django_durable_jobs.worker.process import Worker, WorkerOptions


def work_until_idle(*, slots: int = 4) -> None:
    """Arm what is due, then claim, run and settle until nothing is left to claim."""
    store = get_store()
    while store.arm(limit=100):
        pass
    ours, supervisors = socket.socketpair()
    # A supervisor that listens and says nothing; the end of file ends it.
    hears = threading.Thread(target=_hear, args=[supervisors])
    hears.start()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        options = WorkerOptions(
            worker_id=f"burst-{uuid4().hex[:8]}",
            queues=declared_queues(),
            slots=slots,
            grace=timedelta(seconds=30),
            burst=True,
        )
        assert Worker(options, Channel(ours)).run() == 0
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        ours.close()
        hears.join(timeout=10)
        supervisors.close()


def _hear(end: socket.socket) -> None:
    while end.recv(65_536):
        pass
