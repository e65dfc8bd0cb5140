"""The event loop of async bodies: what cancels one, and what never stops the others."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from django_durable_jobs.exceptions import Draining
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.worker.loop import BodyLoop

PATIENCE = 20


class Flown:
    """A body on the loop, handed in from a thread as slots do."""

    def __init__(self, loop: BodyLoop, body: Callable[[], Any]) -> None:
        self.signal = CancelSignal("a job")
        self._future: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, args=[loop, body], daemon=True)
        self._thread.start()

    def _run(self, loop: BodyLoop, body: Callable[[], Any]) -> None:
        try:
            self._future.set_result(loop.run(body, self.signal))
        except BaseException as error:
            self._future.set_exception(error)

    def cancel(self) -> None:
        self.signal.cancel(Draining())

    @property
    def has_ended(self) -> bool:
        return self._future.done()

    def value(self) -> Any:
        return self._future.result(PATIENCE)

    def error(self) -> BaseException | None:
        return self._future.exception(PATIENCE)


@pytest.fixture
def loop() -> Iterator[BodyLoop]:
    loop = BodyLoop()
    yield loop
    loop.finish(PATIENCE)


@pytest.fixture
def fly(loop):
    return lambda body: Flown(loop, body)


def waited(event: threading.Event) -> None:
    assert event.wait(PATIENCE)


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_body_answers_its_value_or_its_error(fly):
    async def good() -> int:
        await asyncio.sleep(0)
        return 7

    async def bad() -> None:
        raise ValueError("no")

    assert fly(good).value() == 7
    assert isinstance(fly(bad).error(), ValueError)


def test_a_body_sees_the_context_variables_of_its_slot(loop):
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")

    async def body() -> tuple[str, str]:
        return tenant.get(), await sync_to_async(tenant.get)()

    tenant.set("ann")

    assert loop.run(body, CancelSignal("a job")) == ("ann", "ann")


def test_the_signal_cancels_a_body_that_waits_and_it_may_clean_up(fly):
    begun = threading.Event()
    cleaned: list[str] = []

    async def body() -> None:
        try:
            begun.set()
            await forever()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            cleaned.append(await sync_to_async(lambda: "in the thread")())

    flown = fly(body)
    waited(begun)
    flown.cancel()

    assert isinstance(flown.error(), asyncio.CancelledError)
    assert cleaned == ["in the thread"]


def test_a_body_that_was_cancelled_before_it_began_never_begins(loop):
    signal = CancelSignal("a job")
    signal.cancel(Draining())

    async def body() -> None:
        raise AssertionError("begun")

    with pytest.raises(asyncio.CancelledError):
        loop.run(body, signal)


def test_a_cancelling_that_code_between_sync_and_async_swallows_reaches_the_body(fly):
    """The body waits for a sync function, which waits for async code, which takes it in."""
    begun = threading.Event()
    met: list[str] = []

    async def stubborn() -> str:
        begun.set()
        try:
            await forever()
        except asyncio.CancelledError:
            met.append("inner")
        return "went on"

    async def body() -> str:
        try:
            met.append(await sync_to_async(lambda: async_to_sync(stubborn)())())
        except asyncio.CancelledError:
            met.append("body")
            # Not a second time.
            await asyncio.sleep(0)
            met.append("cleaned up")
            raise
        return "never told"

    flown = fly(body)
    waited(begun)
    flown.cancel()

    assert isinstance(flown.error(), asyncio.CancelledError)
    assert met == ["inner", "body", "cleaned up"]


def test_a_cancelling_that_a_task_swallows_reaches_the_body(fly):
    begun = threading.Event()
    met: list[str] = []

    async def stubborn() -> str:
        try:
            begun.set()
            await forever()
        except asyncio.CancelledError:
            met.append("task")
        return "went on"

    async def body() -> None:
        try:
            met.append(await asyncio.create_task(stubborn()))
        finally:
            await asyncio.sleep(0)
            met.append("cleaned up")

    flown = fly(body)
    waited(begun)
    flown.cancel()

    assert isinstance(flown.error(), asyncio.CancelledError)
    assert met == ["task", "cleaned up"]


def test_a_body_is_told_once_and_may_go_on(fly):
    begun = threading.Event()

    async def body() -> str:
        try:
            begun.set()
            await forever()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        await sync_to_async(lambda: None)()
        return "went on"

    flown = fly(body)
    waited(begun)
    flown.cancel()

    assert flown.value() == "went on"


def test_a_cancelled_body_is_told_while_its_thread_works_and_ends_after_it(fly):
    begun, told, gate = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        waited(gate)

    async def body() -> None:
        try:
            await sync_to_async(hang)()
        finally:
            told.set()

    async def other() -> str:
        return await sync_to_async(lambda: "done")()

    flown = fly(body)
    waited(begun)
    flown.cancel()
    waited(told)

    # Neither the hanging thread nor the leaving of it holds up the loop.
    assert fly(other).value() == "done"
    assert not flown.has_ended
    gate.set()
    assert isinstance(flown.error(), asyncio.CancelledError)


def test_each_body_has_a_thread_of_its_own_and_always_the_same(fly):
    both = threading.Barrier(2)

    async def body() -> tuple[int, int]:
        first = await sync_to_async(threading.get_ident)()
        await sync_to_async(both.wait)(PATIENCE)
        return first, await sync_to_async(threading.get_ident)()

    one, two = fly(body), fly(body)

    assert len(set(one.value())) == len(set(two.value())) == 1
    assert one.value() != two.value()


def test_what_a_body_leaves_running_is_cancelled_with_its_end(fly):
    ended: list[str] = []

    async def leftover() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            ended.append("cancelled")

    async def body() -> str:
        body.task = asyncio.create_task(leftover())  # type: ignore[attr-defined]  # kept alive
        await asyncio.sleep(0)
        return "done"

    assert fly(body).value() == "done"
    assert ended == ["cancelled"]


def test_a_task_that_goes_on_in_another_when_it_is_cancelled_ends_with_its_body(fly):
    async def go_on() -> None:
        try:
            await forever()
        finally:
            kept.append(asyncio.create_task(go_on()))

    async def body() -> None:
        kept.append(asyncio.create_task(go_on()))
        await asyncio.sleep(0)

    kept: list[asyncio.Task[None]] = []

    assert fly(body).value() is None
    assert len(kept) > 1
    assert all(task.done() for task in kept)


def test_a_task_that_is_left_behind_may_clean_up_by_another(fly):
    met: list[str] = []

    async def clean_up() -> None:
        await asyncio.sleep(0)
        met.append("cleaned up")

    async def work() -> None:
        try:
            await forever()
        finally:
            await asyncio.create_task(clean_up())

    async def body() -> None:
        met.append("begun")
        tasks.append(asyncio.create_task(work()))
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []

    assert fly(body).value() is None
    assert met == ["begun", "cleaned up"]


def test_a_task_that_is_made_after_its_body_has_ended_never_begins(fly):
    begun: list[int] = []
    made: list[asyncio.Task[None]] = []
    timers: list[Callable[[], None]] = []

    async def late() -> None:
        begun.append(1)

    async def body() -> None:
        context = copy_context()
        here = asyncio.get_running_loop()
        timers.append(lambda: context.run(lambda: made.append(here.create_task(late()))))

    async def another() -> None:
        timers[0]()
        await asyncio.wait(made)

    assert fly(body).value() is None
    assert fly(another).value() is None
    assert (begun, made[0].cancelled()) == ([], True)


def test_sync_code_that_comes_back_to_the_loop_after_its_body_has_ended_is_served(fly):
    """Its task must not be cancelled before its first line: the thread would wait for ever."""
    is_working, may_go_on = threading.Event(), threading.Event()
    met: list[str] = []

    async def inner() -> None:
        met.append("inner")

    def work() -> None:
        is_working.set()
        waited(may_go_on)
        async_to_sync(inner)()

    async def body() -> None:
        kept.append(asyncio.create_task(sync_to_async(work)()))
        await asyncio.to_thread(waited, is_working)
        asyncio.get_running_loop().call_later(0.05, may_go_on.set)

    kept: list[asyncio.Task[None]] = []

    assert fly(body).value() is None
    assert met == ["inner"]


def test_the_end_of_the_loop_does_not_wait_longer_than_told_for_a_thread_of_its_pool(fly, loop):
    """The worker then ends without it; the interpreter would wait for ever."""
    begun, gate = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        waited(gate)

    async def body() -> None:
        await asyncio.to_thread(hang)

    flown = fly(body)
    waited(begun)
    flown.cancel()

    assert isinstance(flown.error(), asyncio.CancelledError)
    assert not loop.finish(0.05)
    gate.set()
    assert loop.finish(PATIENCE)


def test_a_loop_that_never_ran_has_ended():
    assert BodyLoop().finish(0)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_body_may_raise_anything_and_the_loop_goes_on(fly, error):
    async def raises() -> None:
        raise error

    async def in_a_task() -> None:
        await asyncio.create_task(raises())

    async def body() -> str:
        return "done"

    assert fly(raises).error() is error
    assert type(fly(in_a_task).error()) is type(error)
    assert fly(body).value() == "done"


def test_a_body_that_stops_the_loop_is_found_out_and_the_loop_goes_on(fly, caplog):
    async def body() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "done"

    with caplog.at_level(logging.ERROR, "django_durable_jobs"):
        assert fly(body).value() == "done"
    assert any("jobs.loop.stopped" in record.getMessage() for record in caplog.records)


def test_an_error_that_nobody_awaits_is_logged(fly, caplog):
    async def body() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR, "django_durable_jobs"):
        fly(body).value()
    (record,) = [each for each in caplog.records if "jobs.loop.error" in each.getMessage()]
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
