"""A process that was forked from one with a store of its own."""

from __future__ import annotations

import os

from django_durable_jobs.testing.conformance.given import enqueue, shown

from .stepping import REAL

pytestmark = REAL


def backend(worker) -> int:
    (row,) = worker.executor._using(
        lambda connection: connection.execute("select pg_backend_pid()").fetchall()
    )
    return int(row[0])


def in_a_fork(act) -> bytes:
    """What *act* answers there; nothing when it raised."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, act())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as answer:
        return answer.read()


def test_a_forked_process_talks_to_the_database_on_connections_of_its_own(worker):
    """Two processes on one socket would read each other's answers."""
    job_id = enqueue(worker)
    ours = backend(worker)

    theirs = in_a_fork(lambda: str(backend(worker)).encode())

    assert theirs not in (b"", str(ours).encode())
    assert backend(worker) == ours
    assert shown(worker, job_id).state == "ready"
