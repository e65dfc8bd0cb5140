"""What the PostgreSQL driver keeps of events and waits, and how little it reads for them."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from importlib.resources import files

import pytest
from django.db import connection

from django_durable_jobs import states
from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.drivers.postgres.executor import DjangoExecutor
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

PARKED = 10_000
ALTERNATIVES = (EventFilter("refunded", "7"), EventFilter("failed"))
ELSEWHERE = "9000000000000:9000000000000:"
"""A snapshot of a cluster that is far ahead of this one."""

PARK_MANY = """
    with jobs as (
      insert into x_jobs (id, name, queue, state, run_at, is_armed, claims)
      select gen_random_uuid(), 'shop.pay', 'default', 'suspended',
             timestamptz '9999-12-31 00:00:00+00', false, 1
        from generate_series(1, %(parked)s)
      returning id
    ), waits as (
      insert into x_job_steps (job_id, name, seq, status, event, correlation_key, mark,
                               alternatives)
      select id, 'approval', 1, 'waiting', 'approved', 'key ' || row_number() over (),
             pg_current_snapshot()::text,
             jsonb_build_array(jsonb_build_array('refunded', 'key ' || row_number() over ()))
        from jobs
    )
    insert into x_job_waits (job_id, step, place, event, correlation_key)
    select id, 'approval', 1, 'refunded', 'key ' || row_number() over () from jobs
"""


@pytest.fixture
def store():
    with closing(PostgresStore()) as store:
        yield store


class Measuring(DjangoExecutor):
    """Runs every statement under EXPLAIN too, and keeps the plans."""

    def __init__(self):
        super().__init__("default")
        self.plans = {}

    def fetch(self, name, parameters):
        with self.transaction(), connection.cursor() as cursor:
            cursor.execute("savepoint before")
            explain = f"explain (analyze, buffers, format json) {load(name).query}"
            cursor.execute(explain, parameters)
            self.plans[name] = cursor.fetchone()[0][0]["Plan"]
            cursor.execute("rollback to savepoint before")
        return super().fetch(name, parameters)


def nodes(plan):
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def scans(plan, *tables):
    """The nodes that read one of *tables*, each of which must ride an index."""
    found = [
        node
        for node in nodes(plan)
        if node.get("Relation Name") in tables and "Scan" in node["Node Type"]
    ]
    assert {node["Relation Name"] for node in found} == set(tables)
    for node in found:
        assert "Index" in node["Node Type"] or node["Node Type"] == "Bitmap Heap Scan", node
    return found


def read(plan):
    """Pages read, from memory or not."""
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def park_many():
    with connection.cursor() as cursor:
        cursor.execute(PARK_MANY, {"parked": PARKED})
        cursor.execute("vacuum analyze x_jobs, x_job_steps, x_job_waits, x_job_events")


def armed():
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from x_jobs where is_armed")
        return cursor.fetchone()[0]


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

    assert first.replace(" for no key update skip locked", " for no key update") == again
    assert first != again


def load_fragment(name):
    sql = files("django_durable_jobs.drivers.postgres") / "sql" / "fragments" / f"{name}.sql"
    return normal(sql.read_text().replace(":'shift'", "%(shift)s"))


def normal(text):
    return " ".join(re.sub(r"(?m)--.*$", "", text).split())


# -- how little is read


def test_a_publish_that_nobody_waits_for_reads_no_wait():
    park_many()
    executor = Measuring()

    publish(PostgresStore(executor), "somebody.else", key="7")

    for name in ("wake_event", "wake_event_again"):
        plan = executor.plans[name]
        for node in scans(plan, "x_job_steps", "x_job_waits"):
            assert node["Actual Rows"] == 0 or node["Actual Loops"] == 0, node
        assert read(plan) <= 30, json.dumps(plan)


@pytest.mark.parametrize(
    ("event", "address"),
    [(("approved", "key 77"), False), (("refunded", "key 77"), False), (("approved", None), True)],
    ids=["by the first key", "by another key", "for the job"],
)
def test_one_publish_wakes_its_own_of_ten_thousand_and_reads_no_other(event, address):
    park_many()
    with connection.cursor() as cursor:
        cursor.execute("select job_id from x_job_steps where correlation_key = 'key 77'")
        ((job_id,),) = cursor.fetchall()
    executor = Measuring()
    store = PostgresStore(executor)

    publish(store, event[0], key=event[1], job_id=job_id if address else None)

    assert armed() == 1
    assert executor.plans["wake_event"]["Actual Rows"] == 1
    # The look after the commit finds it woken.
    assert executor.plans["wake_event_again"]["Actual Rows"] == 0
    for name in ("wake_event", "wake_event_again"):
        assert read(executor.plans[name]) <= 100, json.dumps(executor.plans[name])


def test_a_keyed_wait_finds_its_event_among_ten_thousand_and_reads_no_other(store):
    wait = put_wait(store, claimed(store), correlation_key="key 77")
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into x_job_events (id, name, payload, correlation_key, expires_at, xact)"
            " select gen_random_uuid(), 'approved', '1', 'key ' || n, now() + interval '1 day',"
            " pg_current_xact_id() from generate_series(1, %s) n",
            [PARKED],
        )
        cursor.execute("vacuum analyze x_job_events")
    executor = Measuring()

    event = PostgresStore(executor).find_event(wait)

    assert event is not None
    assert event.correlation_key == "key 77"
    assert read(executor.plans["find_event"]) <= 30, json.dumps(executor.plans["find_event"])


def test_a_wait_without_a_key_does_not_read_the_events_from_before_it(store):
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into x_job_events (id, name, payload, correlation_key, expires_at, xact)"
            " select gen_random_uuid(), 'approved', '1', 'key ' || n, now() + interval '1 day',"
            " pg_current_xact_id() from generate_series(1, %s) n",
            [PARKED],
        )
        cursor.execute("vacuum analyze x_job_events")
    wait = put_wait(store, claimed(store))
    event_id = publish(store, key="key 77")
    executor = Measuring()

    event = PostgresStore(executor).find_event(wait)

    assert event is not None
    assert event.id == event_id
    assert read(executor.plans["find_event"]) <= 30, json.dumps(executor.plans["find_event"])


def test_the_last_resort_looks_by_key_for_each_of_ten_thousand_waits():
    park_many()
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into x_job_events (id, name, payload, correlation_key, expires_at, xact)"
            " select gen_random_uuid(), 'approved', '1', 'key ' || n || ' else',"
            " now() + interval '1 day', pg_current_xact_id() from generate_series(1, %s) n",
            [PARKED],
        )
        cursor.execute(
            "insert into x_job_events (id, name, payload, correlation_key, expires_at, xact)"
            " values (gen_random_uuid(), 'refunded', '1', 'key 77', now() + interval '1 day',"
            " pg_current_xact_id())"
        )
        cursor.execute("vacuum analyze x_job_events")
    executor = Measuring()

    assert PostgresStore(executor).wake_missed(limit=1_000) == 1

    assert armed() == 1
    for node in scans(executor.plans["wake_missed"], "x_job_events"):
        assert node["Actual Rows"] <= 1, node
