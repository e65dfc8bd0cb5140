"""What the PostgreSQL driver keeps of events and waits."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from importlib.resources import files

import pytest
from django.db import connection

from django_durable_jobs import states
from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.drivers.postgres.statements import load
from django_durable_jobs.models import JobEvent, JobStep, JobWait
from django_durable_jobs.store.rows import EventFilter, NewStep
from django_durable_jobs.testing.conformance.given import (
    claim_id,
    claimed,
    found,
    parked,
    publish,
    put_wait,
    refuse_found,
    settle,
    shown,
)

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"])

ALTERNATIVES = (EventFilter("refunded", "7"), EventFilter("failed"))
ELSEWHERE = "9000000000000:9000000000000:"
"""A snapshot of a cluster that is far ahead of this one."""


@pytest.fixture
def store():
    with closing(PostgresStore()) as store:
        yield store


# -- what is kept


def test_further_events_of_a_wait_have_a_row_each_until_it_ends(store):
    identity = claimed(store)
    put_wait(store, identity, alternatives=ALTERNATIVES)
    rows = JobWait.objects.order_by("place").values_list("step", "event", "correlation_key")
    assert list(rows.all()) == [("approval", "refunded", "7"), ("approval", "failed", None)]

    put_wait(store, identity, alternatives=(*ALTERNATIVES, EventFilter("later")))
    assert rows.all().count() == 2
    store.put_step(identity, NewStep("approval", 1, "done", output="1", event="approved"))

    assert rows.all().count() == 0


def test_a_removed_job_leaves_no_open_wait(store):
    job_id, _ = parked(store, alternatives=ALTERNATIVES)
    other, _ = parked(store, alternatives=ALTERNATIVES)

    store.remove(job_id)

    assert set(JobWait.objects.values_list("job_id", flat=True)) == {other}


def test_a_cursor_is_a_pair_a_snapshot_and_ids(store, clock):
    identity = claimed(store)
    wait = put_wait(store, identity)
    event_id = publish(store)
    wait = refuse_found(store, identity, wait)
    clock.advance(minutes=-5)
    owed = publish(store)
    refuse_found(store, identity, wait)

    step = JobStep.objects.get()

    event = JobEvent.objects.get(id=event_id)
    assert (step.cursor_at, step.cursor_id) == (event.published_at, event_id)
    assert step.refused == [str(owed)]
    assert wait.cursor is not None
    assert step.cursor_mark == wait.cursor.mark


def test_a_refusal_by_a_later_claim_leaves_by_which_the_wait_was_begun(store):
    identity = claimed(store)
    wait = put_wait(store, identity)
    settle(store, identity, states.READY)
    publish(store)

    refuse_found(store, claim_id(store, identity.job_id), wait)

    step = JobStep.objects.get()
    assert (step.claim, step.attempt) == (1, 1)
    assert step.cursor_id is not None


def test_an_event_names_the_job_it_is_for(store):
    identity = claimed(store)
    publish(store, job_id=identity.job_id)
    publish(store)

    assert set(JobEvent.objects.values_list("job_id", flat=True)) == {identity.job_id, None}


def test_a_refused_event_that_was_purged_does_not_bring_back_those_in_front_of_it(store):
    identity = claimed(store)
    wait = put_wait(store, identity)
    publish(store)
    second = publish(store)
    wait = refuse_found(store, identity, refuse_found(store, identity, wait))

    JobEvent.objects.filter(id=second).delete()

    assert found(store, wait) is None
    assert settle(store, identity, states.SUSPENDED, give_back=True, waits=True)
    assert not shown(store, identity.job_id).is_armed


def test_an_event_written_again_under_a_refused_id_is_refused(store):
    """Restored from a dump, say: then it has the transaction of whoever restored it."""
    identity = claimed(store)
    wait = put_wait(store, identity)
    event_id = publish(store)
    wait = refuse_found(store, identity, wait)
    with connection.cursor() as cursor:
        cursor.execute("update x_job_events set xact = pg_current_xact_id()")

    assert found(store, wait) is None
    assert JobEvent.objects.get().id == event_id


def test_a_snapshot_of_another_cluster_leaves_the_decision_to_stamps(store, clock):
    identity = claimed(store)
    publish(store)
    clock.advance(minutes=5)
    wait = replace(put_wait(store, identity), mark=ELSEWHERE)
    clock.advance(minutes=5)
    event_id = publish(store)

    assert found(store, wait) == event_id


def test_a_cursor_of_another_cluster_is_a_pair_and_no_more(store):
    """By chance its snapshot could hold a transaction of this cluster as still open."""
    identity = claimed(store)
    wait = put_wait(store, identity)
    first, _ = publish(store), publish(store)
    wait = refuse_found(store, identity, refuse_found(store, identity, wait))
    third = publish(store)
    xact = JobEvent.objects.get(id=first).xact
    assert wait.cursor is not None

    cursor = replace(wait.cursor, mark=f"{xact}:{ELSEWHERE.split(':')[0]}:{xact}")

    assert found(store, replace(wait, cursor=cursor)) == third


def test_events_of_one_millisecond_are_refused_one_by_one_in_the_order_of_their_ids(store):
    identity = claimed(store)
    wait = put_wait(store, identity)
    ids = sorted(publish(store) for _ in range(3))
    JobEvent.objects.update(published_at=store.now().replace(microsecond=0))

    for event_id in ids:
        assert found(store, wait) == event_id
        wait = refuse_found(store, identity, wait)

    assert found(store, wait) is None


def test_an_event_without_a_transaction_id_is_judged_by_its_stamp(store, clock):
    identity = claimed(store)
    publish(store)
    clock.advance(minutes=5)
    wait = put_wait(store, identity)
    clock.advance(minutes=5)
    event_id = publish(store)
    JobEvent.objects.update(xact=None)

    assert found(store, wait) == event_id
    assert found(store, refuse_found(store, identity, wait)) is None


# -- one text


def test_every_look_for_an_event_asks_the_same_text():
    shared = load_fragment("event_ends_wait")
    for name in ("find_event", "wake_waiters", "wake_missed", "wake_event", "wake_event_again"):
        assert normal(load(name).query).count(shared) == 1, name


def test_both_looks_of_a_publish_differ_in_how_they_meet_a_lock_and_in_nothing_else():
    first, again = (
        normal(load(name).query).replace(f"/* {name} */", "")
        for name in ("wake_event", "wake_event_again")
    )

    bound = "patience as materialized ( select set_config('lock_timeout', %(patience)s, true) ), "
    assert bound in again
    again = again.replace(bound, "").replace(" and exists (select from patience)", "")
    assert first.replace(" for no key update skip locked", " for no key update") == again
    assert first != again


def load_fragment(name):
    sql = files("django_durable_jobs.drivers.postgres") / "sql" / "fragments" / f"{name}.sql"
    return normal(sql.read_text().replace(":'shift'", "%(shift)s"))


def normal(text):
    return " ".join(re.sub(r"(?m)--.*$", "", text).split())
