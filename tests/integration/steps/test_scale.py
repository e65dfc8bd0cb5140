"""Parked runs cost nothing while they are parked, and a long run costs the same at each step.

Counted in statements and in the pages that they touch, never timed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from django_durable_jobs import clock as process_clock
from django_durable_jobs import job
from django_durable_jobs.drivers.postgres import DjangoExecutor, PostgresStore
from django_durable_jobs.drivers.postgres.executor import Row
from django_durable_jobs.drivers.postgres.statements import load
from django_durable_jobs.events import publish_event
from django_durable_jobs.models import Job
from django_durable_jobs.store import install_store
from django_durable_jobs.supervisor.keeper import MISSED_EVERY, Keeper
from tests.integration.steps.bench import LEASE, REAL, Bench

pytestmark = REAL

PARKED = 10_000
STEPS = 1_000
PAGES = 40
"""More than a handful of index look-ups touch, far fewer than 10,000 rows fill."""

ID = "(lpad(to_hex({kind}), 8, '0') || '00007000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid"
SLEEPERS = f"""
    with jobs as (
      insert into x_jobs (id, name, queue, state, run_at, is_armed, claims, max_attempts)
      select {ID.format(kind=1)}, 'shop.pay', 'default', 'suspended', now() + interval '30 days',
             false, 1, 5
        from generate_series(1, {PARKED}) n
      returning id, run_at
    )
    insert into x_job_steps (job_id, name, seq, status, claim, attempt, wake_at)
    select id, 'nap', 1, 'sleeping', 1, 1, run_at from jobs
"""  # noqa: S608  constants
WAITERS = f"""
    with jobs as (
      insert into x_jobs (id, name, queue, state, run_at, is_armed, claims, max_attempts)
      select {ID.format(kind=2)}, 'shop.pay', 'default', 'suspended', '9999-12-31 00:00:00+00',
             false, 1, 5
        from generate_series(1, {PARKED}) n
      returning id
    )
    insert into x_job_steps (job_id, name, seq, status, claim, attempt, event, correlation_key,
                             mark)
    select id, 'payment', 1, 'waiting', 1, 1, 'paid',
           ('x' || right(id::text, 12))::bit(48)::bigint::text, pg_current_snapshot()::text
      from jobs
"""  # noqa: S608  constants


EVENTS = f"""
    insert into x_job_events (id, name, payload, correlation_key, expires_at, xact)
    select gen_random_uuid(), 'paid', '{{}}', 'other ' || n, now() + interval '1 day',
           pg_current_xact_id()
      from generate_series(1, {PARKED}) n
"""  # noqa: S608  constants


class Measuring(DjangoExecutor):
    """Counts the statements by name, and the pages that each touched when asked to."""

    def __init__(self) -> None:
        super().__init__("default")
        self.counts: Counter[str] = Counter()
        self.pages: dict[str, list[int]] = {}
        self.is_measuring = False

    def fetch(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        self.counts[name] += 1
        if self.is_measuring:
            # Twice, since the first reads the catalogue as well.
            self._touched(name, parameters)
            self.pages.setdefault(name, []).append(self._touched(name, parameters))
        return super().fetch(name, parameters)

    def _touched(self, name: str, parameters: Mapping[str, Any]) -> int:
        with transaction.atomic(), connection.cursor() as cursor:
            explain = "explain (analyze, buffers, costs off, timing off, format json)"
            cursor.execute(f"{explain} {load(name).query}", parameters)
            ((plans,),) = cursor.fetchall()
            transaction.set_rollback(True)
        plan = (json.loads(plans) if isinstance(plans, str) else plans)[0]["Plan"]
        return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@pytest.fixture
def measuring():
    return Measuring()


@pytest.fixture
def bench(real_bench: Bench, measuring: Measuring):
    """A bench whose every statement is counted."""
    store = PostgresStore(measuring)
    install_store(store)
    real_bench.worker_store.close()
    real_bench.store = real_bench.worker_store = store
    return real_bench


def fill(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("vacuum analyze x_jobs, x_job_steps, x_job_waits, x_job_events")


@pytest.fixture(params=["tidy", "untidy"])
def untidiness(request):
    """Untidy is a table while a transaction somewhere is older than its rows."""
    if request.param == "tidy":
        yield
        return
    with connection_of(connection) as rival, rival.transaction():
        rival.execute("set transaction isolation level repeatable read")
        rival.execute("select count(*) from x_jobs")
        yield


def connection_of(wrapper: Any) -> psycopg.Connection[Any]:
    """Another session of the same database."""
    parameters = wrapper.get_connection_params()
    return psycopg.connect(
        **{key: parameters[key] for key in ("dbname", "host", "port", "user") if key in parameters},
        password=parameters.get("password"),
    )


class Hand:
    """The monotonic clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def an_idle_hour(store: PostgresStore, hand: Hand) -> None:
    """What a supervisor asks while nothing is due."""
    keeper = Keeper(
        store,
        queues=["default"],
        lease=LEASE,
        poll_max=timedelta(seconds=3),
        children=list,
        wake=lambda: pytest.fail("A worker was woken, though nothing is due."),
        rescue=lambda: pytest.fail("A rescue was asked for, though nothing lapsed."),
        is_wake_proven=lambda: True,
    )
    end = hand.now + 3_600
    while hand.now < end:
        hand.now += max(keeper.tick(), 0.01)


