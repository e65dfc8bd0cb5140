"""Instants are instants, with and without USE_TZ, whatever zones server and project live in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import Client, override_settings

from django_durable_jobs import JobContext, clock, job, operations, publish_event
from django_durable_jobs.exceptions import InputInvalid, OptionInvalid
from django_durable_jobs.store import get_store
from django_durable_jobs.testing import run_jobs
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL, stored

pytestmark = REAL

SHANGHAI = ZoneInfo("Asia/Shanghai")


def wall(year: int, month: int, day: int, hour: int, minute: int = 0) -> datetime:
    """A naive time, as read off a clock on the wall."""
    return datetime(year, month, day, hour, minute)  # noqa: DTZ001  what these tests are about


@pytest.fixture(autouse=True)
def server_in_new_york():
    """A server whose zone is neither the project's nor UTC, for sessions that set none."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"alter database {name} set timezone = 'America/New_York'")
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"alter database {name} reset timezone")


@pytest.fixture
def naive_in():
    """Return a function that turns USE_TZ off, as a project in that zone does."""
    overrides = []

    def start(zone: str) -> None:
        override = override_settings(USE_TZ=False, TIME_ZONE=zone)
        override.enable()
        overrides.append(override)
        # As after a start: connections read both settings when they are made.
        connections.close_all()

    yield start
    for override in reversed(overrides):
        override.disable()
    connections.close_all()


@pytest.fixture
def report():
    @job(name="shop.report")
    def report(since: datetime | None = None) -> datetime | None:
        return since

    return report


def due(result) -> datetime:
    """When it is due, as the database sees it in UTC."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select to_char(run_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS') "
            "from x_jobs where id = %s",
            [result.id],
        )
        return datetime.fromisoformat(cursor.fetchone()[0]).replace(tzinfo=UTC)


def test_without_use_tz_a_naive_due_time_is_in_the_projects_zone(naive_in, report):
    naive_in("Asia/Shanghai")

    past = report.using(run_at=wall(2026, 7, 1, 9)).enqueue()
    future = report.using(run_at=wall(2099, 7, 1, 9)).enqueue()

    assert due(past) == datetime(2026, 7, 1, 1, tzinfo=UTC)
    assert due(future) == datetime(2099, 7, 1, 1, tzinfo=UTC)
    assert (past.state, future.state) == ("ready", "delayed")


@pytest.mark.parametrize("use_tz", [True, False])
def test_an_aware_due_time_is_that_instant_in_both_modes(naive_in, report, use_tz):
    if not use_tz:
        naive_in("Asia/Shanghai")

    result = report.using(run_at=datetime(2099, 7, 1, 9, tzinfo=SHANGHAI)).enqueue()

    assert due(result) == datetime(2099, 7, 1, 1, tzinfo=UTC)
    result.refresh()
    assert result.row.run_at == datetime(2099, 7, 1, 1, tzinfo=UTC)


def test_without_use_tz_everything_runs_and_no_time_is_hours_off(naive_in, report):
    naive_in("Asia/Shanghai")

    @job(name="shop.flow")
    def flow(ctx: JobContext) -> str:
        ctx.step.sleep("cool off", "1h")
        event = ctx.step.wait_for_event("approval", event="order.approved", timeout="3d")
        assert event is not None
        return event.published_at.isoformat()

    waiting = report.using(delay="30m").enqueue()
    result = flow.enqueue()
    work_until_idle(slots=1)
    waiting.refresh()
    result.refresh()
    assert (waiting.state, result.state) == ("delayed", "suspended")
    assert result.row is not None
    assert timedelta(minutes=59) < result.row.run_at - datetime.now(UTC) < timedelta(minutes=61)

    clock.move(timedelta(minutes=61))
    work_until_idle(slots=1)
    publish_event("order.approved")
    work_until_idle(slots=1)

    waiting.refresh()
    result.refresh()
    assert (waiting.state, result.state) == ("done", "done")
    published = datetime.fromisoformat(result.return_value or "")
    assert abs(published - clock.now()) < timedelta(minutes=1)
    row = operations.requeue(result.id)
    assert abs(row.run_at - clock.now()) < timedelta(minutes=1)
    assert abs(get_store().now() - clock.now()) < timedelta(minutes=1)


@pytest.mark.parametrize("given", [wall(2026, 7, 1, 9), datetime(2026, 7, 1, 9, tzinfo=UTC)])
def test_without_use_tz_a_datetime_of_the_input_comes_back_as_it_was_given(naive_in, report, given):
    naive_in("Asia/Shanghai")

    result = report.enqueue(since=given)
    run_jobs()

    result.refresh()
    assert result.return_value == given
    assert result.return_value.tzinfo == given.tzinfo


def test_with_use_tz_naive_times_are_refused(report):
    with pytest.raises(OptionInvalid) as of_the_option:
        report.using(run_at=wall(2026, 7, 1, 9))
    with pytest.raises(InputInvalid) as of_the_input:
        report.enqueue(since=wall(2026, 7, 1, 9))

    assert str(of_the_option.value) == (
        "Job 'shop.report': option run_at is a naive datetime. "
        "Give it a zone: timezone.make_aware(value)."
    )
    assert str(of_the_input.value) == (
        "Input of job 'shop.report' was refused:\n"
        "  since: is a naive datetime while USE_TZ is on; pass timezone.make_aware(value)"
    )
    assert stored() == []


@pytest.mark.parametrize("naive", [wall(2026, 3, 29, 2, 30), wall(2026, 10, 25, 2, 30)])
def test_a_naive_time_in_the_hour_in_which_clocks_change_is_refused(naive_in, report, naive):
    naive_in("Europe/Berlin")

    with pytest.raises(OptionInvalid) as refused:
        report.using(run_at=naive).enqueue()

    assert str(refused.value) == (
        "Job 'shop.report': option run_at is ambiguous or missing in Europe/Berlin: clocks "
        "change then. Give an aware datetime."
    )
    assert stored() == []


@pytest.mark.parametrize(
    ("naive", "instant"),
    [
        (wall(2026, 3, 29, 1, 59), datetime(2026, 3, 29, 0, 59, tzinfo=UTC)),
        (wall(2026, 3, 29, 3, 0), datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
        (wall(2026, 10, 25, 1, 59), datetime(2026, 10, 24, 23, 59, tzinfo=UTC)),
        (wall(2026, 10, 25, 3, 0), datetime(2026, 10, 25, 2, 0, tzinfo=UTC)),
    ],
)
def test_naive_times_just_outside_that_hour_are_taken(naive_in, report, naive, instant):
    naive_in("Europe/Berlin")

    assert due(report.using(run_at=naive).enqueue()) == instant


def test_every_time_is_stored_with_its_zone():
    with connection.cursor() as cursor:
        cursor.execute(
            "select distinct data_type from information_schema.columns "
            "where table_name like 'x\\_%%' and (data_type like 'time%%' or data_type = 'date')"
        )
        assert cursor.fetchall() == [("timestamp with time zone",)]


@pytest.mark.django_db(transaction=False)
@override_settings(USE_TZ=False, TIME_ZONE="Asia/Shanghai")
def test_without_use_tz_the_admin_shows_when_a_job_is_due(report):
    result = report.using(run_at=wall(2099, 7, 1, 9)).enqueue()
    client = Client()
    client.force_login(User.objects.create_superuser("ann"))

    pages = [
        client.get("/admin/durable_jobs/job/"),
        client.get(f"/admin/durable_jobs/job/{result.id}/change/"),
    ]

    assert [page.status_code for page in pages] == [200, 200]
    assert all("2099" in page.content.decode() for page in pages)
