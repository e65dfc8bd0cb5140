"""The first of several events ends the wait; the others are waited for by nobody any more."""

from __future__ import annotations

from itertools import permutations

import pytest

from django_durable_jobs.events import publish_event
from django_durable_jobs.exceptions import StepRefused
from django_durable_jobs.steps import JobContext, Suspension
from django_durable_jobs.steps.waits import MAX_EVENTS
from django_durable_jobs.store.rows import QueueDemand
from tests.integration.steps.bench import LEASE

DEMAND = [QueueDemand("default", 1)]
THREE = ["completed", "failed", "expired"]


def waits(events=THREE, crashes=False, **options):
    def body(ctx):
        event = ctx.step.wait_for_any("outcome", events=events, **options)
        if crashes and ctx.attempt == 1:
            raise ValueError("crash after the wait")
        return event and (event.name, event.key, event.payload)

    return body


@pytest.mark.parametrize("name", THREE)
def test_the_first_of_them_wins_whichever_it_is_and_wins_every_replay(bench, name):
    bench.enqueue()
    body = waits(crashes=True)
    assert isinstance(bench.attempt(body).error, Suspension)
    publish_event(name, "winner")
    bench.attempt(body)
    for other in THREE:
        publish_event(other, "late")

    assert bench.attempt(body).value == (name, None, "winner")


def test_losing_events_keep_nothing_alive(bench):
    job_id = bench.enqueue()
    bench.attempt(waits(timeout="10m"))
    publish_event("failed", "second of three")
    assert bench.attempt(waits(timeout="10m")).value == ("failed", None, "second of three")

    row = bench.row(job_id)
    assert row.state == "done"
    assert not any(step.is_open for step in bench.steps(job_id).values())
    publish_event("completed", "late")
    assert bench.nothing_is_due()
    assert bench.row(job_id) == row
    if bench.store.features.transactional:
        from django_durable_jobs.models import JobWait

        assert not JobWait.objects.exists()


def test_of_two_that_came_before_the_run_looked_the_older_wins(bench, clock):
    bench.enqueue()
    bench.attempt(waits())
    publish_event("expired", "older")
    clock.advance(seconds=1)
    publish_event("completed", "newer")

    assert bench.attempt(waits()).value == ("expired", None, "older")


def test_each_name_may_have_a_key_of_its_own(bench):
    bench.enqueue()
    body = waits(events=["completed", ("failed", "8"), ("expired", None)], key="7")
    bench.attempt(body)
    for name, key in (("completed", "8"), ("failed", "7"), ("completed", None), ("failed", None)):
        publish_event(name, "wrong key", key=key)
        assert bench.nothing_is_due()
    publish_event("failed", "right", key="8")

    assert bench.attempt(body).value == ("failed", "8", "right")


def test_a_name_given_with_none_takes_any_key(bench):
    bench.enqueue()
    body = waits(events=["completed", ("expired", None)], key="7")
    bench.attempt(body)
    publish_event("expired", "any", key="99")

    assert bench.attempt(body).value == ("expired", "99", "any")


def test_when_none_comes_the_wait_times_out_and_stays_timed_out(bench, clock):
    job_id = bench.enqueue()
    body = waits(timeout="10m", crashes=True)
    bench.attempt(body)
    assert bench.row(job_id).run_at == bench.steps(job_id)["outcome"].wake_at
    clock.advance(minutes=10, seconds=1)
    bench.attempt(body)
    publish_event("failed", "late")
    attempt = bench.attempt(body)

    assert (attempt.value, attempt.error) == (None, None)
    assert bench.steps(job_id)["outcome"].status == "timed_out"


def test_other_events_at_a_replay_change_nothing_of_a_wait_that_began(bench):
    bench.enqueue()
    bench.interrupt(waits(events=["completed", "failed"]))
    bench.attempt(waits(events=["expired"]))
    publish_event("expired", "named later")
    assert bench.nothing_is_due()
    publish_event("failed", "named first")

    assert bench.attempt(waits(events=["expired"])).value == ("failed", None, "named first")