def test_parked_runs_cost_no_statement_while_nothing_is_due(bench, measuring, monkeypatch):
    hand = Hand()
    monkeypatch.setattr(process_clock, "monotonic", hand)
    an_idle_hour(bench.store, hand)
    empty = Counter(measuring.counts)
    assert empty["probe"] > 0
    assert empty["wake_missed"] == 3_600 // MISSED_EVERY - 1
    fill(SLEEPERS, WAITERS)
    measuring.counts.clear()

    an_idle_hour(bench.store, hand)

    assert measuring.counts == empty
    assert Job.objects.filter(is_armed=True).count() == 0


def test_a_look_at_the_store_touches_no_more_of_it_for_parked_runs(bench, measuring):
    fill(SLEEPERS, WAITERS)
    measuring.is_measuring = True

    bench.store.probe(["default"])
    bench.store.arm(limit=1_000)
    bench.store.renew([], lease=LEASE, beats=())
    assert bench.nothing_is_due()

    assert {"probe", "arm", "renew", "claim"} <= set(measuring.pages)
    for name, pages in measuring.pages.items():
        assert max(pages) <= PAGES, f"{name} touched {pages} pages"


def test_the_last_resort_looks_up_each_open_wait_and_no_sleep(bench, measuring):
    """It runs four times an hour, in one statement for all of them."""
    fill(SLEEPERS, WAITERS, EVENTS)
    measuring.is_measuring = True

    assert bench.store.wake_missed(limit=1_000) == 0

    (for_waits,) = measuring.pages["wake_missed"]
    (for_parents,) = measuring.pages["wake_missed_parents"]
    assert for_waits <= 12 * PARKED
    assert for_parents <= PAGES


@pytest.mark.usefixtures("untidiness")
def test_one_publish_wakes_exactly_its_own_and_looks_at_no_other(bench, measuring):
    fill(SLEEPERS, WAITERS)
    measuring.is_measuring = True
    publish_event("paid", {"amount": 7}, key="777")

    woken = Job.objects.filter(is_armed=True)
    assert [str(job.pk)[-4:] for job in woken] == [f"{777:04x}"]
    assert {"publish", "wake_event"} <= set(measuring.pages)
    for name, pages in measuring.pages.items():
        assert max(pages) <= PAGES, f"{name} touched {pages} pages"
    attempt = bench.attempt(
        lambda ctx: ctx.step.wait_for_event("payment", event="paid", key="777").payload
    )

    assert attempt.value == {"amount": 7}
    assert bench.nothing_is_due()


@pytest.mark.usefixtures("untidiness")
def test_an_event_that_nobody_waits_for_wakes_nobody(bench, measuring):
    fill(SLEEPERS, WAITERS)
    measuring.is_measuring = True
    publish_event("paid", key="nobody's")
    publish_event("refunded", key="777")
    # A wait with a key takes none without.
    publish_event("paid")

    assert not Job.objects.filter(is_armed=True).exists()
    for name, pages in measuring.pages.items():
        assert max(pages) <= PAGES, f"{name} touched {pages} pages"


def test_sleepers_of_one_instant_are_woken_in_bounded_portions(bench, measuring, clock):
    fill(SLEEPERS)
    clock.advance(days=31)

    assert [bench.store.arm(limit=4_000) for _ in range(4)] == [4_000, 4_000, 2_000, 0]


# -- a long run


def long_run(ctx, measuring, measured=()):
    for number in range(1, STEPS + 1):
        measuring.is_measuring = number in measured
        ctx.step.run(f"step {number}", int, number)
        measuring.is_measuring = False
    if ctx.attempt == 1:
        raise ValueError("crash behind the last step")
    return "done"


def test_a_resumed_run_reads_all_of_its_steps_at_once(bench, measuring):
    bench.enqueue()
    bench.attempt(lambda ctx: long_run(ctx, measuring))
    assert (measuring.counts["put_step"], measuring.counts["load_steps"]) == (STEPS, 0)
    measuring.counts.clear()

    assert bench.attempt(lambda ctx: long_run(ctx, measuring)).value == "done"

    assert measuring.counts["load_steps"] == 1
    assert set(measuring.counts) == {"arm", "claim", "load_steps", "settle"}


def test_a_step_costs_the_same_at_every_length_of_the_run(bench, measuring):
    # So that the index is as deep at the first step as at the last.
    fill(SLEEPERS)
    bench.enqueue()
    bench.attempt(lambda ctx: long_run(ctx, measuring, measured=(10, 500, STEPS)))

    assert measuring.counts["put_step"] == STEPS
    tenth, middle, last = measuring.pages["put_step"]
    assert set(measuring.pages) == {"put_step"}
    assert max(tenth, middle, last) <= PAGES
    # One more or less where a page was just begun.
    assert abs(last - tenth) <= 4
    assert abs(middle - tenth) <= 4


def test_children_are_enqueued_and_read_in_few_statements_however_many(bench, measuring, declaring):
    @job(name="shop.ship")
    def ship(order: int) -> int:
        return order

    bench.enqueue()
    measuring.counts.clear()

    def body(ctx):
        return sum(ctx.step.map("ship", ship, [{"order": n} for n in range(300)]))

    bench.attempt(body)
    assert sum(measuring.counts.values()) <= 10, measuring.counts
    bench.work(slots=300)
    measuring.counts.clear()

    assert bench.attempt(body).value == sum(range(300))
    assert sum(measuring.counts.values()) <= 8, measuring.counts
