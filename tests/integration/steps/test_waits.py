"""A wait parks the run, keeps its time, and is answered once whatever happens in between."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest

from django_durable_jobs.events import Event, publish_event
from django_durable_jobs.exceptions import (
    DurationInvalid,
    PayloadTooLarge,
    StepRefused,
    SuspensionSwallowed,
)
from django_durable_jobs.steps import Suspension
from django_durable_jobs.store import install_store


class Calls(list[str]):
    def note(self, name):
        self.append(name)
        return name


# -- sleep


def test_a_sleep_parks_the_run_and_gives_its_attempt_back(bench, clock):
    job_id = bench.enqueue()
    calls = Calls()

    def body(ctx):
        ctx.step.run("charge", calls.note, "charge")
        ctx.step.sleep("cool off", "1h")
        return ctx.attempt, ctx.step.run("ship", calls.note, "ship")

    first = bench.attempt(body)

    assert isinstance(first.error, Suspension)
    assert first.landed
    row, step = bench.row(job_id), bench.steps(job_id)["cool off"]
    assert (row.state, row.attempt) == ("suspended", 0)
    assert row.run_at == step.wake_at
    assert step.status == "sleeping"
    assert step.wake_at - step.started_at == timedelta(hours=1)
    assert bench.nothing_is_due()

    clock.advance(hours=1, seconds=1)

    assert bench.attempt(body).value == (1, "ship")
    assert calls == ["charge", "ship"]
    assert bench.steps(job_id)["cool off"].status == "done"


def test_a_run_that_comes_back_early_sleeps_on_until_the_same_time(bench, clock):
    job_id = bench.enqueue()

    def body(ctx):
        ctx.step.sleep("cool off", "1h")

    bench.interrupt(body)
    before = bench.steps(job_id)["cool off"]
    clock.advance(minutes=30)
    bench.attempt(body)

    assert bench.steps(job_id)["cool off"] == before
    assert bench.row(job_id).run_at == before.wake_at


def test_a_finished_sleep_is_not_slept_again(bench, clock):
    bench.enqueue()

    def body(ctx):
        ctx.step.sleep("cool off", "1h")
        if ctx.attempt == 1:
            raise ValueError("crash")
        return "awake"

    bench.attempt(body)
    clock.advance(hours=2)
    assert isinstance(bench.attempt(body).error, ValueError)

    assert bench.attempt(body).value == "awake"


@pytest.mark.parametrize(
    "nap",
    [
        lambda step: step.sleep("nap", 0),
        lambda step: step.sleep_until("nap", datetime(2020, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_sleep_that_is_over_does_not_park_the_run(bench, nap):
    job_id = bench.enqueue()

    assert bench.attempt(lambda ctx: nap(ctx.step)).error is None
    assert bench.steps(job_id)["nap"].status == "done"


def test_a_sleep_until_an_instant_ends_at_that_instant(bench):
    job_id = bench.enqueue()
    when = datetime(2200, 7, 1, 9, 30, tzinfo=UTC)
    bench.attempt(lambda ctx: ctx.step.sleep_until("nap", when))

    assert bench.row(job_id).run_at == when


@pytest.mark.parametrize(
    ("naive", "instant"),
    [
        (datetime(2200, 7, 1, 9), datetime(2200, 7, 1, 7, tzinfo=UTC)),  # noqa: DTZ001 -- the case
        # Skipped: clocks go from 02:00 to 03:00.
        (datetime(2036, 3, 30, 2, 30), datetime(2036, 3, 30, 1, 30, tzinfo=UTC)),  # noqa: DTZ001
        # Occurs twice: 00:30Z and 01:30Z.
        (datetime(2036, 10, 26, 2, 30), datetime(2036, 10, 26, 0, 30, tzinfo=UTC)),  # noqa: DTZ001
    ],
)
@pytest.mark.parametrize("use_tz", [True, False])
def test_a_naive_time_is_in_the_project_s_zone(bench, settings, naive, instant, use_tz):
    settings.USE_TZ = use_tz
    settings.TIME_ZONE = "Europe/Berlin"
    job_id = bench.enqueue()
    bench.attempt(lambda ctx: ctx.step.sleep_until("nap", naive))

    assert bench.row(job_id).run_at == instant


@pytest.mark.parametrize("duration", [-1, "soon", float("nan"), "101000w", timedelta.max])
def test_a_sleep_that_is_no_length_of_time_is_refused(bench, duration):
    job_id = bench.enqueue()
    attempt = bench.attempt(lambda ctx: ctx.step.sleep("nap", duration))

    assert isinstance(attempt.error, DurationInvalid)
    assert "step 'nap'" in str(attempt.error)
    assert bench.steps(job_id) == {}


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("2036-01-01", "was given a value of type str as time."),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "is beyond the calendar"),
    ],
)
def test_a_sleep_until_something_that_is_no_time_is_refused(bench, when, problem):
    bench.enqueue()
    attempt = bench.attempt(lambda ctx: ctx.step.sleep_until("nap", when))

    assert isinstance(attempt.error, StepRefused)
    assert problem in str(attempt.error)


# -- a suspension cannot be lost


@pytest.mark.parametrize(
    "verb",
    [
        lambda ctx: ctx.step.run("later", lambda: 1),
        lambda ctx: ctx.step.atomic("later", lambda: 1),
        lambda ctx: ctx.step.sleep("later", 0),
        lambda ctx: ctx.step.wait_for_event("later", event="paid"),
        lambda ctx: ctx.atomic().__enter__(),
        lambda ctx: ctx.progress(1),
        lambda ctx: ctx.check(),
    ],
)
def test_after_a_swallowed_suspension_every_verb_raises_it_again(bench, verb):
    job_id = bench.enqueue()

    def body(ctx):
        with suppress(BaseException):
            ctx.step.sleep("nap", "1h")
        verb(ctx)

    attempt = bench.attempt(body)

    assert isinstance(attempt.error, Suspension)
    assert attempt.error.step == "nap"
    assert bench.row(job_id).state == "suspended"
    assert set(bench.steps(job_id)) == {"nap"}


def test_a_body_that_returns_after_a_suspension_fails_for_good(bench):
    job_id = bench.enqueue()

    def body(ctx):
        try:
            ctx.step.sleep("nap", "1h")
        except BaseException:
            return "as if nothing had happened"

    attempt = bench.attempt(body)

    assert isinstance(attempt.error, SuspensionSwallowed)
    assert (bench.row(job_id).state, bench.row(job_id).error_code) == (
        "dead",
        "X_JOB_SUSPENSION_SWALLOWED",
    )


def test_a_suspension_inside_a_group_parks_the_run(bench):
    job_id = bench.enqueue()

    def body(ctx):
        try:
            ctx.step.sleep("nap", "1h")
        except BaseException as error:
            raise BaseExceptionGroup("tasks", [error]) from None

    bench.attempt(body)

    assert bench.row(job_id).state == "suspended"


# -- events


def wait(key=None, timeout=None, event="order.approved"):
    def body(ctx):
        ctx.step.run("before", lambda: 1)
        found = ctx.step.wait_for_event("approval", event=event, key=key, timeout=timeout)
        if ctx.attempt == 1:
            raise ValueError("crash after the wait")
        return found

    return body


def test_a_waiting_run_is_parked_until_its_event_and_answers_it_at_every_replay(bench):
    job_id = bench.enqueue()
    body = wait(key="7")
    parked = bench.attempt(body)

    assert isinstance(parked.error, Suspension)
    assert parked.settlement.waits
    assert (bench.row(job_id).state, bench.row(job_id).attempt) == ("suspended", 0)
    assert bench.nothing_is_due()

    event_id = publish_event("order.approved", {"by": "ann"}, key="7")
    assert isinstance(bench.attempt(body).error, ValueError)
    publish_event("order.approved", {"by": "bob"}, key="7")
    event = bench.attempt(body).value

    assert isinstance(event, Event)
    assert (event.id, event.name, event.key) == (event_id, "order.approved", "7")
    assert event.payload == {"by": "ann"}
    assert event.published_at.tzinfo is not None


def test_an_event_with_another_key_or_name_or_without_the_key_is_not_taken(bench):
    bench.enqueue()
    bench.attempt(wait(key="7"))
    publish_event("order.approved", key="8")
    publish_event("order.approved")
    publish_event("order.refused", key="7")

    assert bench.nothing_is_due()


def test_a_wait_without_a_key_takes_an_event_with_any(bench):
    bench.enqueue()
    bench.attempt(wait())
    publish_event("order.approved", 5, key="8")
    bench.attempt(wait())

    assert bench.attempt(wait()).value.key == "8"


def test_an_event_from_before_the_wait_is_never_taken(bench, clock):
    bench.enqueue()
    publish_event("order.approved")
    clock.advance(seconds=1)
    bench.attempt(wait())

    assert bench.nothing_is_due()


def test_an_event_between_the_look_and_the_park_wakes_the_run(bench):
    """At the publish the run was still running, so only a look after the park can find it."""
    job_id = bench.enqueue()

    def body(ctx):
        try:
            ctx.step.wait_for_event("approval", event="order.approved")
        except Suspension:
            publish_event("order.approved", "in time")
            raise

    bench.attempt(body)

    assert bench.row(job_id).is_armed
    assert (
        bench.attempt(
            lambda ctx: ctx.step.wait_for_event("approval", event="order.approved")
        ).value.payload
        == "in time"
    )


def test_two_waits_of_one_run_take_the_events_that_came_after_each_began(bench):
    bench.enqueue()

    def body(ctx):
        first = ctx.step.wait_for_event("first", event="ping")
        second = ctx.step.wait_for_event("second", event="ping")
        return first.payload, second.payload

    bench.attempt(body)
    publish_event("ping", 1)
    bench.attempt(body)
    publish_event("ping", 2)

    assert bench.attempt(body).value == (1, 2)


def test_one_event_answers_every_run_that_waits_for_it(bench):
    first = bench.enqueue()
    bench.attempt(wait())
    second = bench.enqueue()
    bench.attempt(wait())
    publish_event("order.approved", "both")

    assert {bench.claim_any().identity.job_id for _ in range(2)} == {first, second}


@pytest.mark.parametrize("payload", [None, False, 0, "", [], {}])
def test_an_empty_payload_is_an_event_and_no_timeout(bench, payload):
    bench.enqueue()
    body = wait(timeout="30s")
    bench.attempt(body)
    publish_event("order.approved", payload)
    bench.attempt(body)
    event = bench.attempt(body).value

    assert isinstance(event, Event)
    assert event.payload == payload
    assert type(event.payload) is type(payload)


def test_a_wait_that_timed_out_answers_none_also_when_the_event_comes_later(bench, clock):
    job_id = bench.enqueue()
    body = wait(timeout="3d")
    bench.attempt(body)
    step = bench.steps(job_id)["approval"]
    assert step.wake_at - step.started_at == timedelta(days=3)
    assert bench.row(job_id).run_at == step.wake_at

    clock.advance(days=3, seconds=1)
    assert isinstance(bench.attempt(body).error, ValueError)
    publish_event("order.approved", "too late")
    attempt = bench.attempt(body)

    assert (attempt.error, attempt.value) == (None, None)
    assert bench.steps(job_id)["approval"].status == "timed_out"


def test_a_wait_does_not_time_out_before_its_time(bench, clock):
    job_id = bench.enqueue()
    body = wait(timeout="3d")
    bench.interrupt(body)
    before = bench.steps(job_id)["approval"]
    clock.advance(days=2)
    attempt = bench.attempt(body)

    assert isinstance(attempt.error, Suspension)
    assert bench.steps(job_id)["approval"] == before
    assert bench.row(job_id).run_at == before.wake_at


def test_an_event_that_came_in_time_wins_over_a_timeout_seen_late(bench, clock):
    bench.enqueue()
    body = wait(timeout="3d")
    bench.attempt(body)
    publish_event("order.approved", "in time")
    clock.advance(days=4)
    bench.attempt(body)

    assert bench.attempt(body).value.payload == "in time"


class LateLook:
    """The store, with an event that comes and a timeout that passes right after a look."""

    def __init__(self, bench, clock):
        self.bench = bench
        self.clock = clock

    def __getattr__(self, verb):
        return getattr(self.bench.worker_store, verb)

    def find_event(self, wait):
        found = self.bench.worker_store.find_event(wait)
        publish_event("order.approved", "in time")
        self.clock.advance(days=4)
        return found


def test_an_event_that_comes_between_the_look_and_the_clock_is_not_lost_to_the_timeout(
    bench, clock
):
    """The clock is asked first: what it calls over was over before the events were looked at."""
    bench.enqueue()
    body = wait(timeout="3d")
    bench.interrupt(body)
    missed = bench.attempt(body, store=LateLook(bench, clock))
    assert isinstance(missed.error, Suspension)
    bench.attempt(body)

    assert bench.attempt(body).value.payload == "in time"


def test_a_wait_without_a_timeout_waits_for_ever(bench, clock):
    job_id = bench.enqueue()
    bench.attempt(wait())
    clock.advance(days=10_000)

    assert bench.nothing_is_due()
    assert bench.steps(job_id)["approval"].wake_at is None


def test_a_payload_as_deep_and_as_large_as_may_be_published_can_be_waited_for(bench, settings):
    """The checkpoint wraps the payload, and must not fail where the publish did not."""
    deep: list[object] = []
    for _ in range(99):
        deep = [deep]
    settings.DURABLE_JOBS = {"MAX_PAYLOAD": 200}
    # The change of settings made the store in force forgotten.
    install_store(bench.store)
    bench.enqueue()
    body = wait()
    bench.attempt(body)
    publish_event("order.approved", deep)
    with pytest.raises(PayloadTooLarge):
        publish_event("order.approved", "a" * 199)
    bench.attempt(body)

    assert bench.attempt(body).value.payload == deep


@pytest.mark.parametrize(
    ("event", "key", "problem"),
    [
        ("", None, "the name of its event is blank"),
        ("a\0", None, "the name of its event holds a NUL character"),
        ("paid", " ", "the key of its event is blank"),
        ("paid", 7, "the key of its event is of type int, not text"),
    ],
)
def test_an_event_that_nobody_can_publish_is_refused(bench, event, key, problem):
    job_id = bench.enqueue()
    attempt = bench.attempt(lambda ctx: ctx.step.wait_for_event("approval", event=event, key=key))

    assert isinstance(attempt.error, StepRefused)
    assert problem in str(attempt.error)
    assert bench.steps(job_id) == {}
