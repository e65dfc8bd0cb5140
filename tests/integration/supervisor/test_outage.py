"""The server hangs up on a whole process tree, again and again."""

from __future__ import annotations

import re
import signal
from collections import Counter

from django.db import connection

from django_durable_jobs.models import Job
from tests.acceptance.conditions import until
from tests.acceptance.conftest import StartWorkers
from tests.acceptance.conftest import start_workers as start_workers
from tests.acceptance.conftest import trees as trees
from tests.acceptance.workers import Workers

from .app.jobs import count, wait_for_the_end

SETTINGS = "tests.integration.supervisor.settings"
JOBS = 100
TURNS = 5


def hang_up_on_workers() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where datname = current_database() and application_name = 'durable-jobs'"
        )
        return int(cursor.fetchone()[0])


def done() -> int:
    return Job.objects.filter(state="done").count()


def await_done(number: int, workers: Workers, *, seconds: float) -> None:
    until(lambda: done() >= number, seconds=seconds, otherwise=workers.said)


def test_jobs_survive_a_server_that_hangs_up_on_everybody(start_workers: StartWorkers):
    """No attempt is spent: whatever was cut short is the worker's own business."""
    workers = start_workers("--processes", "2", DJANGO_SETTINGS_MODULE=SETTINGS).wait_until_ready(2)
    long = wait_for_the_end.enqueue().id
    until(lambda: Job.objects.get(pk=long).state == "running", seconds=20)

    for turn in range(1, TURNS + 1):
        count.enqueue_many({"number": number} for number in range(JOBS))
        until(hang_up_on_workers, seconds=20, every=0.01, otherwise=workers.said)
        await_done(JOBS * turn, workers, seconds=20)

    assert set(Job.objects.filter(state="done").values_list("attempt", flat=True)) == {1}
    assert Job.objects.get(pk=long).state == "running"
    assert "Traceback" not in workers.said(), workers.said()

    # The listening session is proven again: a job starts long before anybody looks.
    count.enqueue(number=0)
    await_done(JOBS * TURNS + 1, workers, seconds=10)
    workers.signal(signal.SIGINT)
    workers.signal(signal.SIGTERM)
    assert workers.exit_status(seconds=20) == 0
    assert "Traceback" not in workers.said(), workers.said()


def test_the_log_of_an_outage_says_once_that_it_began_and_once_that_it_is_over(
    start_workers: StartWorkers,
):
    workers = start_workers("--processes", "1", DJANGO_SETTINGS_MODULE=SETTINGS).wait_until_ready()
    until(hang_up_on_workers, seconds=20)
    for _ in range(10):
        hang_up_on_workers()
    waiting = count.enqueue(number=1).id
    until(lambda: Job.objects.get(pk=waiting).state == "done", seconds=20, otherwise=workers.said)
    until(lambda: "jobs.wake.back" in workers.said(), seconds=20, otherwise=workers.said)

    events = Counter(re.findall(r"jobs\.[a-z]+\.[a-z]+", workers.said()))
    assert events["jobs.wake.lost"] == events["jobs.wake.back"] == 1, workers.said()
    assert events["jobs.store.waiting"] == events["jobs.store.back"] <= 1, workers.said()
    assert "Traceback" not in workers.said(), workers.said()
