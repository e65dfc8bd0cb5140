"""Outcomes that the real database refuses, or whose answer it does not get through."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from django_durable_jobs.drivers.postgres import PooledExecutor, PostgresStore
from django_durable_jobs.drivers.postgres.executor import Row
from django_durable_jobs.store.rows import Settlement
from django_durable_jobs.testing.conformance import given
from django_durable_jobs.worker.settling import Outcome, Settler
from tests.integration.declared import REAL

pytestmark = REAL

PATIENCE = 30


class Unheard(PooledExecutor):
    """Hangs up behind the next ``settle``, once: it commits, and nobody hears of it."""

    def __init__(self) -> None:
        super().__init__("default")
        self.is_armed = False

    def fetch(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        if name != "settle" or not self.is_armed:
            return super().fetch(name, parameters)
        self.is_armed = False
        super().fetch(name, parameters)
        with self._connection() as connection:
            pid = connection.info.backend_pid
            other = PooledExecutor("default")
            with other._connection() as killer:
                killer.execute("select pg_terminate_backend(%s)", [pid])
            other.close()
            return self._using(lambda broken: broken.execute("select 1").fetchall())


@pytest.fixture
def unheard() -> Iterator[Unheard]:
    executor = Unheard()
    yield executor
    executor.close()


def settle_all(store: PostgresStore, settlements: dict[Any, Settlement]) -> dict[Any, Any]:
    """Hand all in as one batch; what each was answered."""
    answers: dict[Any, Any] = {}
    answered = threading.Semaphore(0)
    settler = Settler(store, lambda outcomes, landed: None)
    for job, settlement in settlements.items():

        def answer(landed: Settlement | None, job: Any = job) -> None:
            answers[job] = landed
            answered.release()

        settler.hand_in(Outcome(job, settlement, answer=answer))
    settler.start()
    for _ in settlements:
        assert answered.acquire(timeout=PATIENCE)
    assert settler.finish(PATIENCE)
    return answers


@pytest.mark.parametrize("bad", [r'"\u0000"', "{", r'"\udc80"', "[" * 20_000 + "]" * 20_000])
def test_an_outcome_that_the_database_refuses_holds_up_no_other(unheard, bad):
    store = PostgresStore(unheard)
    for _ in range(5):
        given.enqueue(store)
    claimed = given.claim(store, 5)
    outcomes = {
        job: Settlement(job.identity, "done", result=bad if place == 2 else "1")
        for place, job in enumerate(claimed)
    }
    answers = settle_all(store, outcomes)

    states = [given.shown(store, job.identity.job_id).state for job in claimed]
    assert states == ["done", "done", "dead", "done", "done"]
    assert [answers[job].state for job in claimed] == states


def test_an_outcome_that_landed_unheard_is_answered_as_landed(unheard):
    store = PostgresStore(unheard)
    given.enqueue(store)
    (job,) = given.claim(store)
    outcome = Settlement(job.identity, "done", result="1")
    unheard.is_armed = True

    assert settle_all(store, {job: outcome}) == {job: outcome}
    assert not unheard.is_armed
