"""A running body is told that it was cancelled, and its slot serves the jobs behind it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from django_durable_jobs import AsyncJobContext, JobContext, Retry, job
from django_durable_jobs.exceptions import Draining, LeaseLost
from django_durable_jobs.worker.crew import Run
from django_durable_jobs.worker.interruption import BodyInterrupted
from tests.acceptance.conditions import until
from tests.unit.worker.test_attempts import NO_RETRY, PATIENCE, Desk
from tests.unit.worker.test_attempts import desks as desks
from tests.unit.worker.test_attempts import gate as gate


def spin_for_ever() -> None:
    """Call nothing and end never.

    A function of its own: Python 3.13 does not count the jump of a loop to the ``try`` around
    it, so an exception that arrives there passes by the ``finally`` of the same function.
    """
    while FOREVER:
        pass


FOREVER = [True]


def cancel(desk: Desk, run: Run) -> None:
    """As somebody does, and the worker hears at the next renewal."""
    job_id = run.claimed.identity.job_id
    assert desk.store.cancel(job_id, reason="by hand")
    run.signal.cancel(LeaseLost(job_id, "go on with it"))


def three_behind(desk: Desk) -> list[str]:
    """Three jobs that wait for the only slot, and what they did."""
    served: list[str] = []

    @job(name="shop.next")
    def serve(who: str) -> None:
        served.append(who)

    serve.enqueue_many([{"who": "ann"}, {"who": "bob"}, {"who": "cid"}])
    desk.claim()
    return served


def test_a_cancelled_async_body_gets_its_error_and_the_jobs_behind_it_run(desks):
    begun, met = threading.Event(), []

    @job(name="shop.wait")
    async def wait() -> None:
        try:
            begun.set()
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            met.append("cancelled")
            raise

    wait.enqueue()
    desk = desks(slots=1)
    (run,) = desk.claim()
    assert begun.wait(PATIENCE)
    served = three_behind(desk)
    cancel(desk, run)

    until(lambda: len(served) == 3, seconds=PATIENCE)
    assert met == ["cancelled"]
    assert desk.crew.wait_until_idle(PATIENCE)
    row = desk.row(run)
    assert (row.state, row.attempt, row.error_code) == ("cancelled", 1, "")


def test_a_cancelled_body_in_an_endless_loop_is_thrown_out_and_the_jobs_behind_it_run(
    desks, caplog
):
    begun = threading.Event()
    threads: list[threading.Thread] = []

    @job(name="shop.spin")
    def spin() -> None:
        threads.append(threading.current_thread())
        begun.set()
        spin_for_ever()

    spin.enqueue()
    desk = desks(slots=1)
    (run,) = desk.claim()
    assert begun.wait(PATIENCE)
    served = three_behind(desk)
    with caplog.at_level(logging.WARNING, "django_durable_jobs"):
        cancel(desk, run)
        until(lambda: len(served) == 3, seconds=PATIENCE)

    assert desk.crew.wait_until_idle(PATIENCE)
    assert desk.row(run).state == "cancelled"
    # Its thread went with it, and another has taken the place.
    threads[0].join(PATIENCE)
    assert not threads[0].is_alive()
    said = [record.getMessage() for record in caplog.records]
    assert any("jobs.body.interrupted" in line for line in said)
    assert not any("jobs.timeout.abandoned" in line for line in said)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_body_thrown_out_at_its_timeout_has_timed_out(desks, atomic):
    @job(name="shop.spin", retry=NO_RETRY, timeout="50ms", atomic=atomic)
    def spin() -> None:
        spin_for_ever()

    spin.enqueue()
    desk = desks(slots=1)
    (run,) = desk.claim()

    desk.await_state(run, "dead")
    assert desk.crew.wait_until_idle(PATIENCE)
    assert desk.row(run).error_code == "X_JOB_TIMEOUT"


def test_a_body_thrown_out_by_the_drain_keeps_its_attempt(desks):
    begun = threading.Event()

    @job(name="shop.spin", retry=NO_RETRY)
    def spin() -> None:
        begun.set()
        spin_for_ever()

    spin.enqueue()
    desk = desks(slots=1)
    (run,) = desk.claim()
    assert begun.wait(PATIENCE)
    run.signal.cancel(Draining())

    desk.await_state(run, "ready")
    assert desk.row(run).attempt == 0


def test_a_body_that_goes_on_after_it_was_thrown_out_is_named_and_keeps_its_slot(
    desks, gate, caplog
):
    @job(name="shop.deaf", retry=NO_RETRY)
    def deaf() -> None:
        try:
            spin_for_ever()
        except BodyInterrupted:
            gate.pass_through("deaf")

    deaf.enqueue()
    desk = desks(slots=2)
    with caplog.at_level(logging.WARNING, "django_durable_jobs"):
        (run,) = desk.claim()
        until(lambda: run.has_started, seconds=PATIENCE)
        cancel(desk, run)
        gate.await_one()
        until(lambda: run.is_settled, seconds=PATIENCE)

    (line,) = [
        record.getMessage() for record in caplog.records if "abandoned" in record.getMessage()
    ]
    assert line == (
        f"jobs.timeout.abandoned: the body of job {run.claimed.identity.job_id} (shop.deaf) "
        "ignores that it was cancelled; it keeps its slot until it ends."
    )
    assert desk.crew.room() == 1
    gate.open()
    assert desk.crew.wait_until_idle(PATIENCE)
    assert desk.row(run).state == "cancelled"


def test_an_async_body_that_ignores_its_cancelling_is_named_and_keeps_its_slot(desks, gate, caplog):
    begun = threading.Event()
    loops: list[Any] = []

    @job(name="shop.deaf", retry=NO_RETRY, timeout="50ms")
    async def deaf() -> None:
        try:
            begun.set()
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            end = asyncio.Event()
            loops.append((asyncio.get_running_loop(), end))
            await end.wait()

    deaf.enqueue()
    desk = desks(slots=2)
    (run,) = desk.claim()

    desk.await_state(run, "dead")
    assert desk.row(run).error_code == "X_JOB_TIMEOUT"
    assert any("jobs.timeout.abandoned" in record.getMessage() for record in caplog.records)
    assert desk.crew.room() == 1
    loop, end = loops[0]
    loop.call_soon_threadsafe(end.set)
    assert desk.crew.wait_until_idle(PATIENCE)
    assert desk.row(run).state == "dead"


def test_the_branches_of_a_thrown_out_body_are_thrown_out_with_it(desks):
    begun = threading.Barrier(3)
    served: list[str] = []

    def spin() -> None:
        begun.wait(PATIENCE)
        try:
            spin_for_ever()
        finally:
            served.append("branch")

    @job(name="shop.branches")
    def branches(ctx: JobContext) -> None:
        try:
            ctx.step.gather(spin, spin)
        finally:
            served.append("body")

    branches.enqueue()
    desk = desks(slots=1)
    (run,) = desk.claim()
    begun.wait(PATIENCE)
    cancel(desk, run)

    assert desk.crew.wait_until_idle(PATIENCE)
    assert served == ["branch", "branch", "body"]
    assert desk.row(run).state == "cancelled"


def test_what_a_branch_raises_is_not_lost_whatever_it_is(desks):
    def leave() -> None:
        raise SystemExit(3)

    @job(name="shop.branches", retry=NO_RETRY)
    def branches(ctx: JobContext) -> None:
        ctx.step.gather(leave, lambda: 1, return_exceptions=True)

    branches.enqueue()
    desk = desks(slots=1)
    (run,) = desk.claim()

    desk.await_state(run, "dead")
    (attempt,) = desk.store.attempts(run.claimed.identity.job_id)
    assert attempt.error_class == "SystemExit"


def test_branches_run_side_by_side_up_to_the_bound(desks, gate):
    lock = threading.Lock()
    pair = threading.Barrier(2)
    now, most = [0], [0]

    def branch() -> int:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        # Two must be here at once, or this waits in vain.
        pair.wait(PATIENCE)
        with lock:
            now[0] -= 1
        return threading.get_ident()

    @job(name="shop.branches", retry=NO_RETRY)
    def branches(ctx: JobContext) -> int:
        return len(ctx.step.gather(*[branch] * 6, concurrency=2))

    branches.enqueue()
    desk = desks(slots=1)
    (run,) = desk.claim()

    desk.await_state(run, "done")
    assert (desk.row(run).result, most[0]) == ("6", 2)


def test_branches_that_had_not_begun_when_the_attempt_was_cancelled_never_begin(desks):
    begun: list[int] = []

    @job(name="shop.branches", retry=Retry(attempts=1))
    def branches(ctx: JobContext) -> None:
        def first() -> None:
            begun.append(1)
            ctx.signal.cancel(Draining())

        ctx.step.gather(first, *[lambda: begun.append(2)] * 3, concurrency=1)

    branches.enqueue()
    desk = desks(slots=1)
    (run,) = desk.claim()

    desk.await_state(run, "ready")
    assert begun == [1]


def test_the_traceback_of_an_async_body_begins_in_it(desks):
    @job(name="shop.pay", retry=NO_RETRY)
    async def pay() -> None:
        raise ValueError("no")

    pay.enqueue()
    desk = desks()
    (run,) = desk.claim()

    desk.await_state(run, "dead")
    (attempt,) = desk.store.attempts(run.claimed.identity.job_id)
    frames = [line for line in attempt.traceback.splitlines() if line.startswith("  File")]
    assert len(frames) == 1
    assert "test_cancelling.py" in frames[0]


def test_an_async_body_knows_its_context(desks):
    seen: list[Any] = []

    @job(name="shop.pay")
    async def pay(ctx: AsyncJobContext, order_id: int) -> int:
        seen.append((ctx.job_id, ctx.attempt))
        return order_id

    result = pay.enqueue(order_id=7)
    desk = desks()
    (run,) = desk.claim()

    desk.await_state(run, "done")
    assert seen == [(result.id, 1)]
    assert desk.row(run).result == "7"


def test_a_slot_whose_thread_cannot_be_replaced_serves_on_in_it(desks, monkeypatch, caplog):
    """When the system has no thread left, a used one serves better than none."""
    begun = threading.Event()

    @job(name="shop.spin")
    def spin() -> None:
        begun.set()
        spin_for_ever()

    spin.enqueue()
    desk = desks(slots=1)
    (run,) = desk.claim()
    assert begun.wait(PATIENCE)
    served = three_behind(desk)

    def no_thread_left(name: str) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(desk.crew, "_start_slot", no_thread_left)
    with caplog.at_level(logging.ERROR, "django_durable_jobs"):
        cancel(desk, run)
        until(lambda: len(served) == 3, seconds=PATIENCE)

    assert "jobs.slot.kept" in [record.getMessage() for record in caplog.records]
