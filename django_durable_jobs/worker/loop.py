"""The event loop on which this process awaits its ``async def`` bodies."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import AsyncExitStack
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, Generic, TypeVar

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext, sync_to_async

from django_durable_jobs.lifecycle.cancellation import CancelSignal

from .connections import drop_connections

logger = logging.getLogger("django_durable_jobs.worker")

T = TypeVar("T")

ROUNDS: Final = 10
"""How often what a body left behind is cancelled, until what that leaves is not begun at all."""

Body = Callable[[], Coroutine[Any, Any, T]]


class BodyLoop:
    """One event loop in a thread of its own, started at the first async body.

    A slot hands a body in and waits until it has ended, so slots, deadlines and settling
    know no difference. Each body has a thread of its own for what Django runs in sync code,
    its ORM calls among it, so bodies do not queue behind one another.

    A body that blocks the loop, as with ``time.sleep()`` in async code, holds up the other
    async bodies of this process and their cancelling; plain bodies, claiming and settling
    go on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_ending = False

    def run(self, body: Body[T], signal: CancelSignal) -> T:
        """Await *body* on the loop; what it returns or raises.

        It sees the context variables of the caller. When the signal is set it is given one
        ``CancelledError``. Returns when nothing of it runs any more: tasks that it left
        behind are cancelled, what it runs in its thread has ended, and the database
        connections of that thread are closed.
        """
        flight: _Flight[T] = _Flight(body, self._started())
        unsubscribe = signal.subscribe(lambda reason: flight.cancel())
        try:
            return flight.run()
        finally:
            unsubscribe()

    def finish(self, timeout: float) -> bool:
        """End the loop, once no body is on it; whether that came within *timeout* seconds.

        Its pool, which ``asyncio.to_thread()`` uses, may yet work for a body that was
        cancelled and ended without it.
        """
        with self._lock:
            is_told, self._is_ending = self._is_ending, True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return True
        if not is_told:
            loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)
        return not thread.is_alive()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_task_factory(_make_task)
                self._loop.set_exception_handler(_log_uncaught)
                self._thread = threading.Thread(
                    target=self._serve, args=[self._loop], name="async-bodies", daemon=True
                )
                self._thread.start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._is_ending:
            try:
                loop.run_forever()
                if not self._is_ending:
                    logger.error("jobs.loop.stopped: a body stopped the event loop; it goes on.")
            except BaseException:
                # asyncio lets SystemExit and KeyboardInterrupt of any task out of the loop.
                logger.exception("jobs.loop.stopped: the event loop goes on.")
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


class _Flight(Generic[T]):
    """One body on the loop, until nothing of it is left."""

    def __init__(self, body: Body[T], loop: asyncio.AbstractEventLoop) -> None:
        self._body = body
        self._loop = loop
        self._ended: Future[T] = Future()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._has_begun = False
        self._is_cancelled = False
        self._is_closed = False
        self._error: BaseException | None = None
        self._value: Any = None
        self._thread = AsyncExitStack()
        # Body and cleaning up share one context: it holds the thread that they use.
        self._context: Context = copy_context()
        self._context.run(_flight.set, self)
        self._unspoilt = self._context

    def run(self) -> T:
        """Wait for the end of it all; what the body returned or raised."""
        self._loop.call_soon_threadsafe(self._begin)
        error = self._ended.exception()
        if error is not None:
            # Here, for its traceback: frames of ``concurrent`` are none of the body's.
            raise error
        return self._ended.result()

    def cancel(self) -> None:
        """Give the body its ``CancelledError``, from any thread."""
        self._is_cancelled = True
        self._loop.call_soon_threadsafe(self._cancel)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Take note of a task that the body made."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._is_closed and not _is_waited_for_in_sync_code(task):
            # Nobody would cancel it later: it ends before its first line.
            task.cancel()

    # -- on the loop

    def _begin(self) -> None:
        # Made by hand, so that this one is not adopted.
        self._task = asyncio.Task(self._run(), loop=self._loop, context=self._context)
        self._task.add_done_callback(self._begin_end)

    def _cancel(self) -> None:
        if self._has_begun:
            self._task.cancel()

    async def _run(self) -> None:
        await self._thread.enter_async_context(ThreadSensitiveContext())
        self._unspoilt = copy_context()
        try:
            if self._is_cancelled:
                raise asyncio.CancelledError
            self._has_begun = True
            self._value = await _Heeding(self._body(), lambda: self._is_cancelled)
        # Kept here, since the loop does not survive SystemExit in a task.
        except BaseException as error:
            self._error = error

    def _begin_end(self, task: asyncio.Task[None]) -> None:
        # A task of its own: nothing that the body asked of the first can hit this one.
        self._last_task = asyncio.Task(self._end(), loop=self._loop, context=self._context)

    async def _end(self) -> None:
        try:
            rounds = 0
            while self._tasks:
                # A task may clean up by another, but not go on in a new one for ever.
                self._is_closed = rounds >= ROUNDS
                rounds += 1
                left = list(self._tasks)
                # Past the first line of each: sync code waits for ever for one without it.
                await asyncio.sleep(0)
                for task in left:
                    task.cancel()
                await asyncio.wait(left)
            self._is_closed = True
            # Behind whatever the thread works on. Leaving the context waits for that thread,
            # in some versions of asgiref on the loop, and so must find it idle.
            try:
                await asyncio.Task(_drop(), loop=self._loop, context=self._unspoilt)
            finally:
                await self._thread.aclose()
        except BaseException:
            logger.exception("jobs.loop.failed: a body was not cleaned up after.")
        finally:
            if self._error is None:
                self._ended.set_result(self._value)
            else:
                self._ended.set_exception(self._error)


