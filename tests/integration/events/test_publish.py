"""An event is stored in the caller's transaction, exactly as given or not at all."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction

from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.events import publish_event
from django_durable_jobs.exceptions import (
    DurationInvalid,
    EventRefused,
    PayloadInvalid,
    PayloadTooLarge,
)
from django_durable_jobs.steps import Suspension
from django_durable_jobs.store import install_store, reset_store
from tests.integration.steps.bench import REAL, Bench

pytestmark = REAL


@pytest.fixture
def bench():
    store = PostgresStore()
    install_store(store)
    bench = Bench(store)
    yield bench
    bench.close()
    reset_store()


def stored():
    with connection.cursor() as cursor:
        cursor.execute(
            "select id, name, payload::text, correlation_key, expires_at - published_at "
            "from x_job_events order by published_at, id"
        )
        return cursor.fetchall()


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
