"""The end of a child costs the same however many siblings ended before, and a job without one none.

Counted are the pages that a statement reads.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.db import connection, transaction

from django_durable_jobs import states
from django_durable_jobs.drivers.postgres import DjangoExecutor, PostgresStore
from django_durable_jobs.drivers.postgres.statements import load
from django_durable_jobs.store.rows import Settlement
from django_durable_jobs.testing.conformance.given import (
    claim,
    claimed,
    parked_family,
    settle,
    shown,
)
from tests.integration.postgres.test_plans import Explaining, full_table
from tests.integration.postgres.traffic import families

__all__ = ["full_table"]

CHILDREN = 3_000
BOUND = 50

INDEXES = {
    "insert_children": r"on x_jobs\b",
    "find_jobs": "x_jobs_pkey",
    "children": "x_jobs_pkey",
    "settle_children": "x_jobs_held_children_idx.*x_jobs_live_children_idx",
    "cancel": "x_jobs_held_children_idx.*x_jobs_live_children_idx",
    "remove": "x_jobs_held_children_idx.*x_jobs_live_children_idx",
    "wake_parents": "x_jobs_live_children_idx",
    "wake_missed_parents": "x_jobs_live_children_idx.*x_jobs_held_children_idx",
}
STEPS = {"settle_children", "cancel", "remove", "wake_parents", "wake_missed_parents"}


class Counting(DjangoExecutor):
    """Counts the pages that each statement read when it last ran."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.pages: dict[str, int] = {}

    def fetch(self, name: str, parameters: Any) -> Any:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"explain (analyze, buffers, format json) {load(name).query}", parameters
            )
            ((plan,),) = cursor.fetchall()
            plan = json.loads(plan) if isinstance(plan, str) else plan
            self.pages[name] = plan[0]["Plan"]["Shared Hit Blocks"]
            self.pages[name] += plan[0]["Plan"]["Shared Read Blocks"]
            transaction.set_rollback(True)
        return super().fetch(name, parameters)


def test_every_statement_of_families_rides_its_index(full_table: None) -> None:
    executor = Explaining("default")
    families(PostgresStore(executor))

    for statement, indexes in INDEXES.items():
        plan = executor.plans[statement]
        assert re.search(indexes, plan, re.DOTALL), plan
        if statement in STEPS:
            assert re.search("(using|Scan on) x_job_steps_(calling_idx|pkey)", plan), plan
        assert not re.search(r"Seq Scan on x_job", plan), plan


def test_the_settle_of_jobs_without_a_parent_reads_no_step(full_table: None) -> None:
    executor = Explaining("default")
    store = PostgresStore(executor)

    assert settle(store, claimed(store, queue="own", worker="w"), states.DONE)

    assert "x_job_steps" not in executor.plans["settle"]
    assert "settle_children" not in executor.plans


def test_a_cancel_of_a_job_without_a_parent_reads_no_step(full_table: None) -> None:
    executor = Explaining("default")
    store = PostgresStore(executor)

    store.cancel(claimed(store, queue="own").job_id, reason="")

    scans = re.findall(r"on x_job_steps.*\((.*)\)", executor.plans["cancel"])
    assert scans
    assert set(scans) == {"never executed"}, executor.plans["cancel"]


@pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"])
def test_the_end_of_a_child_costs_the_same_when_thousands_have_ended_before() -> None:
    counting = Counting("default")
    store, counted = PostgresStore(), PostgresStore(counting)
    made = parked_family(store, CHILDREN, at_once=BOUND)
    pages = []
    for _ in range(CHILDREN // BOUND):
        first, *others = claim(store, BOUND, queue="children")
        assert len(others) == BOUND - 1
        store.settle([Settlement(job.identity, states.DONE) for job in others])
        assert settle(counted, first.identity, states.DONE)
        pages.append(counting.pages["settle_children"] + counting.pages["wake_parents"])

    assert shown(store, made.parent.job_id).is_armed
    # But the very last end, which alone looks through the whole family, once.
    assert max(pages[:-1]) <= 2 * pages[0] + BOUND, pages
