"""How little the PostgreSQL driver reads for events and waits, however many there are."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from django.db import connection

from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.drivers.postgres.executor import DjangoExecutor
from django_durable_jobs.drivers.postgres.statements import load
from django_durable_jobs.testing.conformance.given import claimed, found, parked, publish, put_wait

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"])

PARKED = 10_000

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


def test_a_publish_does_not_read_the_waits_that_finished_jobs_left_open():
    park_many()
    with connection.cursor() as cursor:
        cursor.execute("update x_jobs set state = 'cancelled', finished_at = now()")
        cursor.execute("update x_job_steps set correlation_key = null")
        cursor.execute("update x_job_waits set correlation_key = null")
        cursor.execute("analyze x_jobs, x_job_steps, x_job_waits")
    executor = Measuring()
    store = PostgresStore(executor)
    assert store.set_waits_aside(limit=PARKED) == PARKED
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze x_job_steps, x_job_waits")
    # Or nobody would be asked for.
    parked(store, event="something.else")

    for name in ("approved", "refunded"):
        publish(store, name)

        for statement in ("wake_event", "wake_event_again"):
            assert read(executor.plans[statement]) <= 30, json.dumps(executor.plans[statement])


def test_a_wait_without_a_key_does_not_read_the_events_for_other_jobs(store):
    wait = put_wait(store, claimed(store))
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into x_job_events (id, name, payload, job_id, expires_at, xact)"
            " select gen_random_uuid(), 'approved', '1', gen_random_uuid(),"
            " now() + interval '1 day', pg_current_xact_id() from generate_series(1, %s) n",
            [PARKED],
        )
        cursor.execute("vacuum analyze x_job_events")
    executor = Measuring()
    store = PostgresStore(executor)

    assert found(store, wait) is None
    assert read(executor.plans["find_event"]) <= 30, json.dumps(executor.plans["find_event"])

    own = publish(store, job_id=wait.job_id)
    assert found(store, wait) == own
    assert read(executor.plans["find_event"]) <= 30, json.dumps(executor.plans["find_event"])


def test_of_large_events_only_the_one_that_is_taken_is_read_whole(store):
    wait = put_wait(store, claimed(store))
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into x_job_events (id, name, payload, expires_at, xact)"
            " select gen_random_uuid(), 'approved',"
            " (select jsonb_agg(md5(n::text || i::text)) from generate_series(1, 500) i),"
            " now() + interval '1 day', pg_current_xact_id() from generate_series(1, 200) n"
        )
        cursor.execute("vacuum analyze x_job_events")
    executor = Measuring()

    assert PostgresStore(executor).find_event(wait) is not None

    # Whole, each is in four pages or more of its own, and found by an index of two.
    assert read(executor.plans["find_event"]) <= 500, json.dumps(executor.plans["find_event"])
