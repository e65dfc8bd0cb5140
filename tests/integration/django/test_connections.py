"""Django's connections around the bodies of a worker's slots, as around requests."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction

from django_durable_jobs import job
from django_durable_jobs.models import Job
from django_durable_jobs.worker.connections import fresh_connections
from tests.acceptance.conditions import until
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL_ON_BOTH

pytestmark = REAL_ON_BOTH

ALIASES = ("default", "other")
SLOTS = 4


def backend(alias: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


def alive(pids: set[int]) -> set[int]:
    with connection.cursor() as cursor:
        cursor.execute("select pid from pg_stat_activity where pid = any(%s::int[])", [list(pids)])
        return {row[0] for row in cursor.fetchall()}


def kill(pids: set[int]) -> None:
    """Hang up on clients that are not told, as a server or firewall does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_terminate_backend(pid) from unnest(%s::int[]) as pid", [list(pids)]
        )
    until(lambda: not alive(pids), seconds=10)


@pytest.fixture
def keep(monkeypatch):
    """Return a function that says how long connections are kept."""

    def keep(seconds: int | None, *, health_checks: bool = False) -> None:
        for alias in ALIASES:
            monkeypatch.setitem(connections.settings[alias], "CONN_MAX_AGE", seconds)
            monkeypatch.setitem(connections.settings[alias], "CONN_HEALTH_CHECKS", health_checks)

    return keep


@pytest.fixture
def slot() -> Iterator[Executor]:
    """One thread, as a worker's slot is; its connections are closed at the end."""
    with ThreadPoolExecutor(1) as thread:
        yield thread
        thread.submit(connections.close_all).result()


@pytest.fixture
def seen() -> Iterator[dict[str, set[int]]]:
    """The backends that bodies were served by; killed at the end, for slots never end."""
    backends: dict[str, set[int]] = {alias: set() for alias in ALIASES}
    yield backends
    kill(set.union(*backends.values()))


@pytest.fixture
def busy(seen):
    @job(name="django.busy")
    def busy(number: int) -> None:
        for alias in ALIASES:
            seen[alias].add(backend(alias))

    return busy


def states() -> set[str]:
    return set(Job.objects.values_list("state", flat=True))


def test_connections_that_are_kept_are_one_for_each_slot_and_alias(keep, busy, seen):
    keep(None)
    busy.enqueue_many({"number": number} for number in range(300))

    work_until_idle(slots=SLOTS)

    assert states() == {"done"}
    assert all(1 <= len(backends) <= SLOTS for backends in seen.values())


def test_with_a_maximum_age_of_zero_none_is_left_after_a_body(keep, busy, seen):
    keep(0)
    busy.enqueue_many({"number": number} for number in range(40))

    work_until_idle(slots=SLOTS)

    assert states() == {"done"}
    until(lambda: not alive(set.union(*seen.values())), seconds=10)


@pytest.mark.parametrize("health_checks", [True, False])
def test_a_connection_killed_between_two_bodies_is_not_the_next_ones_problem(
    keep, slot, health_checks
):
    keep(None, health_checks=health_checks)

    def body() -> tuple[int, ...]:
        with fresh_connections():
            return tuple(backend(alias) for alias in ALIASES)

    first = slot.submit(body).result()
    again = slot.submit(body).result()
    kill(set(first))
    after = slot.submit(body).result()

    assert again == first
    assert not set(after) & set(first)


def test_a_connection_within_its_age_is_kept_and_one_past_it_is_closed(keep, slot):
    keep(600)

    def body() -> int:
        with fresh_connections():
            return backend("default")

    def outlive() -> None:
        connections["default"].close_at = 0

    first = slot.submit(body).result()
    assert slot.submit(body).result() == first
    slot.submit(outlive).result()
    assert slot.submit(body).result() != first


def test_a_long_body_keeps_its_connection_past_the_maximum_age(keep, slot):
    keep(0)

    def body() -> tuple[int, int]:
        with fresh_connections():
            first = backend("default")
            connections["default"].close_at = 0
            return first, backend("default")

    first, later = slot.submit(body).result()
    assert first == later


def test_each_body_starts_with_an_empty_log_of_queries(keep, slot, settings):
    settings.DEBUG = True
    keep(None)

    def body() -> tuple[int, int]:
        with fresh_connections():
            before = len(connections["default"].queries)
            backend("default")
            return before, len(connections["default"].queries)

    assert [slot.submit(body).result() for _ in range(3)] == [(0, 1)] * 3


def leave_autocommit_off() -> None:
    transaction.set_autocommit(False)
    Group.objects.create(name="left open")


def leave_a_block_open() -> None:
    transaction.atomic().__enter__()
    Group.objects.create(name="left open")


def leave_nested_blocks_open() -> None:
    transaction.atomic().__enter__()
    transaction.atomic().__enter__()
    transaction.on_commit(lambda: Group.objects.create(name="too late"))
    Group.objects.create(name="left open")


def leave_a_broken_block_open() -> None:
    transaction.atomic().__enter__()
    Group.objects.create(name="left open")
    transaction.set_rollback(True)


def leave_a_block_open_on_a_closed_connection() -> None:
    transaction.atomic().__enter__()
    Group.objects.create(name="left open")
    connection.close()


@pytest.mark.parametrize("max_age", [0, None])
@pytest.mark.parametrize(
    "leave",
    [
        leave_autocommit_off,
        leave_a_block_open,
        leave_nested_blocks_open,
        leave_a_broken_block_open,
        leave_a_block_open_on_a_closed_connection,
    ],
)
def test_a_transaction_that_a_body_left_open_is_rolled_back_before_the_next(
    keep, slot, leave, max_age
):
    keep(max_age)

    def poison() -> None:
        with fresh_connections():
            leave()

    def body() -> bool:
        with fresh_connections():
            Group.objects.create(name="of the next body")
            return connection.in_atomic_block

    slot.submit(poison).result()

    assert slot.submit(body).result() is False
    assert list(Group.objects.values_list("name", flat=True)) == ["of the next body"]


def test_a_body_that_leaves_its_transaction_open_harms_no_other_job_of_its_slot(keep):
    keep(0)

    @job(name="django.poison")
    def poison() -> None:
        leave_nested_blocks_open()

    @job(name="django.next")
    def next_one(number: int) -> None:
        Group.objects.create(name=str(number))

    for number in range(3):
        poison.enqueue()
        next_one.enqueue(number=number)

    work_until_idle(slots=1)

    assert states() == {"done"}
    assert set(Group.objects.values_list("name", flat=True)) == {"0", "1", "2"}
