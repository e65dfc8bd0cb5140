"""Who holds a job, and how soon it goes on when its holder is gone."""

from __future__ import annotations

import os
import signal
from time import monotonic
from uuid import UUID

import pytest

from django_durable_jobs.models import Job

from .app import ledger as book
from .app.jobs import GATE, hold_gil, pass_gate
from .conditions import until
from .conftest import StartWorkers
from .process_tree import kill

pytestmark = pytest.mark.usefixtures("ledger")


def test_a_body_that_holds_the_interpreter_lock_longer_than_the_lease_runs_once(
    start_workers: StartWorkers,
):
    """The child cannot renew anything meanwhile; the supervisor does it for it."""
    workers = start_workers("--processes", "2", JOBS_LEASE="2s")
    result = hold_gil.enqueue(microseconds=6_000_000)

    until(lambda: _state(result.id) == "done", seconds=40, otherwise=workers.said)

    assert book.entries() == ["began", "ended"]
    job = Job.objects.get(pk=result.id)
    assert (job.attempt, job.claims) == (1, 1)


def test_a_killed_childs_job_starts_again_long_before_its_lease_lapses(
    start_workers: StartWorkers,
):
    """The supervisor saw the child die, so nobody waits for the lease."""
    workers = start_workers("--processes", "2", JOBS_LEASE="60s")
    pass_gate.enqueue(guest="ann")
    first = until(lambda: _arrivals("ann"), seconds=20, otherwise=workers.said)[0]

    killed_at = monotonic()
    kill(first)
    until(lambda: len(_arrivals("ann")) == 2, seconds=15, otherwise=workers.said)
    print(f"started again {monotonic() - killed_at:.2f} s after the kill")

    assert _arrivals("ann")[1] != first
    book.write(GATE)
    until(lambda: "ann went" in book.entries(), seconds=10, otherwise=workers.said)
    assert book.entries().count("ann went") == 1


def test_the_job_of_a_lost_machine_starts_again_when_its_lease_lapses(
    start_workers: StartWorkers,
):
    """Nobody is left there to tell, so the others wait for the lease, and not much longer."""
    lost = start_workers("--processes", "1", JOBS_LEASE="3s")
    pass_gate.enqueue(guest="ann")
    first = until(lambda: _arrivals("ann"), seconds=20, otherwise=lost.said)[0]
    other = start_workers("--processes", "1", JOBS_LEASE="3s").wait_until_ready()

    killed_at = monotonic()
    lost.kill_all()
    until(lambda: len(_arrivals("ann")) == 2, seconds=3 + 5, otherwise=other.said)
    print(f"started again {monotonic() - killed_at:.2f} s after the kill")

    assert _arrivals("ann")[1] in other.children()
    assert first not in other.children()
    book.write(GATE)
    until(lambda: "ann went" in book.entries(), seconds=10, otherwise=other.said)


@pytest.mark.chaos
def test_children_whose_supervisor_was_killed_end_by_themselves(start_workers: StartWorkers):
    workers = start_workers("--processes", "2", JOBS_GRACE="2s")
    pass_gate.enqueue(guest="ann")
    until(lambda: _arrivals("ann"), seconds=20, otherwise=workers.said)

    workers.kill_supervisor()

    until(lambda: not workers.alive(), seconds=10, otherwise=workers.said)
    assert "ann went" not in book.entries()


@pytest.mark.chaos
def test_a_stopped_child_is_not_vouched_for(start_workers: StartWorkers):
    """A frozen process does no work, so its job must not be held for it for ever."""
    workers = start_workers("--processes", "2", JOBS_LEASE="2s")
    pass_gate.enqueue(guest="ann")
    first = until(lambda: _arrivals("ann"), seconds=20, otherwise=workers.said)[0]

    _freeze(first)
    until(lambda: len(_arrivals("ann")) == 2, seconds=20, otherwise=workers.said)

    kill(first)
    book.write(GATE)
    until(lambda: "ann went" in book.entries(), seconds=10, otherwise=workers.said)
    assert book.entries().count("ann went") == 1


def _freeze(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def _arrivals(guest: str) -> list[int]:
    """Processes in which the body began, in order."""
    return [pid for entry, pid in book.rows() if entry == f"{guest} came"]


def _state(job_id: UUID) -> str:
    return Job.objects.values_list("state", flat=True).get(pk=job_id)
