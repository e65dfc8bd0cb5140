"""The durable verbs of an ``async def`` body: the same rules, awaited.

What touches the store runs in the thread of the job's own ``ThreadSensitiveContext``, as
all its ORM calls do, so jobs do not queue behind one another.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar, overload
from uuid import UUID

from asgiref.sync import sync_to_async

from django_durable_jobs import clock
from django_durable_jobs.durations import Duration
from django_durable_jobs.events.event import Event
from django_durable_jobs.events.publish import HasId
from django_durable_jobs.exceptions import StepRefused, StepTimeout
from django_durable_jobs.policies.bounds import finite_count

from .branches import AT_ONCE, Outcome, begin_branches, end_branches
from .execution import Entered, Execution
from .families import CallableJob
from .line import on_line
from .timed import TimedSteps, finish, output_of, replayed, step_limit
from .values import Enqueues, Steps
from .waits import Since

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class AsyncTimedSteps:
    """The steps that run a function, with the options that ``step.options()`` was given."""

    def __init__(self, execution: Execution, timeout: timedelta | None = None) -> None:
        self._execution = execution
        self._timeout = timeout
        self._sync_timed = TimedSteps(execution, timeout)

    @overload
    async def run(
        self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def run(
        self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    async def run(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Await ``fn(*args, **kwargs)`` once in the life of the job and answer its output.

        As ``Steps.run``. A plain function runs in the job's thread. An async one is
        cancelled when the timeout of the step is up, or the attempt is cancelled.
        """
        execution = self._execution
        step = await _enter(execution, name)
        try:
            output = output_of(step, fn, takes_async=True)
            if step.stored is not None:
                return replayed(step.stored, output)
            began = clock.monotonic()
            if inspect.iscoroutinefunction(fn):
                async with _ceiling(execution, step, self._timeout):
                    value = await fn(*args, **kwargs)
            else:
                value = await _in_thread(self._call, name, fn, args, kwargs)
                if inspect.isawaitable(value):
                    async with _ceiling(execution, step, self._timeout):
                        value = await value
            return await _in_thread(finish, execution, step, output, value, began)
        finally:
            execution.leave(step)

    async def atomic(
        self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As ``Steps.atomic``; *fn* is a plain function, since Django's transactions are."""
        return await _in_thread(self._sync_timed.atomic, name, fn, *args, **kwargs)

    def _call(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        with self._execution.ceiling(name, self._timeout):
            return fn(*args, **kwargs)


class AsyncSteps(AsyncTimedSteps):
    """All durable verbs of one run, as ``ctx.step``; see ``Steps`` for each."""

    def __init__(self, execution: Execution) -> None:
        super().__init__(execution)
        self._sync = Steps(execution)

    def options(self, *, timeout: Duration) -> AsyncTimedSteps:
        """As ``Steps.options``. An async function is cancelled when its time is up."""
        return AsyncTimedSteps(self._execution, step_limit(timeout))

    async def sleep(self, name: str, duration: Duration) -> None:
        """As ``Steps.sleep``."""
        await _in_thread(self._sync.sleep, name, duration)

    async def sleep_until(self, name: str, when: datetime) -> None:
        """As ``Steps.sleep_until``."""
        await _in_thread(self._sync.sleep_until, name, when)

    async def wait_for_event(
        self,
        name: str,
        *,
        event: str,
        key: str | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109  durable, and longer than a process
        schema: Any = None,
        since: Since = "wait",
    ) -> Event | None:
        """As ``Steps.wait_for_event``."""
        return await _in_thread(
            self._sync.wait_for_event,
            name,
            event=event,
            key=key,
            timeout=timeout,
            schema=schema,
            since=since,
        )

    async def wait_for_any(
        self,
        name: str,
        *,
        events: Sequence[str | tuple[str, str | None]],
        key: str | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109  durable, and longer than a process
        since: Since = "wait",
    ) -> Event | None:
        """As ``Steps.wait_for_any``."""
        return await _in_thread(
            self._sync.wait_for_any, name, events=events, key=key, timeout=timeout, since=since
        )

    async def call(
        self, name: str, job: CallableJob[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """As ``Steps.call``."""
        return await _in_thread(self._sync.call, name, job, *args, **kwargs)

    async def map(
        self,
        name: str,
        job: CallableJob[..., R],
        inputs: Iterable[Mapping[str, Any]],
        /,
        *,
        concurrency: int | None = None,
        return_exceptions: bool = False,
    ) -> list[R]:
        """As ``Steps.map``."""
        return await _in_thread(
            self._sync.map,
            name,
            job,
            inputs,
            concurrency=concurrency,
            return_exceptions=return_exceptions,
        )

    async def now(self, name: str) -> datetime:
        """As ``Steps.now``."""
        return await _in_thread(self._sync.now, name)

    async def random(self, name: str) -> float:
        """As ``Steps.random``."""
        return await _in_thread(self._sync.random, name)

    async def uuid(self, name: str) -> UUID:
        """As ``Steps.uuid``."""
        return await _in_thread(self._sync.uuid, name)

    async def publish_event(
        self,
        name: str,
        event: str,
        payload: Any = None,
        *,
        key: str | None = None,
        ttl: Duration | None = None,
        job_id: UUID | str | HasId | None = None,
    ) -> UUID:
        """As ``Steps.publish_event``."""
        return await _in_thread(
            self._sync.publish_event, name, event, payload, key=key, ttl=ttl, job_id=job_id
        )

    async def enqueue(
        self, name: str, job: Enqueues[P], /, *args: P.args, **kwargs: P.kwargs
    ) -> UUID:
        """As ``Steps.enqueue``."""
        return await _in_thread(self._sync.enqueue, name, job, *args, **kwargs)

    async def gather(
        self,
        *branches: Awaitable[T],
        concurrency: int = AT_ONCE,
        return_exceptions: bool = False,
    ) -> list[T]:
        """Await branches side by side, each with steps of its own; their values in order.

        As ``Steps.gather``, with awaitables in place of functions::

            stock, invoice = await ctx.step.gather(
                ctx.step.run("reserve", warehouse.reserve, order_id),
                ctx.step.run("invoice", billing.invoice, order_id),
            )
        """
        try:
            at_once = finite_count(concurrency, minimum=1, subject="The concurrency of gather")
            outcomes = begin_branches(self._execution, len(branches))
            for number, branch in enumerate(branches, 1):
                if not inspect.isawaitable(branch):
                    raise StepRefused(
                        "gather",
                        f"was given a value of type {type(branch).__name__} as branch {number}.",
                        "Pass awaitables: ctx.step.run(...).",
                    )
        except BaseException:
            _close(branches)
            raise
        slots = asyncio.Semaphore(at_once)
        tasks = [
            asyncio.create_task(_run_branch(outcome, branch, slots))
            for outcome, branch in zip(outcomes, branches, strict=True)
        ]
        try:
            if tasks:
                await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            _close(branches)
            raise
        return end_branches(self._execution, outcomes, return_exceptions=return_exceptions)


async def _run_branch(outcome: Outcome, branch: Awaitable[Any], slots: asyncio.Semaphore) -> None:
    async with slots:
        with on_line(outcome.line):
            try:
                outcome.value = await branch
            # Judged once the others have ended too.
            except BaseException as error:
                outcome.error = error


@asynccontextmanager
async def _ceiling(
    execution: Execution, step: Entered, limit: timedelta | None
) -> AsyncIterator[None]:
    """Cancel what the block awaits when the step's time is up.

    Raises:
        StepTimeout: It was.
    """
    if limit is None:
        yield
        return
    seconds = limit.total_seconds()
    fault = StepTimeout(execution.claimed.name, step.name, seconds)
    line = step.line
    outer = line.signal
    with outer.narrowed() as part:
        line.signal = part
        timer = asyncio.get_running_loop().call_later(seconds, part.cancel, fault)
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                yield
        except Exception as error:
            if part.reason is fault or scope.expired():
                raise fault from error
            raise
        finally:
            timer.cancel()
            line.signal = outer
        # One that caught the cancelling, or kept the loop from it.
        if part.reason is fault or scope.expired():
            raise fault


def _close(branches: Iterable[object]) -> None:
    """End coroutines that nobody will await; Python would warn of each."""
    for branch in branches:
        if inspect.iscoroutine(branch):
            branch.close()


async def _enter(execution: Execution, name: str) -> Entered:
    """Begin a step in the job's thread; it is not left under way if that is not waited for."""
    entered: list[Entered] = []
    is_given_up = False

    def enter() -> None:
        entered.append(execution.enter(name))
        if is_given_up:
            execution.leave(entered[0])

    try:
        await _in_thread(enter)
    except BaseException:
        # A timeout of the body's own, say: the thread may come to it yet, or be past it.
        is_given_up = True
        if entered:
            execution.leave(entered[0])
        raise
    return entered[0]


async def _in_thread(fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call *fn* in the thread that the job's database connections belong to."""
    return await sync_to_async(fn, thread_sensitive=True)(*args, **kwargs)
