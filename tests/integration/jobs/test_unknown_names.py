"""A job whose name no worker knows waits for newer code, spends nothing and stops nobody."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from django_durable_jobs import clock, job
from django_durable_jobs.models import Job
from django_durable_jobs.testing.factories import JobFactory
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL

pytestmark = REAL


def rounds(caplog) -> list[str]:
    return [
        record.getMessage() for record in caplog.records if "jobs.name.unknown" in record.message
    ]


def test_it_is_given_back_with_its_attempt_for_half_a_minute():
    row = JobFactory.create(name="unknown.gone")

    work_until_idle(slots=1)

    row.refresh_from_db()
    assert (row.state, row.attempt, row.claims) == ("ready", 0, 1)
    assert row.unknown_since is not None
    assert timedelta(seconds=29) < row.run_at - row.unknown_since < timedelta(seconds=32)


def test_its_pause_grows_from_half_a_minute_to_half_an_hour():
    row = JobFactory.create(name="unknown.gone")
    pauses = []

    for _ in range(10):
        work_until_idle(slots=1)
        row.refresh_from_db()
        pause = row.run_at - clock.now()
        pauses.append(round(pause.total_seconds() / 30))
        clock.move(pause + timedelta(seconds=1))

    assert pauses[:3] == [1, 1, 2]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60
    row.refresh_from_db()
    assert (row.state, row.attempt, row.claims) == ("ready", 0, 10)


def test_after_a_day_it_is_dead_with_a_code_and_what_to_do():
    row = JobFactory.create(name="unknown.gone")
    work_until_idle(slots=1)

    clock.move(timedelta(hours=24, seconds=1))
    work_until_idle(slots=1)

    row.refresh_from_db()
    assert (row.state, row.attempt, row.error_code) == ("dead", 0, "X_JOB_UNKNOWN")
    assert (
        row.last_error
        == row.stop_reason
        == (
            "No worker knew a job named 'unknown.gone' for 24 h. "
            "Deploy code that declares it (or lists it in aliases=[...]) and requeue the job."
        )
    )


def test_the_wait_can_be_set(settings):
    settings.DURABLE_JOBS = {"UNKNOWN_AFTER": "1m"}
    row = JobFactory.create(name="unknown.gone")
    work_until_idle(slots=1)

    clock.move(timedelta(seconds=61))
    work_until_idle(slots=1)

    row.refresh_from_db()
    assert row.state == "dead"


def test_the_loop_goes_on_and_logs_each_name_once(caplog):
    caplog.set_level(logging.ERROR)

    @job(name="unknown.not")
    def known(number: int) -> int:
        return number

    results = []
    for number in range(20):
        JobFactory.create(name=f"unknown.{number % 2}")
        results.append(known.enqueue(number=number))

    work_until_idle(slots=2)

    for number, result in enumerate(results):
        result.refresh()
        assert result.return_value == number
    assert sorted(rounds(caplog)) == [
        f"jobs.name.unknown: no job 'unknown.{number}' is declared here; its jobs are given back "
        "until a worker knows it. Declare it in the module 'jobs' of an installed app, or list the "
        "name in aliases=[...]."
        for number in range(2)
    ]
    assert set(Job.objects.filter(name__in=["unknown.0", "unknown.1"]).values_list("state")) == {
        ("ready",)
    }


@pytest.mark.parametrize("late", [timedelta(seconds=40), timedelta(hours=20)])
def test_a_worker_with_newer_code_runs_it_as_if_nothing_had_been(late):
    row = JobFactory.create(name="unknown.new")
    work_until_idle(slots=1)

    @job(name="unknown.new")
    def new(order_id: int) -> int:
        return order_id

    clock.move(late)
    work_until_idle(slots=1)

    row.refresh_from_db()
    assert (row.state, row.attempt, row.result) == ("done", 1, 7)


def test_a_known_name_in_between_starts_the_day_anew():
    """Otherwise a name that went missing twice, months apart, would be dead at once."""
    from django_durable_jobs import JobContext
    from django_durable_jobs.jobs.registry import scratch_registry

    row = JobFactory.create(name="unknown.now_and_then")
    work_until_idle(slots=1)
    clock.move(timedelta(seconds=40))
    with scratch_registry():

        @job(name="unknown.now_and_then")
        def flow(ctx: JobContext, order_id: int) -> None:
            ctx.step.sleep("long", "60d")

        work_until_idle(slots=1)
    row.refresh_from_db()
    assert (row.state, row.unknown_since) == ("suspended", None)

    clock.move(timedelta(days=60, seconds=1))
    work_until_idle(slots=1)

    row.refresh_from_db()
    assert row.state == "ready"
