"""Async bodies in a whole worker: side by side in the database, and cancelled in mid-wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import connection, connections

from django_durable_jobs import AsyncJobContext, JobContext, Retry, job
from django_durable_jobs.models import Job
from django_durable_jobs.steps import current_job_id
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL
from tests.integration.worker.supervised import Supervisor, work_until_idle_beside

pytestmark = REAL

PATIENCE = 20


@pytest.fixture
def kept_connections(monkeypatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", None)


def state_of(result: Any) -> str:
    return Job.objects.get(pk=result.id).state


def test_the_orm_calls_of_different_async_jobs_do_not_queue_behind_one_another():
    """Each call is held until the other has begun: in one thread neither would end."""
    both = threading.Barrier(2)
    pids: set[int] = set()

    def meet(execute: Any, *arguments: Any) -> Any:
        both.wait(PATIENCE)
        return execute(*arguments)

    def prepare() -> None:
        connection.ensure_connection()
        pids.add(connection.connection.info.backend_pid)
        connection.execute_wrappers.append(meet)

    @job(name="async.count", retry=Retry(attempts=1))
    async def count(number: int) -> int:
        await sync_to_async(prepare)()
        return await Group.objects.acount()

    results = [count.enqueue(number=number) for number in range(2)]
    work_until_idle(slots=2)

    assert [state_of(result) for result in results] == ["done", "done"]
    assert len(pids) == 2
    assert sessions_of(pids) == 0


@pytest.mark.usefixtures("kept_connections")
def test_an_async_job_leaves_no_database_connection_behind():
    pids: set[int] = set()

    def note() -> None:
        connection.ensure_connection()
        pids.add(connection.connection.info.backend_pid)

    @job(name="async.note")
    async def body(ctx: AsyncJobContext) -> None:
        await ctx.step.run("note", note)
        assert await sync_to_async(current_job_id)() == current_job_id() == ctx.job_id

    result = body.enqueue()
    work_until_idle(slots=1)

    assert state_of(result) == "done"
    assert len(pids) == 1
    assert sessions_of(pids) == 0


def test_the_branches_of_a_plain_job_have_connections_of_their_own_and_leave_none_behind():
    both = threading.Barrier(2)

    def branch() -> int:
        connection.ensure_connection()
        both.wait(PATIENCE)
        return int(connection.connection.info.backend_pid)

    @job(name="branches.note", retry=Retry(attempts=1))
    def body(ctx: JobContext) -> list[int]:
        connection.ensure_connection()
        pids = ctx.step.gather(lambda: ctx.step.run("a", branch), lambda: ctx.step.run("b", branch))
        assert current_job_id() == ctx.job_id
        return [*pids, connection.connection.info.backend_pid]

    result = body.enqueue()
    work_until_idle(slots=1)

    assert state_of(result) == "done"
    found = body.get_result(result.id).return_value
    assert found is not None
    assert len(set(found)) == 3
    assert sessions_of(set(found[:2])) == 0


def test_cancelling_a_running_async_job_raises_in_it_and_frees_its_slot():
    begun = threading.Event()
    met: list[str] = []

    @job(name="async.wait", priority=1)
    async def wait() -> None:
        try:
            begun.set()
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            met.append("cancelled")
            raise

    @job(name="async.next")
    def follow(number: int) -> None:
        met.append(f"next {number}")

    waiting = wait.enqueue()
    behind = [follow.enqueue(number=number) for number in range(3)]

    def act(supervisor: Supervisor) -> None:
        assert begun.wait(PATIENCE)
        assert waiting.cancel()
        supervisor.lose(waiting.id)

    work_until_idle_beside(act, slots=1)

    assert met == ["cancelled", "next 0", "next 1", "next 2"]
    assert [state_of(result) for result in behind] == ["done"] * 3
    row = Job.objects.get(pk=waiting.id)
    assert (row.state, row.attempt, row.last_error) == ("cancelled", 1, "")


def test_a_thrown_out_body_leaves_no_connection_behind(settings):
    """Its statement may be half done: neither thread nor connection is used again."""
    settings.DURABLE_JOBS = {**settings.DURABLE_JOBS, "KILL_GRACE": "50ms"}
    begun = threading.Event()
    pids: set[int] = set()
    forever = [True]

    @job(name="plain.spin", priority=1)
    def spin() -> None:
        Group.objects.create(name="spun")
        pids.add(connection.connection.info.backend_pid)
        begun.set()
        while forever:
            pass

    @job(name="plain.next")
    def follow() -> int:
        return Group.objects.count()

    spinning, behind = spin.enqueue(), follow.enqueue()

    def act(supervisor: Supervisor) -> None:
        assert begun.wait(PATIENCE)
        assert spinning.cancel()
        supervisor.lose(spinning.id)

    work_until_idle_beside(act, slots=1)

    assert (state_of(spinning), state_of(behind)) == ("cancelled", "done")
    assert sessions_of(pids) == 0


def sessions_of(pids: set[int]) -> int:
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from pg_stat_activity where pid = any(%s)", [list(pids)])
        return int(cursor.fetchone()[0])
