"""Async bodies in real worker processes."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest

from django_durable_jobs.models import Job

from .app import ledger as book
from .app.jobs import GATE, pass_gate, wait_for_ever, walk
from .conditions import until
from .conftest import StartWorkers
from .process_tree import kill

pytestmark = pytest.mark.usefixtures("ledger")


def test_async_flows_survive_the_kill_of_their_worker(start_workers: StartWorkers):
    """Four of them on one event loop: what each had finished is not done again."""
    guests = ["ann", "bob", "cid", "eve"]
    workers = start_workers("--processes", "1", "--threads", "4")
    results = [walk.enqueue(guest=guest) for guest in guests]
    until(lambda: len(_at_the_gate()) == 4, seconds=40, otherwise=workers.said)
    (first,) = set(_at_the_gate())

    kill(first)
    until(lambda: len(_at_the_gate()) == 8, seconds=40, otherwise=workers.said)
    book.write(GATE)
    until(
        lambda: {_state(result.id) for result in results} == {"done"},
        seconds=40,
        otherwise=workers.said,
    )

    done = Counter(book.entries())
    for guest in guests:
        once = ("came", "left a coat", "left a hat", "went")
        assert [done[f"{guest} {what}"] for what in once] == [1, 1, 1, 1]
    assert first not in _at_the_gate()[4:]
    assert [walk.get_result(result.id).return_value for result in results] == guests


def test_a_cancelled_async_job_is_told_and_the_jobs_behind_it_get_its_slot(
    start_workers: StartWorkers,
):
    workers = start_workers("--processes", "1", "--threads", "1")
    waiting = wait_for_ever.enqueue()
    until(lambda: "began" in book.entries(), seconds=40, otherwise=workers.said)
    book.write(GATE)
    behind = [pass_gate.enqueue(guest=guest) for guest in ("ann", "bob", "cid")]

    assert waiting.cancel()
    until(
        lambda: {_state(result.id) for result in behind} == {"done"},
        seconds=20,
        otherwise=workers.said,
    )

    assert "cancelled" in book.entries()
    row = Job.objects.get(pk=waiting.id)
    assert (row.state, row.attempt, row.last_error) == ("cancelled", 1, "")
    assert workers.stop() == 0


def _at_the_gate() -> list[int]:
    """The processes of those that have come to the gate, in order."""
    return [pid for entry, pid in book.rows() if entry.endswith("at the gate")]


def _state(job_id: UUID) -> str:
    return Job.objects.get(pk=job_id).state
