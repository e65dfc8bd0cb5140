"""How ``runjobs`` ends."""

from __future__ import annotations

import signal

import pytest

from django_durable_jobs.models import Job, JobWorker

from .app import ledger as book
from .app.jobs import GATE, pass_gate
from .conditions import until
from .conftest import StartWorkers
from .workers import Workers

pytestmark = pytest.mark.usefixtures("ledger")


# The other signal of each pair takes the same way, and is looked at by `make chaos`.
@pytest.mark.parametrize(
    "stop", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.chaos)]
)
def test_a_stop_lets_running_jobs_finish_and_starts_no_other(
    start_workers: StartWorkers, stop: signal.Signals
):
    workers = _with_two_guests(start_workers)
    left_waiting = pass_gate.enqueue(guest="eve").id

    workers.signal(stop)
    until(lambda: _says_that_it_drains(workers), seconds=10, otherwise=workers.said)
    book.write(GATE)

    assert workers.exit_status(seconds=20) == 0, workers.said()
    assert not workers.alive()
    assert sorted(book.entries()) == ["ann came", "ann went", "bob came", "bob went", GATE]
    assert Job.objects.filter(state="done").count() == 2
    waiting = Job.objects.get(pk=left_waiting)
    assert (waiting.state, waiting.attempt) == ("ready", 0)
    assert not JobWorker.objects.exists()


@pytest.mark.parametrize(
    "second", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.chaos)]
)
def test_a_second_signal_stops_at_once_and_the_next_worker_runs_what_was_interrupted(
    start_workers: StartWorkers, second: signal.Signals
):
    workers = _with_two_guests(start_workers)

    workers.signal(signal.SIGTERM)
    until(lambda: _says_that_it_drains(workers), seconds=10, otherwise=workers.said)
    workers.signal(second)

    workers.exit_status(seconds=5)
    until(lambda: not workers.alive(), seconds=5, otherwise=workers.said)
    assert sorted(book.entries()) == ["ann came", "bob came"]

    book.write(GATE)
    following = start_workers("--processes", "1")
    until(
        lambda: Job.objects.filter(state="done").count() == 2,
        seconds=30,
        otherwise=following.said,
    )
    assert book.entries().count("ann went") == book.entries().count("bob went") == 1


@pytest.mark.chaos
def test_what_does_not_end_within_grace_is_interrupted_and_runs_again(
    start_workers: StartWorkers,
):
    workers = start_workers("--processes", "1", "--grace", "1s")
    pass_gate.enqueue(guest="ann")
    until(lambda: "ann came" in book.entries(), seconds=20, otherwise=workers.said)

    workers.signal(signal.SIGTERM)
    workers.exit_status(seconds=15)
    until(lambda: not workers.alive(), seconds=5, otherwise=workers.said)

    book.write(GATE)
    following = start_workers("--processes", "1")
    until(lambda: "ann went" in book.entries(), seconds=30, otherwise=following.said)


def test_an_idle_worker_stops_within_seconds(start_workers: StartWorkers):
    workers = start_workers("--processes", "2").wait_until_ready(2)

    workers.signal(signal.SIGTERM)

    assert workers.exit_status(seconds=10) == 0, workers.said()
    assert not workers.alive()


def test_a_stop_leaves_no_socket_and_no_file_open(start_workers: StartWorkers):
    workers = start_workers("--processes", "1", PYTHONWARNINGS="always::ResourceWarning")
    workers.wait_until_ready()

    workers.signal(signal.SIGTERM)

    assert workers.exit_status(seconds=10) == 0, workers.said()
    assert "ResourceWarning" not in workers.said(), workers.said()


def _with_two_guests(start_workers: StartWorkers) -> Workers:
    """A worker with two slots, both taken by bodies that wait at the gate."""
    workers = start_workers("--processes", "1", "--threads", "2")
    pass_gate.enqueue(guest="ann")
    pass_gate.enqueue(guest="bob")
    until(
        lambda: {"ann came", "bob came"} <= set(book.entries()),
        seconds=20,
        otherwise=workers.said,
    )
    return workers


def _says_that_it_drains(workers: Workers) -> bool:
    return "no job is claimed any more" in workers.said()
