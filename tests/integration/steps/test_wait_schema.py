"""An event that does not fit is refused for good, and the wait goes on behind it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pytest

from django_durable_jobs.events import publish_event
from django_durable_jobs.exceptions import EventInvalid, PayloadTypeUnsupported
from django_durable_jobs.steps import Suspension
from django_durable_jobs.store.ids import new_id
from tests.integration.steps.bench import REAL, Killed, Stand


@dataclass(frozen=True)
class Approval:
    by: str
    amount: Decimal


GOOD = {"by": "ann", "amount": "1.50"}
POISON = {"by": "s3cret-person", "amount": "many"}


def waits(schema=Approval, crashes=False, **options):
    def body(ctx):
        event = ctx.step.wait_for_event("approval", event="approved", schema=schema, **options)
        if crashes and ctx.attempt == 1:
            raise ValueError("crash after the wait")
        return event and event.payload

    return body


def test_a_payload_that_fits_is_answered_as_the_schema_s_type_at_every_run(bench):
    bench.enqueue()
    seen = []

    def body(ctx):
        seen.append(ctx.step.wait_for_event("approval", event="approved", schema=Approval).payload)
        if ctx.attempt == 1:
            raise ValueError("crash")

    bench.attempt(body)
    publish_event("approved", GOOD)
    bench.attempt(body)
    bench.attempt(body)

    assert seen == [Approval("ann", Decimal("1.50"))] * 2


def test_an_event_that_does_not_fit_ends_the_run_and_names_the_field_and_no_value(bench):
    job_id = bench.enqueue()
    bench.attempt(waits())
    event_id = publish_event("approved", POISON)
    error = bench.attempt(waits()).error
    row = bench.row(job_id)

    assert isinstance(error, EventInvalid)
    assert (error.step, error.event, error.event_id) == ("approval", "approved", str(event_id))
    assert str(error) == (
        f"Event 'approved' ({event_id}) does not fit the schema of step 'approval': "
        f"{error.problem}. "
        "Publish one that fits and requeue the job: the wait goes on behind this event."
    )
    assert error.problem.startswith("payload.amount ")
    assert "s3cret" not in str(error)
    assert "many" not in str(error)
    # Nor by way of its cause, which a traceback would print.
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert (row.state, row.error_code) == ("dead", "X_JOB_EVENT_INVALID")
    (attempt,) = bench.store.attempts(job_id)
    assert "s3cret" not in attempt.traceback + attempt.message


@pytest.mark.parametrize("payload", [None, [], "text", {"by": "ann"}, {**GOOD, "amount": None}])
def test_no_payload_slips_through_half_read(bench, payload):
    bench.enqueue()
    bench.attempt(waits())
    publish_event("approved", payload)

    assert isinstance(bench.attempt(waits()).error, EventInvalid)


def test_the_refusal_is_stored_before_it_is_raised(bench):
    """A body that catches it, or a process that dies of it, must not meet that event again."""
    job_id = bench.enqueue()
    bench.attempt(waits())
    event_id = publish_event("approved", POISON)

    def body(ctx):
        try:
            waits()(ctx)
        except EventInvalid:
            return bench.steps(job_id)["approval"]

    step = bench.attempt(body).value

    assert (step.status, step.cursor.id, step.output) == ("waiting", event_id, None)


def test_a_refusal_that_could_not_be_stored_is_met_again(bench):
    bench.enqueue()
    bench.attempt(waits())
    publish_event("approved", POISON)

    def put_step(*_):
        raise Killed

    claimed = bench.claim()
    with pytest.raises(Killed):
        waits()(bench.context(claimed, store=Stand(bench.worker_store, put_step=put_step)))

    assert isinstance(bench.attempt(waits(), claimed).error, EventInvalid)


def test_a_requeued_run_goes_on_behind_the_event_it_refused(bench, clock):
    job_id = bench.enqueue()
    bench.attempt(waits())
    publish_event("approved", POISON)
    bench.attempt(waits())
    clock.advance(seconds=1)
    publish_event("approved", GOOD)
    bench.store.requeue(job_id)

    assert bench.attempt(waits()).value == Approval("ann", Decimal("1.50"))


def test_a_requeued_run_parks_again_until_an_event_comes_that_was_not_refused(bench, clock):
    job_id = bench.enqueue()
    bench.attempt(waits())
    publish_event("approved", POISON)
    bench.attempt(waits())
    bench.store.requeue(job_id)

    assert isinstance(bench.attempt(waits()).error, Suspension)
    assert bench.nothing_is_due()
    clock.advance(seconds=1)
    publish_event("approved", GOOD)
    assert bench.attempt(waits()).value == Approval("ann", Decimal("1.50"))


def test_each_of_several_poison_events_is_refused_once(bench, clock):
    job_id = bench.enqueue()
    bench.attempt(waits())
    for _ in range(3):
        publish_event("approved", POISON)
        clock.advance(seconds=1)
    publish_event("approved", GOOD)
    refused = []
    for _ in range(3):
        error = bench.attempt(waits()).error
        assert isinstance(error, EventInvalid)
        refused.append(error.event_id)
        bench.store.requeue(job_id)

    assert len(set(refused)) == 3
    assert bench.attempt(waits()).value == Approval("ann", Decimal("1.50"))


def test_poison_events_of_one_instant_are_each_refused_once(bench):
    """The clock's resolution is no reason to lose one: ids decide among equal stamps."""
    job_id = bench.enqueue()
    bench.attempt(waits())
    for _ in range(3):
        publish_event("approved", POISON)
    publish_event("approved", GOOD)
    refused = set()
    while isinstance(error := (attempt := bench.attempt(waits())).error, EventInvalid):
        assert error.event_id not in refused
        refused.add(error.event_id)
        bench.store.requeue(job_id)

    assert attempt.value == Approval("ann", Decimal("1.50"))


