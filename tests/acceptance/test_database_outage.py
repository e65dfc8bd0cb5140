"""``runjobs`` without a database: it says so, waits, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from django_durable_jobs.models import Job

from .app import ledger as book
from .app.jobs import GATE, pass_gate
from .conditions import until
from .conftest import StartWorkers
from .forwarder import Forwarder, forwarder
from .workers import Workers

pytestmark = pytest.mark.usefixtures("ledger")


@pytest.fixture
def door(transactional_db: None) -> Iterator[Forwarder]:
    """The only way to the database for the workers of a test; closed at first."""
    with forwarder() as door:
        yield door


def test_a_worker_that_starts_before_the_database_says_so_and_waits_for_it(
    start_workers: StartWorkers, door: Forwarder
):
    result = pass_gate.enqueue(guest="ann")
    book.write(GATE)
    workers = start_workers("--processes", "1", DATABASE_URL=door.url)

    until(lambda: "database" in workers.said().lower(), seconds=20)
    # Long enough for a second try, and for whatever a first failure leads to.
    until(lambda: len(_complaints(workers)) >= 2, seconds=30, otherwise=workers.said)
    assert "Traceback" not in workers.said()
    assert len(_complaints(workers)) < 10, workers.said()

    door.open()
    until(lambda: _state(result.id) == "done", seconds=40, otherwise=workers.said)
    assert "Traceback" not in workers.said()
    workers.stop()


@pytest.mark.chaos
def test_a_worker_goes_on_after_an_outage(start_workers: StartWorkers, door: Forwarder):
    door.open()
    workers = start_workers("--processes", "1", DATABASE_URL=door.url)
    first = pass_gate.enqueue(guest="ann")
    book.write(GATE)
    until(lambda: _state(first.id) == "done", seconds=20, otherwise=workers.said)

    door.close()
    until(lambda: _complaints(workers), seconds=30, otherwise=workers.said)
    second = pass_gate.enqueue(guest="bob")
    door.open()

    until(lambda: _state(second.id) == "done", seconds=40, otherwise=workers.said)
    assert "Traceback" not in workers.said()
    workers.stop()


def _complaints(workers: Workers) -> list[str]:
    return [line for line in workers.said().splitlines() if "database" in line.lower()]


def _state(job_id: UUID) -> str:
    return Job.objects.values_list("state", flat=True).get(pk=job_id)
