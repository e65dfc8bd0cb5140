"""What a supervisor asks of the database, counted and stepped on a clock that is moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection

from django_durable_jobs import clock
from django_durable_jobs.drivers.postgres import PooledExecutor, PostgresStore
from django_durable_jobs.drivers.postgres.executor import Row, connect
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.models import JobEvent, JobStep
from django_durable_jobs.states import SUSPENDED
from django_durable_jobs.supervisor.child import Child, ChildOptions
from django_durable_jobs.supervisor.keeper import MISSED_EVERY, TIDIED_AT_MOST, TIDY_EVERY, Keeper
from django_durable_jobs.testing.conformance import given
from tests.acceptance.conditions import until
from tests.acceptance.process_tree import database_url
from tests.integration.declared import REAL

pytestmark = REAL

LEASE = timedelta(seconds=60)
POLL_MAX = timedelta(seconds=3)


class Counting(PooledExecutor):
    """Counts the statements by name."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.counts: Counter[str] = Counter()
        self.is_away = False

    def fetch(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        self.counts[name] += 1
        if self.is_away:
            raise StoreUnavailable("The server is down.")
        return super().fetch(name, parameters)


class FailingLapse(PostgresStore):
    def lapse(self, claims: Any) -> int:
        raise psycopg.errors.SyntaxError("a fault of our own")


class SlowHousekeeping(PostgresStore):
    """A store in which the looks of the last resort take longer than a statement may."""

    def wake_missed(self, *, limit: int) -> int:
        raise StoreUnavailable("The statement was canceled.")

    purge_events = wake_missed


class Hand:
    """The monotonic clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hand(monkeypatch) -> Hand:
    hand = Hand()
    monkeypatch.setattr(clock, "monotonic", hand)
    return hand


@pytest.fixture
def counting() -> Iterator[Counting]:
    executor = Counting("default")
    yield executor
    executor.close()


@pytest.fixture
def child(monkeypatch) -> Iterator[Child]:
    """An idle worker in a process of its own."""
    monkeypatch.setenv("DATABASE_URL", database_url())
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.settings")
    options = ChildOptions(queues=("default",), slots=1, grace=1.0, burst=False, log="")
    child = Child(options, kept=lambda: None)

    def says_it_is_ready() -> bool:
        for message in child.channel.receive():
            child.take_in(message)
        return child.is_ready

    until(says_it_is_ready, seconds=30)
    yield child
    child.process.kill()
    child.process.wait()
    child.channel.close()


class Bench:
    def __init__(
        self,
        executor: Counting,
        *,
        children: list[Child],
        is_proven: bool,
        kind: type[PostgresStore] = PostgresStore,
    ) -> None:
        self.wakes = 0
        self.rescues = 0
        self.keeper = Keeper(
            kind(executor),
            queues=["default"],
            lease=LEASE,
            poll_max=POLL_MAX,
            children=lambda: children,
            wake=self._wake,
            rescue=self._rescue,
            is_wake_proven=lambda: is_proven,
        )

    def run(self, hand: Hand, seconds: float) -> None:
        """Let so much time pass, duty by duty."""
        end = hand.now + seconds
        while hand.now < end:
            hand.now = min(hand.now + max(self.keeper.tick(), 0.0001), end)

    def _wake(self) -> None:
        self.wakes += 1

    def _rescue(self) -> None:
        self.rescues += 1


def test_an_idle_minute_costs_eight_statements_while_wakes_are_proven(hand, counting, child):
    """Twelve are allowed: what is left is for the proof, and for what other rooms will ask."""
    bench = Bench(counting, children=[child], is_proven=True)
    bench.run(hand, 60)
    counting.counts.clear()
    bench.run(hand, 60)

    assert counting.counts["renew"] == 3
    assert counting.counts.total() <= 8, counting.counts
    assert bench.wakes == 0


def test_an_idle_minute_costs_twenty_four_statements_without_wakes(hand, counting, child):
    """Thirty are allowed: what is left is for the attempts at listening, two in a minute."""
    bench = Bench(counting, children=[child], is_proven=False)
    bench.run(hand, 60)
    counting.counts.clear()
    bench.run(hand, 60)

    assert counting.counts["renew"] == 3
    assert counting.counts.total() <= 24, counting.counts


def test_a_parked_job_whose_event_woke_nobody_is_woken_within_a_quarter_of_an_hour(hand, counting):
    bench = Bench(counting, children=[], is_proven=True)
    store = PostgresStore()
    identity = given.claimed(store)
    given.put_wait(store, identity)
    given.publish(store)
    assert given.settle(store, identity, SUSPENDED)

    bench.run(hand, 14 * 60)
    assert not given.shown(store, identity.job_id).is_armed
    bench.run(hand, 61)

    assert given.shown(store, identity.job_id).is_armed
    assert bench.wakes >= 1
    assert counting.counts["wake_missed"] == 1


def test_expired_events_are_purged_within_a_quarter_of_an_hour(hand, counting):
    bench = Bench(counting, children=[], is_proven=True)
    store = PostgresStore()
    given.publish(store, ttl=timedelta(minutes=1))
    lasting = given.publish(store)
    clock.move(timedelta(minutes=2))

    bench.run(hand, 14 * 60)
    assert JobEvent.objects.count() == 2
    bench.run(hand, 61)

    assert [event.pk for event in JobEvent.objects.all()] == [lasting]
    assert counting.counts["purge_events"] == 1


def test_many_expired_events_are_purged_batch_by_batch_without_a_pause(hand, counting):
    bench = Bench(counting, children=[], is_proven=True)
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into x_job_events (id, name, payload, expires_at)"
            " select gen_random_uuid(), 'approved', '1', now() - make_interval(secs => n)"
            "   from generate_series(1, %s) n",
            [TIDIED_AT_MOST * 2 + 1],
        )

    bench.run(hand, TIDY_EVERY + 1)

    assert not JobEvent.objects.exists()
    assert counting.counts["purge_events"] == 3
    assert counting.counts["wake_missed"] == 1


def test_waits_of_finished_jobs_are_set_aside_within_a_quarter_of_an_hour(hand, counting):
    bench = Bench(counting, children=[], is_proven=True)
    store = PostgresStore()
    finished, _ = given.parked(store)
    parked, _ = given.parked(store)
    store.cancel(finished, reason="")

    bench.run(hand, TIDY_EVERY + 1)

    assert [step.job_id for step in JobStep.objects.filter(is_set_aside=True)] == [finished]
    assert [step.job_id for step in JobStep.objects.filter(is_set_aside=False)] == [parked]
    assert counting.counts["set_waits_aside"] == 1


def test_a_job_whose_wake_was_lost_is_found_within_the_longest_poll(hand, counting):
    bench = Bench(counting, children=[], is_proven=False)
    bench.run(hand, 60)
    given.enqueue(PostgresStore())
    bench.run(hand, POLL_MAX.total_seconds())

    assert bench.wakes >= 1


def test_a_due_job_that_somebody_has_locked_is_not_asked_for_without_pause(hand, counting):
    store = PostgresStore()
    job_id = given.enqueue(store, delay=timedelta(seconds=5))
    clock.move(timedelta(seconds=6))
    bench = Bench(counting, children=[], is_proven=True)
    with connect("default") as other, other.transaction():
        other.execute("select from x_jobs where id = %s for update", [job_id])
        bench.run(hand, 10)
        assert counting.counts.total() < 40, counting.counts
        assert bench.wakes == 0
    bench.run(hand, 10)

    assert bench.wakes >= 1
    assert given.shown(store, job_id).is_armed


def test_a_known_lapse_is_rescued_when_it_comes(hand, counting):
    store = PostgresStore()
    given.claimed(store)
    bench = Bench(counting, children=[], is_proven=True)
    bench.run(hand, 59)
    assert bench.rescues == 0
    clock.move(timedelta(seconds=60))
    bench.run(hand, 2)

    assert bench.rescues == 1


def test_leases_are_given_up_by_the_workers_own_measure_when_the_store_is_away(
    hand, counting, child
):
    store = PostgresStore()
    identity = given.claimed(store, worker=child.worker_id, queue="held")
    child.take_in({"kind": "holding", "claims": [[identity.job_id.hex, identity.claim, None]]})
    bench = Bench(counting, children=[child], is_proven=True)
    bench.keeper.tick()
    counting.is_away = True
    hand.now += 59
    with pytest.raises(StoreUnavailable):
        bench.keeper.tick()
    bench.keeper.tell_overdue()
    assert child.claims() == [identity]

    hand.now += 2
    bench.keeper.tell_overdue()
    assert child.claims() == []


def test_renewal_goes_on_though_the_dead_cannot_be_taken_leave_of(hand, counting, child):
    """The leases of all that runs hang on it."""
    store = PostgresStore()
    identity = given.claimed(store, worker=child.worker_id, queue="held")
    child.take_in({"kind": "holding", "claims": [[identity.job_id.hex, identity.claim, None]]})
    bench = Bench(counting, children=[child], is_proven=True, kind=FailingLapse)
    bench.keeper.bury(child)
    for _ in range(3):
        hand.now += 21
        with pytest.raises(psycopg.errors.SyntaxError):
            bench.keeper.tick()

    assert counting.counts["renew"] == 3


def test_jobs_fall_due_though_the_looks_of_the_last_resort_fail(hand, counting):
    bench = Bench(counting, children=[], is_proven=True, kind=SlowHousekeeping)
    bench.run(hand, MISSED_EVERY - 1)
    job_id = given.enqueue(PostgresStore(), delay=timedelta(seconds=5))
    hand.now += 2
    clock.move(timedelta(seconds=6))

    for _ in range(3):
        hand.now += 31
        with pytest.raises(StoreUnavailable):
            bench.keeper.tick()

    assert given.shown(PostgresStore(), job_id).is_armed


@pytest.fixture(autouse=True)
def _clock() -> Iterator[None]:
    yield
    clock.reset()