def test_one_event_is_a_list_of_one(bench):
    bench.enqueue()
    bench.attempt(waits(events=("completed",)))
    publish_event("completed", 1)

    assert bench.attempt(waits(events=("completed",))).value == ("completed", None, 1)


def test_since_the_run_takes_what_came_before_the_wait(bench):
    bench.enqueue()
    publish_event("expired", "early")

    assert bench.attempt(waits(since="run")).value == ("expired", None, "early")


NAME = "Give the name that publish_event() is given."
KEY = "Give the key as a short text, such as str(order_id), or leave it out."
PAIRS = 'Give names, or pairs: events=["paid", ("refunded", "7")].'
TOO_MANY = "Publish what many events mean under one name, with the difference in its payload."


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ("completed", "cannot wait: its events are one text. Give a list: events=[...]."),
        ([], "cannot wait: it names 0 events, not 1 to 100. Give at least one: events=[...]."),
        (["e"] * (MAX_EVENTS + 1), f"cannot wait: it names 101 events, not 1 to 100. {TOO_MANY}"),
        ([""], f"cannot wait: the name of its event is blank. {NAME}"),
        ([7], f"cannot wait: the name of its event is of type int, not text. {NAME}"),
        ([("paid", 7)], f"cannot wait: the key of its event is of type int, not text. {KEY}"),
        ([("paid",)], f"cannot wait: one of its events is no pair of a name and a key. {PAIRS}"),
        (
            [("a", "b", "c")],
            f"cannot wait: one of its events is no pair of a name and a key. {PAIRS}",
        ),
    ],
)
def test_events_that_nobody_can_publish_are_refused(bench, events, text):
    job_id = bench.enqueue()
    error = bench.attempt(waits(events=events)).error

    assert isinstance(error, StepRefused)
    assert str(error) == f"Step 'outcome' {text}"
    assert bench.steps(job_id) == {}


def test_a_wait_for_any_is_refused_inline():
    with pytest.raises(StepRefused, match="would wait"):
        JobContext.inline("shop.pay").step.wait_for_any("outcome", events=THREE)


# -- one outcome, whatever comes first


@pytest.mark.parametrize("is_looked_at", ["after each", "at the end"])
@pytest.mark.parametrize("acts", sorted(set(permutations(["time", "event", "event", "cancel"]))))
def test_event_timeout_and_cancel_give_one_outcome_in_whatever_order_they_come(
    bench, clock, acts, is_looked_at
):
    job_id = bench.enqueue()
    outcomes = []

    def body(ctx):
        event = ctx.step.wait_for_event("paid", event="paid", timeout="1s")
        ctx.step.run("after", lambda: outcomes.append("timeout" if event is None else "event"))

    def look():
        bench.worker_store.arm(limit=100)
        while due := bench.worker_store.claim("worker-1", DEMAND, lease=LEASE):
            (claimed,) = due
            bench.attempt(body, claimed)

    bench.attempt(body)
    for act in acts:
        if act == "time":
            clock.advance(seconds=2)
        elif act == "event":
            publish_event("paid")
        else:
            bench.store.cancel(job_id, reason="")
        if is_looked_at == "after each":
            look()
    look()

    row, steps = bench.row(job_id), bench.steps(job_id)
    if row.state == "cancelled":
        assert outcomes == []
        assert steps["paid"].status == "waiting"
    else:
        assert row.state == "done"
        (outcome,) = outcomes
        assert steps["paid"].status == ("timed_out" if outcome == "timeout" else "done")
    # Whoever comes first wins; where nobody looked before the cancel, nobody went on.
    first = acts[0] if is_looked_at == "after each" else "cancel"
    assert (row.state, outcomes) == {
        "cancel": ("cancelled", []),
        "event": ("done", ["event"]),
        "time": ("done", ["timeout"]),
    }[first]
