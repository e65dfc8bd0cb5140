"""Orders finish, once, however often their workers are killed."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from time import monotonic

import pytest

from django_durable_jobs.models import JobAttempt
from example_project.orders.models import Order

from . import orders as shop
from .app.apps import FORGET_STEPS
from .conditions import until
from .conftest import StartWorkers
from .process_tree import kill
from .workers import Workers

SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
OPEN_AT_ONCE = 16
ARGUMENTS = ("--processes", "2", "--threads", "4")


def test_thirty_orders_survive_three_kills(start_workers: StartWorkers):
    _survive(start_workers, count=30, kills=3, seconds=100)


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_two_hundred_orders_survive_twenty_kills(start_workers: StartWorkers):
    _survive(start_workers, count=200, kills=20, seconds=800)


def test_a_worker_that_does_not_replay_is_found_out(start_workers: StartWorkers):
    """The checks above can fail: here they look at workers that run finished steps again."""
    rng = random.Random(1)
    orders = shop.place_orders(3, rng)
    workers = start_workers("--processes", "1", **{FORGET_STEPS: "1"})

    def found_out() -> bool:
        shop.approve_some(rng)
        amiss = "\n".join(shop.broken_promises(orders))
        return all(
            re.search(fault, amiss)
            for fault in (
                r": \d+ gateway calls after its checkpoint",
                r": [2-9] payment rows, not 1",
            )
        )

    until(found_out, seconds=60, otherwise=workers.said)


def _survive(start_workers: StartWorkers, *, count: int, kills: int, seconds: float) -> None:
    print(f"CHAOS_SEED={SEED} repeats the choices of this run")
    rng = random.Random(SEED)
    orders: list[Order] = []
    begun = monotonic()
    havoc = Havoc(start_workers, rng)
    # Spread over the run, with orders left to be hit by the last one.
    due = sorted(rng.sample(range(count * 8 // 10), kills))

    def finished_all() -> bool:
        finished = shop.finished(orders)
        wanted = finished + OPEN_AT_ONCE
        if not due:
            # Else more than *count*: a strike that found nobody at work has yet to come.
            wanted = min(wanted, count)
        orders.extend(shop.place_orders(max(wanted - len(orders), 0), rng))
        shop.approve_some(rng)
        if due and finished >= due[0] and havoc.strike():
            due.pop(0)
        return not due and finished == len(orders) >= count

    until(
        finished_all,
        seconds=seconds,
        every=0.02,
        otherwise=lambda: f"{havoc}.\n{shop.whereabouts()}",
    )
    interrupted = _interrupted_attempts(orders)
    print(
        f"{havoc}, which interrupted {interrupted} attempts; "
        f"{len(orders)} orders in {monotonic() - begun:.1f} s"
    )

    assert havoc.strikes == kills
    assert shop.broken_promises(orders) == []
    assert interrupted > 0, "No kill hit a running job: nothing was shown."
    havoc.workers.stop()


def _interrupted_attempts(orders: Sequence[Order]) -> int:
    return JobAttempt.objects.filter(job_id__in=shop.job_ids(orders), outcome="lapsed").count()


class Havoc:
    """Kills children of a ``runjobs``, and now and then the whole of it, which is restarted."""

    def __init__(self, start_workers: StartWorkers, rng: random.Random) -> None:
        self._start_workers = start_workers
        self._rng = rng
        self.workers: Workers = start_workers(*ARGUMENTS)
        self.children_killed = 0
        self.supervisors_killed = 0

    @property
    def strikes(self) -> int:
        return self.children_killed + self.supervisors_killed

    def strike(self) -> bool:
        """Kill if somebody is at work right now; answer whether that was so."""
        busy = self.workers.busy()
        if not busy:
            return False
        if self._rng.random() < 0.2:
            self.workers.kill_supervisor()
            self.supervisors_killed += 1
            self.workers = self._start_workers(*ARGUMENTS)
        else:
            kill(self._rng.choice(sorted(busy)))
            self.children_killed += 1
        return True

    def __str__(self) -> str:
        return (
            f"killed {self.children_killed} worker processes "
            f"and {self.supervisors_killed} supervisors"
        )
