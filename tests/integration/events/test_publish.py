"""An event is stored in the caller's transaction, exactly as given or not at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.db import connection, transaction

from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.events import Event, publish_event
from django_durable_jobs.exceptions import (
    DurationInvalid,
    EventRefused,
    PayloadInvalid,
    PayloadTooLarge,
)
from django_durable_jobs.jobs.result import JobResult
from django_durable_jobs.steps import Suspension
from django_durable_jobs.store import install_store, reset_store
from django_durable_jobs.store.ids import new_id
from tests.integration.steps.bench import REAL, Bench, Declared

pytestmark = REAL


@pytest.fixture
def bench():
    store = PostgresStore()
    install_store(store)
    bench = Bench(store)
    yield bench
    bench.close()
    reset_store()


@dataclass
class Handle:
    """What a project keeps of a job."""

    id: UUID


def stored():
    with connection.cursor() as cursor:
        cursor.execute(
            "select id, name, payload::text, correlation_key, expires_at - published_at "
            "from x_job_events order by published_at, id"
        )
        return cursor.fetchall()


def addresses():
    with connection.cursor() as cursor:
        cursor.execute("select job_id from x_job_events order by published_at, id")
        return [row[0] for row in cursor.fetchall()]


def wait(ctx):
    return ctx.step.wait_for_event("approval", event="order.approved", key="7")


def test_an_event_is_stored_as_published(bench):
    event_id = publish_event("order.approved", {"by": "ann"}, key="7", ttl="1h")

    ((stored_id, name, payload, key, lifetime),) = stored()
    assert isinstance(event_id, UUID)
    assert (stored_id, name, payload, key) == (
        event_id,
        "order.approved",
        '{"by": "ann"}',
        "7",
    )
    # The stamp is cut to the millisecond, the expiry is not.
    assert timedelta(hours=1) <= lifetime < timedelta(hours=1, milliseconds=1)


def test_an_event_needs_no_more_than_a_name_and_lives_for_a_week(bench):
    publish_event("order.approved")

    ((_, _, payload, key, lifetime),) = stored()
    assert (payload, key, lifetime.days) == ("null", None, 7)


def test_how_long_events_live_is_a_setting(bench, settings):
    settings.DURABLE_JOBS = {"EVENT_TTL": "2d"}
    publish_event("order.approved")

    assert stored()[0][-1].days == 2


def test_an_event_that_was_rolled_back_wakes_nobody_and_is_found_by_nobody(bench):
    job_id = bench.enqueue()
    bench.attempt(wait)
    with suppress(ValueError), transaction.atomic():
        publish_event("order.approved", key="7")
        raise ValueError("roll back")

    assert stored() == []
    assert bench.nothing_is_due()
    assert bench.row(job_id).state == "suspended"


def test_an_event_wakes_the_run_that_waits_when_it_commits_and_not_before(bench):
    job_id = bench.enqueue()
    bench.attempt(wait)
    with transaction.atomic():
        publish_event("order.approved", "yes", key="7")
        assert not bench.row(job_id).is_armed

    assert bench.row(job_id).is_armed
    assert bench.attempt(wait).value.payload == "yes"


def test_a_run_that_begins_to_wait_before_the_event_commits_takes_it(bench):
    """The stamp is older than the wait; what counts is when others could see the event."""
    bench.enqueue()
    with transaction.atomic():
        publish_event("order.approved", "yes", key="7")
        parked = bench.attempt(wait, user_store=bench.worker_store)
        assert parked.settlement.waits

    assert bench.attempt(wait).value.payload == "yes"


def test_an_expired_event_is_not_taken(bench, clock):
    bench.enqueue()
    bench.attempt(wait)
    publish_event("order.approved", key="7", ttl="1h")
    clock.advance(hours=2)

    assert isinstance(bench.attempt(wait).error, Suspension)
    assert bench.nothing_is_due()


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (("",), {}, "The event was not published: its name is blank."),
        ((7,), {}, "The event was not published: its name is of type int, not text."),
        (("a\0",), {}, "its name holds a NUL character"),
        (("paid",), {"key": "  "}, "The event was not published: its key is blank."),
        (("paid",), {"key": 7}, "its key is of type int, not text."),
        (("paid",), {"ttl": 0}, "its ttl is not above zero and at most 100 years."),
        (("paid",), {"ttl": "101000w"}, "its ttl is not above zero and at most 100 years."),
    ],
)
def test_an_event_that_cannot_be_matched_is_refused(bench, arguments, options, sentence):
    with pytest.raises(EventRefused) as caught:
        publish_event(*arguments, **options)

    assert sentence in str(caught.value)
    assert stored() == []


@pytest.mark.parametrize("ttl", ["soon", -1, float("nan")])
def test_a_lifetime_that_is_no_length_of_time_is_refused(bench, ttl):
    with pytest.raises(DurationInvalid):
        publish_event("paid", ttl=ttl)

    assert stored() == []


@pytest.mark.parametrize("payload", [{1, 2}, float("nan"), "a\0", "\ud800", {"a": object()}])
def test_a_payload_without_an_exact_json_form_is_refused(bench, payload):
    with pytest.raises(PayloadInvalid, match="Event 'paid' was refused"):
        publish_event("paid", payload)

    assert stored() == []


def test_a_payload_above_the_limit_is_refused(bench):
    with pytest.raises(PayloadTooLarge):
        publish_event("paid", "a" * 2_000_000)

    assert stored() == []


@pytest.mark.parametrize("form", [lambda job: job, lambda job: str(job), lambda job: Handle(job)])
def test_an_event_is_addressed_by_an_id_its_text_or_what_has_it(bench, form):
    job_id, other = bench.enqueue(), new_id()

    publish_event("order.approved", job_id=form(job_id))
    publish_event("order.approved", job_id=form(other))

    assert addresses() == [job_id, other]


def test_the_answer_of_an_enqueue_publishes_for_its_job_alone(bench):
    job_id = bench.enqueue()
    result: JobResult[object] = JobResult(job_id, "ready", False, Declared())

    event_id = result.publish_event("order.approved", {"by": "ann"}, ttl="1h")
    keyed = result.publish_event("order.approved", key="7")

    first, second = stored()
    assert first[:4] == (event_id, "order.approved", '{"by": "ann"}', None)
    assert second[:4] == (keyed, "order.approved", "null", "7")
    assert addresses() == [job_id, job_id]
    assert first[4] < timedelta(hours=2)


@pytest.mark.parametrize(
    ("job_id", "sentence"),
    [
        ("", "its job_id '' is no job's id."),
        ("order 7", "its job_id 'order 7' is no job's id."),
        ("x" * 100, f"its job_id '{'x' * 59}…' is no job's id."),
        (7, "its job_id is of type int, neither a job's id nor a job."),
        (SimpleNamespace(id=7), "its job_id is of type int, neither a job's id nor a job."),
        (b"1", "its job_id is of type bytes, neither a job's id nor a job."),
    ],
)
def test_an_event_for_what_is_no_job_is_refused(bench, job_id, sentence):
    with pytest.raises(EventRefused) as caught:
        publish_event("order.approved", job_id=job_id)

    assert str(caught.value) == f"The event was not published: {sentence}"
    assert stored() == []


def test_a_run_takes_an_event_addressed_to_it_and_no_other_run_does(bench):
    job_id = bench.enqueue()
    bench.attempt(wait)
    other = bench.enqueue()
    bench.attempt(wait)

    publish_event("order.approved", "yes", job_id=job_id)

    assert bench.attempt(wait).value.payload == "yes"
    assert bench.nothing_is_due()
    assert bench.row(other).state == "suspended"


@pytest.mark.parametrize("payload", [None, False, 0, "", [], {}], ids=repr)
def test_an_event_that_carries_nothing_is_an_event_and_no_timeout(bench, payload):
    answers = []

    def body(ctx):
        answers.append(wait(ctx))
        raise ValueError("later")

    bench.enqueue()
    bench.attempt(body)
    publish_event("order.approved", payload, key="7")

    bench.attempt(body)
    bench.attempt(body)

    taken, replayed = answers
    assert isinstance(taken, Event)
    assert (taken.payload, type(taken.payload)) == (payload, type(payload))
    assert replayed == taken
