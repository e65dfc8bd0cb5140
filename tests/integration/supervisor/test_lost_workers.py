"""Workers that end in ways a supervisor could overlook."""

from __future__ import annotations

import os
import signal
from uuid import UUID

from django_durable_jobs.models import Job
from tests.acceptance.conditions import until
from tests.acceptance.conftest import StartWorkers
from tests.acceptance.conftest import start_workers as start_workers
from tests.acceptance.conftest import trees as trees
from tests.acceptance.process_tree import kill
from tests.acceptance.workers import Workers

from .app.jobs import exit_in_peace, leave_a_child, wait_for_the_end

SETTINGS = "tests.integration.supervisor.settings"


def test_jobs_of_workers_that_end_unnoticed_run_again_at_once(start_workers: StartWorkers):
    """A process that keeps the channel open hides the end; an exit code of 0 excuses it."""
    workers = start_workers(
        "--processes", "1", "--threads", "1", DJANGO_SETTINGS_MODULE=SETTINGS
    ).wait_until_ready()

    for job in (leave_a_child, exit_in_peace):
        result = job.enqueue()
        # The lease is a minute.
        await_state(result.id, "done", workers)
        assert Job.objects.get(pk=result.id).attempt == 2
    assert "was killed by SIGKILL" in workers.said()
    assert "ended with exit code 0" in workers.said()

    waiting = wait_for_the_end.enqueue().id
    await_state(waiting, "running", workers)
    # Two orders before the supervisor has looked: the second is one to stop at once.
    os.kill(workers.pid, signal.SIGSTOP)
    os.kill(workers.pid, signal.SIGINT)
    os.kill(workers.pid, signal.SIGTERM)
    os.kill(workers.pid, signal.SIGCONT)
    assert workers.exit_status(seconds=10) == 0
    for orphan in workers.alive():
        kill(orphan)
    row = Job.objects.get(pk=waiting)
    assert (row.state, row.attempt) == ("ready", 0)


def test_a_worker_that_was_frozen_beyond_its_lease_lets_go_of_the_job(
    start_workers: StartWorkers,
):
    """It wakes up in the middle of a body that another worker runs by then."""
    workers = start_workers(
        "--processes", "2", DJANGO_SETTINGS_MODULE=SETTINGS, KILLERS_LEASE="2s"
    ).wait_until_ready(2)
    waiting = wait_for_the_end.enqueue().id
    (frozen,) = until(workers.busy, seconds=20, otherwise=workers.said)
    os.kill(frozen, signal.SIGSTOP)
    until(lambda: Job.objects.get(pk=waiting).claims == 2, seconds=20, otherwise=workers.said)
    taken = Job.objects.get(pk=waiting)

    os.kill(frozen, signal.SIGCONT)
    until(lambda: "X_JOB_LEASE_LOST" in workers.said(), seconds=20, otherwise=workers.said)
    assert workers.said().count("jobs.lease.lost") == 1
    row = Job.objects.get(pk=waiting)
    assert (row.state, row.attempt, row.worker_id) == ("running", 2, taken.worker_id)
    # It goes on with other work.
    assert frozen in workers.registered()
    workers.signal(signal.SIGINT)
    workers.signal(signal.SIGTERM)
    assert workers.exit_status(seconds=20) == 0


def await_state(job_id: UUID, wanted: str, workers: Workers) -> None:
    until(
        lambda: Job.objects.filter(pk=job_id, state=wanted).exists(),
        seconds=20,
        otherwise=workers.said,
    )