def test_a_timeout_is_not_shortened_or_lengthened_by_a_refusal(bench, clock):
    job_id = bench.enqueue()
    body = waits(timeout="1h")
    bench.attempt(body)
    before = bench.steps(job_id)["approval"]
    publish_event("approved", POISON)
    bench.attempt(body)
    bench.store.requeue(job_id)
    bench.attempt(body)

    assert bench.row(job_id).run_at == before.wake_at == before.started_at + timedelta(hours=1)
    clock.advance(hours=1, seconds=1)
    assert (bench.attempt(body).value, bench.steps(job_id)["approval"].status) == (
        None,
        "timed_out",
    )


def test_a_stored_event_that_fits_no_more_ends_the_run_and_says_what_to_do(bench):
    job_id = bench.enqueue()
    loose = waits(schema=None, crashes=True)
    bench.attempt(loose)
    event_id = publish_event("approved", POISON)
    bench.attempt(loose)
    error = bench.attempt(waits()).error

    assert isinstance(error, EventInvalid)
    assert str(error) == (
        f"Event 'approved' ({event_id}) does not fit the schema of step 'approval': "
        f"{error.problem}. "
        "An earlier schema took it: mend the schema, or requeue the job from that step."
    )
    assert "s3cret" not in str(error)
    assert bench.row(job_id).state == "dead"
    assert bench.steps(job_id)["approval"].status == "done"


def test_requeued_from_the_wait_a_run_takes_the_next_event_under_the_newer_schema(bench, clock):
    job_id = bench.enqueue()
    loose = waits(schema=None, crashes=True)
    bench.attempt(loose)
    publish_event("approved", POISON)
    bench.attempt(loose)
    bench.attempt(waits())
    bench.store.requeue(job_id, from_step="approval")
    assert isinstance(bench.attempt(waits()).error, Suspension)
    clock.advance(seconds=1)
    publish_event("approved", GOOD)

    assert bench.attempt(waits()).value == Approval("ann", Decimal("1.50"))


def test_a_schema_without_a_json_form_is_refused_before_the_wait_begins(bench):
    job_id = bench.enqueue()
    error = bench.attempt(waits(schema=threading.Lock)).error

    assert isinstance(error, PayloadTypeUnsupported)
    assert bench.row(job_id).state == "dead"
    assert bench.steps(job_id) == {}


@REAL
def test_an_event_that_was_published_before_the_refused_one_and_committed_after_is_owed(real_bench):
    """Its pair stands in front of the cursor's, and the search that refused could not see it."""
    bench = real_bench
    job_id = bench.enqueue()
    with published_by_another_session(bench, '{"by": "ann", "amount": "1.50"}'):
        bench.attempt(waits())
        publish_event("approved", POISON)
        assert isinstance(bench.attempt(waits()).error, EventInvalid)
    bench.store.requeue(job_id)

    assert bench.attempt(waits()).value == Approval("ann", Decimal("1.50"))


@REAL
def test_an_owed_event_that_is_refused_as_well_is_met_no_more(real_bench):
    bench = real_bench
    job_id = bench.enqueue()
    with published_by_another_session(bench, '"owed poison"'):
        bench.attempt(waits())
        later = publish_event("approved", POISON)
        bench.attempt(waits())
    bench.store.requeue(job_id)
    error = bench.attempt(waits()).error
    assert isinstance(error, EventInvalid)
    cursor = bench.steps(job_id)["approval"].cursor
    assert cursor.id == later
    assert [str(event_id) for event_id in cursor.refused] == [error.event_id]
    bench.store.requeue(job_id)

    assert isinstance(bench.attempt(waits()).error, Suspension)
    assert bench.nothing_is_due()


@contextmanager
def published_by_another_session(bench, payload):
    """An event that is written before the block and committed behind it."""
    session = bench.store.for_worker()
    try:
        with session.atomic():
            session.publish(new_id(), "approved", payload, key=None, ttl=timedelta(days=1))
            yield
    finally:
        session.close()