async def _drop() -> None:
    # asgiref carries context variables back out of a sync function that still runs, and with
    # them the way into code that has ended: whoever followed it would wait for ever.
    await sync_to_async(drop_connections, thread_sensitive=True)()


_flight: ContextVar[_Flight[Any] | None] = ContextVar("durable_jobs_flight", default=None)


class _Heeding:
    """Awaits a body, and sees to it that a cancelling reaches it, once.

    ``Task.cancel()`` cancels what the task waits for, which may take that and answer a
    value all the same: asgiref does so when a sync function came back into async code, and
    any task may. The body would go on as if nothing had happened. It is then given the
    ``CancelledError`` in the place of that value; but not a second one, for it may be
    cleaning up after the first.
    """

    def __init__(self, body: Coroutine[Any, Any, Any], is_cancelled: Callable[[], bool]) -> None:
        self._body = body
        self._is_cancelled = is_cancelled

    def __await__(self) -> Generator[Any, Any, Any]:
        body = self._body
        error: BaseException | None = None
        waits_for: object = None
        bridge: object | None = None
        is_told = False
        while True:
            is_telling = not is_told and self._is_cancelled()
            # A bridge that waits for the async code behind it is left to that: its function
            # ends after it, and only then may the bridge be torn down.
            is_left_to_it = bridge is not None and isinstance(waits_for, asyncio.Task)
            if is_telling and not is_left_to_it and not isinstance(error, asyncio.CancelledError):
                error = _cancelled_instead_of(error)
            before = _bridge_at(body) if is_telling else None
            try:
                waits_for = body.send(None) if error is None else body.throw(error)
            except StopIteration as end:
                return end.value
            if is_telling:
                # Still in the bridge to sync code, which holds the cancelling back.
                bridge = before if _bridge_at(body) is before else None
                is_told = bridge is None
            error = None
            try:
                yield waits_for
            except GeneratorExit:
                body.close()
                raise
            except BaseException as raised:
                error = raised


def _cancelled_instead_of(error: BaseException | None) -> asyncio.CancelledError:
    cancelled = asyncio.CancelledError()
    cancelled.__context__ = error
    return cancelled


def _bridge_at(body: Coroutine[Any, Any, Any]) -> object | None:
    """The call of a sync function that the body waits in at this moment, if it is one."""
    at: Any = body
    while (inner := getattr(at, "cr_await", None)) is not None and hasattr(inner, "cr_await"):
        at = inner
    return at if getattr(at, "cr_code", None) is SyncToAsync.__call__.__code__ else None


def _is_waited_for_in_sync_code(task: asyncio.Task[Any]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is AsyncToSync.main_wrap.__code__


def _make_task(
    loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    context: Context | None = options.get("context")
    flight = _flight.get() if context is None else context.get(_flight)
    if flight is not None:
        flight.adopt(task)
    return task


def _log_uncaught(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    logger.error(
        "jobs.loop.error: %s (%r)",
        context.get("message"),
        context.get("task") or context.get("future") or context.get("handle"),
        exc_info=context.get("exception"),
    )
