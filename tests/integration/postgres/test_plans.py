"""Every statement rides an index, also when the table is full of finished jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from django_durable_jobs.drivers.postgres import DjangoExecutor, PostgresStore
from django_durable_jobs.drivers.postgres.statements import load, names
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import JobFilter, NewJob, QueueDemand
from tests.integration.postgres.traffic import LEASE, all_verbs

FINISHED = 100_000
TABLES = "x_jobs, x_job_steps, x_job_attempts, x_job_waits, x_job_events"

FILL = """
    insert into x_jobs (id, name, queue, state, priority, tenant_id, run_at, is_armed, attempt,
                        max_attempts, claims, worker_id, lease_expires_at, created_at, started_at,
                        finished_at)
    select (lpad(to_hex(n), 12, '0') || '7000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid,
           'shop.job', case when n %% 3 = 0 then 'mail' else 'default' end, state, 0,
           't' || n %% 7, now() + make_interval(secs => n - {finished}), state = 'ready',
           1, 5, 1, 'w', case when state = 'running' then now() + interval '1 minute' end,
           now(), now(), case when state in ('done', 'dead') then now() end
      from generate_series(1, {finished} + 3000) n
     cross join lateral (
           select case when n <= {finished} and n %% 100 = 0 then 'dead'
                       when n <= {finished} then 'done'
                       when n %% 10 = 0 then 'running'
                       when n %% 3 = 0 then 'delayed'
                       else 'ready' end as state) s
"""


# Of the finished jobs: a table of a few rows is read whole, and rightly.
FILL_STEPS = """
    insert into x_job_steps (job_id, name, seq, status, output)
    select j.id, 'step ' || n, n, 'done', '1'
      from (select id from x_jobs where state = 'done' order by id limit 5000) j,
           generate_series(1, 4) n
"""
FILL_ATTEMPTS = """
    insert into x_job_attempts (job_id, claim, attempt, outcome)
    select j.id, n, n, 'ready'
      from (select id from x_jobs where state = 'done' order by id limit 5000) j,
           generate_series(1, 4) n
"""


# Of waits and events that have nothing to do with one another.
FILL_WAITS = """
    insert into x_job_waits (job_id, step, place, event, correlation_key)
    select j.id, 'step ' || n, n, 'event ' || n, j.id::text
      from (select id from x_jobs where state = 'done' order by id limit 5000) j,
           generate_series(1, 4) n
"""
FILL_EVENTS = """
    insert into x_job_events (id, name, payload, correlation_key, job_id, expires_at, xact)
    select gen_random_uuid(), 'happened ' || n % 10, '{}', 'key ' || n,
           case when n % 10 = 0 then gen_random_uuid() end, now() + interval '1 day',
           pg_current_xact_id()
      from generate_series(1, 20000) n
"""


# Of parked parents with many children, most of them finished or held.
FILL_FAMILIES = """
    with parents as (
      insert into x_jobs (id, name, queue, state, run_at, is_armed)
      select (lpad(to_hex(n), 12, '0') || '70008000' || lpad(to_hex(n << 20), 12, '0'))::uuid,
             'shop.parent', 'default', 'suspended', '9999-12-31 00:00:00+00', false
        from generate_series(200001, 200300) n
      returning id
    ), steps as (
      insert into x_job_steps (job_id, name, seq, status, family_id, children, children_at_once)
      select p.id, 'ship', 1, 'calling', p.id, 50, 4 from parents p
    )
    insert into x_jobs (id, name, queue, state, run_at, is_armed, parent_id, parent_step, family_id,
                        finished_at)
    select (left(p.id::text, 24)
            || lpad(to_hex(('x' || right(p.id::text, 12))::bit(48)::bigint + n), 12, '0'))::uuid,
           'shop.child', 'children', case when n <= 40 then 'done' else 'delayed' end,
           case when n <= 44 then now() else '9999-12-31 00:00:00+00' end, n between 41 and 44,
           p.id, 'ship', p.id, case when n <= 40 then now() end
      from parents p, generate_series(1, 50) n
"""


@pytest.fixture
def full_table(transactional_db: None) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(FILL.format(finished=FINISHED).replace("%%", "%"))
        cursor.execute("update x_jobs set run_at = now() - interval '1 hour' where is_armed")
        cursor.execute(FILL_STEPS)
        cursor.execute(FILL_FAMILIES)
        cursor.execute(FILL_ATTEMPTS)
        cursor.execute(FILL_WAITS)
        cursor.execute(FILL_EVENTS)
        cursor.execute(f"vacuum analyze {TABLES}")
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"truncate {TABLES}")


class Explaining(DjangoExecutor):
    """Runs every statement, and keeps the plan that it ran by."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.plans: dict[str, str] = {}

    def fetch(self, name: str, parameters: Any) -> Any:
        with transaction.atomic(), connection.cursor() as cursor:
            explain = "explain (analyze, costs off, timing off)"
            cursor.execute(f"{explain} {load(name).query}", parameters)
            self.plans[name] = "\n".join(row[0] for row in cursor.fetchall())
            transaction.set_rollback(True)
        return super().fetch(name, parameters)


def test_no_statement_reads_the_whole_table(full_table: None) -> None:
    executor = Explaining("default")
    all_verbs(PostgresStore(executor))

    missing = set(names()) - set(executor.plans)
    assert not missing
    for name, plan in executor.plans.items():
        assert not re.search(rf"Seq Scan on ({TABLES.replace(', ', '|')})\b", plan), (
            f"{name}.sql reads a whole table:\n{plan}"
        )


def test_a_claim_reads_about_as_many_rows_as_it_takes(full_table: None) -> None:
    executor = Explaining("default")
    store = PostgresStore(executor)

    store.claim("w", [QueueDemand("default", 50)], lease=LEASE)

    plan = executor.plans["claim"]
    read = [int(rows) for rows in re.findall(r"on x_jobs j.*rows=(\d+)\.?\d* loops=1\b", plan)]
    assert read
    assert max(read) <= 200, plan


def test_holders_are_looked_up_key_by_key_in_a_table_that_was_never_analysed(
    transactional_db: None,
) -> None:
    """Until then a bulk enqueue of keys in use sorted all live jobs, in the caller's request."""
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into x_jobs (id, name, idempotency_key)"
            " select gen_random_uuid(), 'plans', 'k' || n from generate_series(1, 20000) n"
        )
    executor = Explaining("default")
    jobs = [
        NewJob(
            id=new_id(),
            name="plans",
            queue="own",
            input="{}",
            max_attempts=1,
            idempotency_key=f"k{n}",
        )
        for n in range(1, 300)
    ]

    answers = PostgresStore(executor).insert(jobs, on_conflict="existing")

    assert not any(answer.created for answer in answers)
    assert re.search(r"Index Scan using x_jobs_live_key.*loops=299", executor.plans["find_holders"])


def test_a_page_reads_about_as_many_rows_as_it_shows(full_table: None) -> None:
    executor = Explaining("default")
    store = PostgresStore(executor)

    page = store.list_jobs(JobFilter(state="dead"), limit=50, after=None, before=None)

    assert len(page) == 50
    assert "x_jobs_unhappy_idx" in executor.plans["list_jobs"]
