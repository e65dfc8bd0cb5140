"""Options of ``.using()`` are refused where they cannot be honoured, and kept where they can."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.test import override_settings
from django.utils import timezone as django_timezone

from django_durable_jobs import Retry, job
from django_durable_jobs.exceptions import OptionInvalid, QueueNotDeclared
from django_durable_jobs.models import Job
from tests.integration.declared import stored

pytestmark = pytest.mark.django_db

SECRET = "s3cret-4111"
NAIVE = datetime(2026, 7, 1, 9)  # noqa: DTZ001  what is refused
DURATION = 'Give a timedelta, a number of seconds, or text such as "30s", "5m" or "1h30m".'
RANGE = "is out of range: -32767 to 32767."


@pytest.fixture(autouse=True)
def greet():
    @job(name="shop.greet", retry=Retry(attempts=3))
    def greet(name: str = "") -> None: ...

    return greet


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"urgent": SECRET},
            "option urgent is unknown. Options: delay, enqueued_by, idempotency_key, max_attempts, "
            "on_conflict, priority, queue, run_at, tenant_id, transactional.",
        ),
        ({"priority": 32_768}, f"option priority {RANGE}"),
        ({"priority": -32_768}, f"option priority {RANGE}"),
        ({"priority": SECRET}, "option priority is a str, not a whole number."),
        ({"priority": True}, "option priority is a bool, not a whole number."),
        ({"priority": 1.5}, "option priority is a float, not a whole number."),
        ({"delay": SECRET}, f"option delay is not a duration. {DURATION}"),
        ({"delay": -1}, f"option delay is negative. {DURATION}"),
        ({"delay": float("nan")}, f"option delay is not finite. {DURATION}"),
        ({"delay": timedelta(days=36_526)}, "option delay is longer than 100 years."),
        ({"run_at": SECRET}, "option run_at is a str, not a datetime."),
        (
            {"run_at": NAIVE},
            "option run_at is a naive datetime. Give it a zone: timezone.make_aware(value).",
        ),
        (
            {"run_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))},
            "option run_at is outside the years 1 to 9999.",
        ),
        (
            {"delay": 5, "run_at": datetime(2026, 7, 1, tzinfo=UTC)},
            "option run_at was given together with delay. Give one.",
        ),
        ({"queue": "  "}, "option queue is blank."),
        ({"queue": 7}, "option queue is of type int, not text."),
        (
            {"queue": f"{SECRET}\0"},
            "option queue holds a NUL character, which PostgreSQL cannot store.",
        ),
        (
            {"idempotency_key": "あ" * 67},
            "option idempotency_key takes 201 bytes as UTF-8; the limit is 200.",
        ),
        (
            {"tenant_id": "\ud800"},
            "option tenant_id holds a lone surrogate, which is not valid text.",
        ),
        ({"enqueued_by": 7}, "option enqueued_by is of type int, not text."),
        ({"on_conflict": SECRET}, "option on_conflict must be 'existing' or 'raise'."),
        (
            {"max_attempts": 0},
            "option max_attempts must be a whole number from 1 to 1,000,000,000.",
        ),
        (
            {"max_attempts": 1_000_000_001},
            "option max_attempts must be a whole number from 1 to 1,000,000,000.",
        ),
        ({"transactional": 1}, "option transactional must be True or False."),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused(greet, options, message):
    with pytest.raises(OptionInvalid) as refused:
        greet.using(**options).enqueue()

    assert str(refused.value) == f"Job 'shop.greet': {message}"
    assert SECRET not in repr(refused.value)
    assert stored() == []


def test_delay_and_instant_are_refused_together_also_in_two_calls(greet):
    with pytest.raises(OptionInvalid):
        greet.using(delay=5).using(run_at=datetime(2026, 7, 1, tzinfo=UTC))

    assert greet.using(delay=5).using(delay=None, run_at=django_timezone.now())


def test_options_are_stored(greet):
    due = datetime(2099, 7, 1, 9, 30, tzinfo=timezone(timedelta(hours=2)))

    result = greet.using(
        priority=-32_767,
        run_at=due,
        tenant_id="acme",
        max_attempts=32_768,
        enqueued_by="ann",
        idempotency_key="x",
    ).enqueue()

    row = Job.objects.get(id=result.id)
    assert (row.priority, row.run_at, row.tenant_id) == (-32_767, due, "acme")
    assert (row.max_attempts, row.enqueued_by, row.idempotency_key) == (32_768, "ann", "x")
    assert (row.state, result.state) == ("delayed", "delayed")


def test_options_add_up_and_a_later_one_wins(greet):
    result = greet.using(priority=1, tenant_id="acme").using(priority=2).enqueue()

    row = Job.objects.get(id=result.id)
    assert (row.priority, row.tenant_id, row.max_attempts) == (2, "acme", 3)


def test_no_tenant_and_none_given_are_told_apart(greet):
    """None leaves it to the declaration; blank text is "nobody's"."""

    @job(name="shop.bill", tenant=lambda i: "of the input")
    def bill() -> None: ...

    tenants = [
        Job.objects.get(id=bill.using(**options).enqueue().id).tenant_id
        for options in ({}, {"tenant_id": None}, {"tenant_id": ""}, {"tenant_id": "given"})
    ]

    assert tenants == ["of the input", "of the input", "", "given"]


def test_the_options_of_one_call_are_not_those_of_the_next(greet):
    greet.using(priority=9).enqueue()

    assert Job.objects.get(id=greet.enqueue().id).priority == 0


def test_a_delay_counts_by_the_databases_clock(greet):
    result = greet.using(delay="1h30m").enqueue()

    row = Job.objects.get(id=result.id)
    assert row.run_at - row.created_at == timedelta(hours=1, minutes=30)
    assert not row.is_armed


@override_settings(DURABLE_JOBS={"QUEUES": {"default": {}, "slow": {}}})
def test_a_queue_that_the_settings_do_not_list_is_refused(greet):
    with pytest.raises(QueueNotDeclared) as refused:
        greet.using(queue="mail").enqueue()

    assert str(refused.value) == (
        "Job 'shop.greet' names queue 'mail', which is not declared. "
        "Declared queues: 'default', 'slow'. "
        "Add 'mail' to DURABLE_JOBS[\"QUEUES\"] or change the job."
    )
    assert greet.using(queue="slow").enqueue().state == "ready"
    assert stored() == ["shop.greet"]


def test_without_such_a_list_the_queues_are_those_that_jobs_name(greet):
    @job(name="shop.mail", queue="mail")
    def mail() -> None: ...

    with pytest.raises(QueueNotDeclared) as refused:
        greet.using(queue="slow").enqueue()

    assert str(refused.value) == (
        "Job 'shop.greet' names queue 'slow', which is not declared. "
        "Declared queues: 'default', 'mail'. "
        "Add 'slow' to DURABLE_JOBS[\"QUEUES\"] or change the job."
    )
    assert stored() == []
    assert greet.using(queue="mail").enqueue().state == "ready"


@override_settings(DURABLE_JOBS={"QUEUES": {"slow": {}}})
def test_a_job_declared_on_a_queue_that_is_not_listed_is_refused(greet):
    with pytest.raises(QueueNotDeclared):
        greet.enqueue()

    assert stored() == []
