"""A worker in the test's own process, with a supervisor that the test plays."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID, uuid4

from django.db import connections

from django_durable_jobs.jobs import declared_queues
from django_durable_jobs.store import get_store
from django_durable_jobs.store.rows import ClaimIdentity
from django_durable_jobs.worker.channel import Channel, named
from django_durable_jobs.worker.process import Worker, WorkerOptions


class Supervisor:
    """What a worker hears of the world, said by the test."""

    def __init__(self, end: socket.socket) -> None:
        self._channel = Channel(end)

    def lose(self, job_id: UUID, claim: int = 1) -> None:
        """Say that the claim no longer holds the job, as the next renewal finds out."""
        identity = ClaimIdentity(job_id=job_id, worker_id="", claim=claim)
        self._channel.send("lost", claims=named([identity]))

    def hear(self) -> None:
        while self._channel.is_open:
            self._channel.receive()


def work_until_idle_beside(act: Callable[[Supervisor], None], *, slots: int = 4) -> None:
    """Run a worker until nothing is left to claim, and *act* in a thread beside it.

    Raises:
        BaseException: What *act* raised.
    """
    get_store().arm(limit=100)
    ours, supervisors = socket.socketpair()
    supervisor = Supervisor(supervisors)
    faults: list[BaseException] = []

    def acting() -> None:
        try:
            act(supervisor)
        except BaseException as error:
            faults.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=target) for target in (supervisor.hear, acting)]
    with _handlers_kept():
        for thread in threads:
            thread.start()
        options = WorkerOptions(
            worker_id=f"beside-{uuid4().hex[:8]}",
            queues=declared_queues(),
            slots=slots,
            grace=timedelta(seconds=30),
            burst=True,
        )
        assert Worker(options, Channel(ours)).run() == 0
    ours.close()
    for thread in threads:
        thread.join(timeout=20)
    supervisors.close()
    if faults:
        raise faults[0]


@contextmanager
def _handlers_kept() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
