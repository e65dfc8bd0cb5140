"""The steps that run a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from django_durable_jobs import clock
from django_durable_jobs.durations import Duration
from django_durable_jobs.exceptions import DurationInvalid, StepRefused
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import NewStep, StepRow

from .effects import only_on_jobs_database
from .execution import Entered, Execution
from .outputs import Output
from .stored import bounded, other_verb

P = ParamSpec("P")
T = TypeVar("T")


class TimedSteps:
    """The steps that run a function, with the options that ``step.options()`` was given."""

    def __init__(self, execution: Execution, timeout: timedelta | None = None) -> None:
        self._execution = execution
        self._timeout = timeout

    def run(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``fn(*args, **kwargs)`` once in the life of the job and answer its output.

        The output is stored before this returns; later runs of the body answer it
        without calling *fn*. What is answered is always decoded from what was stored.
        Not exactly once: a process that dies between the effect of *fn* and the
        checkpoint calls it again, so give outside services an idempotency key.

        Args:
            name: The step's key: the same at every run, once in a run, 200 bytes at most.

        Raises:
            StepDuplicate: This run used the name before.
            StepRefused: Not a name, an async function, inside a transaction, or inside or
                beside another step.
            StepOutputUnserializable: The output has no exact JSON form.
            PayloadTooLarge: The output is above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
            StepTimeout: *fn* ended after the timeout of the step; nothing was stored.
            Aborted: The attempt was cancelled; nothing was stored.
            LeaseLost: Another claim holds the job; nothing was stored.
        """
        with self._execution.step(name) as step:
            output = output_of(step, fn)
            if step.stored is not None:
                return replayed(step.stored, output)
            began = clock.monotonic()
            with self._execution.ceiling(name, self._timeout):
                value = _call(name, fn, args, kwargs)
            return finish(self._execution, step, output, value, began)

    def atomic(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Like ``run``, with what *fn* does in the jobs' database and the checkpoint as one.

        *fn* runs in a transaction whose last statement writes the checkpoint under the
        fence: both are committed, or neither is. Effects elsewhere, such as in outside
        services, are at least once. A write to another database alias is refused, since
        no transaction could hold both.

        An error of one of its ``on_commit`` hooks comes after the commit: it fails the
        attempt, and the step stays done.

        Raises:
            As ``run``, and whatever the commit raises.
        """
        with self._execution.step(name) as step:
            output = output_of(step, fn)
            if step.stored is not None:
                return replayed(step.stored, output)
            store = self._execution.user_store
            began = clock.monotonic()
            with store.atomic():
                with (
                    self._execution.ceiling(name, self._timeout),
                    only_on_jobs_database(f"Step '{name}'"),
                ):
                    value = _call(name, fn, args, kwargs)
                # Last before COMMIT: it locks the job's row, which the renewal of the lease
                # needs while the function works.
                return finish(self._execution, step, output, value, began, store=store)


class StepOptions(TimedSteps):
    """``step.options()``."""

    def options(self, *, timeout: Duration) -> TimedSteps:
        """The verbs ``run`` and ``atomic`` with a timeout for the step alone.

        When it is up, ``ctx.cancelled`` turns true and ``ctx.check()`` raises inside the
        function. A function that looks at neither is not interrupted, since a thread
        cannot be: it is found late when it returns, its output is not stored, and
        ``StepTimeout`` is raised.

        Raises:
            DurationInvalid: *timeout* is not a length of time above zero.
        """
        return TimedSteps(self._execution, step_limit(timeout))


def step_limit(timeout: Duration) -> timedelta:
    """The timeout of a step.

    Raises:
        DurationInvalid: *timeout* is not a length of time above zero.
    """
    limit = bounded(timeout, subject="The timeout of a step")
    if not limit:
        raise DurationInvalid("The timeout of a step", "is zero.")
    return limit


def output_of(step: Entered, fn: Callable[..., T], *, takes_async: bool = False) -> Output[T]:
    """How the output of *fn* is stored; before it runs, so that no effect is lost to it.

    Raises:
        StepRefused: *fn* is not a function, or an async one where that cannot be awaited.
        StepOutputUnserializable: Values of its annotated type have no JSON form.
    """
    if not callable(fn):
        raise StepRefused(
            step.name,
            f"was given a value of type {type(fn).__name__} to call.",
            "Pass the function itself, and its arguments after it.",
        )
    if inspect.iscoroutinefunction(fn) and not takes_async:
        raise _is_async(step.name)
    return Output(step.name, fn)


def finish(
    execution: Execution,
    step: Entered,
    output: Output[T],
    value: object,
    began: float,
    *,
    store: JobStore | None = None,
) -> T:
    """Store what a step's function returned, and answer it as a replay will.

    Args:
        began: When the function was called, by the monotonic clock.
        store: Where the checkpoint joins the body's transaction.
    """
    text = output.encode(value)
    if execution.recorded:
        took = timedelta(seconds=clock.monotonic() - began)
        done = NewStep(name=step.name, seq=step.seq, status="done", output=text, took=took)
        row = execution.put(done, store=store)
        # The database may write the same JSON in another way, and a replay reads that.
        text = text if row.output is None else row.output
    return output.decode(text)


def replayed(stored: StepRow, output: Output[T]) -> T:
    """The output that an earlier execution stored.

    Raises:
        StepRefused: Another verb stored the step.
    """
    is_of_a_function = (
        stored.status == "done"
        and not stored.event
        and stored.wake_at is None
        and stored.family_id is None
    )
    if not is_of_a_function or stored.output is None:
        raise other_verb(stored)
    return output.decode(stored.output)


def _call(name: str, fn: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, Any]) -> T:
    value = fn(*args, **kwargs)
    if inspect.iscoroutine(value):
        # Closed, or Python would warn that nobody awaited it.
        value.close()
        raise _is_async(name)
    return value


def _is_async(name: str) -> StepRefused:
    return StepRefused(name, "was given an async function.", "Pass a plain function.")
