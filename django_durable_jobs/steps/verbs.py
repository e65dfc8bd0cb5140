"""``ctx.step``: the verbs of a durable run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, ParamSpec, TypeVar

from django.utils import timezone

from django_durable_jobs import clock
from django_durable_jobs.durations import Duration, parse_duration
from django_durable_jobs.events.event import Event, event_from, event_text
from django_durable_jobs.exceptions import DurationInvalid, StepRefused
from django_durable_jobs.store.names import name_fault
from django_durable_jobs.store.rows import NewStep, StepRow

from .execution import Execution
from .outputs import Output

P = ParamSpec("P")
T = TypeVar("T")

# Further than this, the database's own calendar is at its end.
MAX_WAIT: Final = timedelta(days=36_525)


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
            StepRefused: Not a name, an async function, or inside a transaction.
            StepOutputUnserializable: The output has no exact JSON form.
            PayloadTooLarge: The output is above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
            StepTimeout: *fn* ended after the timeout of the step; nothing was stored.
            Aborted: The attempt was cancelled; nothing was stored.
            LeaseLost: Another claim holds the job; nothing was stored.
        """
        seq, stored = self._enter(name, fn)
        output = Output(name, fn)
        if stored is not None:
            return _replayed(stored, output)
        began = clock.monotonic()
        with self._execution.ceiling(name, self._timeout):
            value = _call(name, fn, args, kwargs)
        text = output.encode(value)
        if self._execution.recorded:
            text = self._put_done(name, seq, text, began)
        return output.decode(text)

    def atomic(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Like ``run``, with what *fn* does in the jobs' database and the checkpoint as one.

        *fn* runs in a transaction whose last statement writes the checkpoint under the
        fence: both are committed, or neither is. Effects elsewhere, such as in other
        databases or services, are at least once.

        An error of one of its ``on_commit`` hooks comes after the commit: it fails the
        attempt, and the step stays done.

        Raises:
            As ``run``, and whatever the commit raises.
        """
        seq, stored = self._enter(name, fn)
        output = Output(name, fn)
        if stored is not None:
            return _replayed(stored, output)
        store = self._execution.user_store
        began = clock.monotonic()
        with store.atomic():
            with self._execution.ceiling(name, self._timeout):
                value = _call(name, fn, args, kwargs)
            text = output.encode(value)
            if self._execution.recorded:
                # Last before COMMIT: it locks the job's row, which the renewal of the lease
                # needs while the function works.
                text = self._put_done(name, seq, text, began, store=store)
        return output.decode(text)

    def _enter(self, name: str, fn: Callable[..., object]) -> tuple[int, StepRow | None]:
        seq, stored = self._execution.enter(name)
        if not callable(fn):
            raise StepRefused(
                name,
                f"was given a value of type {type(fn).__name__} to call.",
                "Pass the function itself, and its arguments after it.",
            )
        if inspect.iscoroutinefunction(fn):
            raise _is_async(name)
        return seq, stored

    def _put_done(self, name: str, seq: int, text: str, began: float, **store: Any) -> str:
        took = timedelta(seconds=clock.monotonic() - began)
        step = NewStep(name=name, seq=seq, status="done", output=text, took=took)
        row = self._execution.put(step, **store)
        # The database may write the same JSON in another way, and a replay reads that.
        return text if row.output is None else row.output


class StepContext(TimedSteps):
    """The durable verbs of one run, as ``ctx.step``."""

    def options(self, *, timeout: Duration) -> TimedSteps:
        """The verbs ``run`` and ``atomic`` with a timeout for the step alone.

        When it is up, ``ctx.cancelled`` turns true and ``ctx.check()`` raises inside the
        function. A function that looks at neither is not interrupted, since a thread
        cannot be: it is found late when it returns, its output is not stored, and
        ``StepTimeout`` is raised.

        Raises:
            DurationInvalid: *timeout* is not a length of time above zero.
        """
        limit = _bounded(timeout, subject="The timeout of a step")
        if not limit:
            raise DurationInvalid("The timeout of a step", "is zero.")
        return TimedSteps(self._execution, limit)

    def sleep(self, name: str, duration: Duration) -> None:
        """Park the run and come back after *duration*.

        The time to wake is set when the step is first reached, by the database's clock,
        and stays: no replay starts or extends the sleep again.

        Raises:
            Suspension: The time has not come. Let it pass.
            DurationInvalid: *duration* is not a length of time, or above 100 years.
            StepDuplicate: This run used the name before.
            StepRefused: Not a name, inside a transaction, or in a job called inline.
        """
        length = _bounded(duration, subject=f"The sleep of step '{name}'")
        self._sleep(name, wait=length)

    def sleep_until(self, name: str, when: datetime) -> None:
        """Park the run and come back at *when*; at once if it is past.

        A naive *when* is in ``TIME_ZONE``. Where clocks change, a time that occurs twice
        is the first, and one that is skipped is read with the offset before the change.

        Raises:
            As ``sleep``.
        """
        self._sleep(name, until=_instant(name, when))

    def wait_for_event(
        self,
        name: str,
        *,
        event: str,
        key: str | None = None,
        timeout: Duration | None = None,
    ) -> Event | None:
        """Park the run until *event* is published and answer it; None if it timed out.

        The oldest event is taken that was committed after this step was first reached,
        also one that came when the time was up and the run had not been looked at yet.
        Later runs of the body answer the same event, or the same None. Name, key and
        timeout are those of the first reach.

        Args:
            event: Name of the event, as in ``publish_event``.
            key: Take only events with this key; any event of the name without it.
            timeout: How long to wait from the first reach; for ever if omitted.

        Raises:
            Suspension: Nothing came yet. Let it pass.
            DurationInvalid: *timeout* is not a length of time, or above 100 years.
            StepDuplicate: This run used the name before.
            StepRefused: Not a name or key, inside a transaction, or in a job called inline.
        """
        seq, row = self._enter_wait(name)
        if row is not None and row.status == "done" and row.event:
            return event_from(row.output or "")
        if row is not None and row.status == "timed_out":
            return None
        if row is None:
            row = self._execution.put(_waiting(name, seq, event, key, timeout))
        elif row.status != "waiting":
            raise _other_verb(row)
        # The clock before the events: one that is committed between the two is still found.
        is_over = row.wake_at is not None and self._execution.is_past(row.wake_at)
        found = self._execution.store.find_event(row)
        if found is not None:
            text = event_text(found)
            stored = self._execution.put(_ended(row, seq, "done", output=text))
            return event_from(stored.output or text)
        if is_over:
            self._execution.put(_ended(row, seq, "timed_out"))
            return None
        # Whoever parks the run looks once more after the park: an event committed between
        # this look and that would otherwise wake nobody.
        raise self._execution.suspension(name, run_at=row.wake_at, waits=True)

    def _sleep(
        self, name: str, *, wait: timedelta | None = None, until: datetime | None = None
    ) -> None:
        seq, row = self._enter_wait(name)
        if row is None:
            step = NewStep(name=name, seq=seq, status="sleeping", wait=wait, until=until)
            row = self._execution.put(step)
        elif row.status == "done" and not row.event:
            return
        elif row.status != "sleeping":
            raise _other_verb(row)
        if row.wake_at is None or self._execution.is_past(row.wake_at):
            done = NewStep(name=name, seq=seq, status="done", output="null", until=row.wake_at)
            self._execution.put(done)
            return
        raise self._execution.suspension(name, run_at=row.wake_at, waits=False)

    def _enter_wait(self, name: str) -> tuple[int, StepRow | None]:
        entered = self._execution.enter(name)
        if not self._execution.recorded:
            raise StepRefused(
                name,
                "would wait, and a job that is called inline cannot.",
                "Enqueue the job, or pass what it waits for.",
            )
        return entered


def _replayed(stored: StepRow, output: Output[T]) -> T:
    if stored.status != "done" or stored.output is None or stored.event:
        raise _other_verb(stored)
    return output.decode(stored.output)


def _call(
    name: str, fn: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]
) -> T:
    value = fn(*args, **kwargs)
    if inspect.iscoroutine(value):
        # Closed, or Python would warn that nobody awaited it.
        value.close()
        raise _is_async(name)
    return value


def _is_async(name: str) -> StepRefused:
    return StepRefused(name, "was given an async function.", "Pass a plain function.")


def _other_verb(stored: StepRow) -> StepRefused:
    return StepRefused(
        stored.name,
        f"was stored by another verb ({stored.status}) in an earlier run of this job.",
        "Give the new step a name of its own.",
    )


def _waiting(name: str, seq: int, event: object, key: object, timeout: Duration | None) -> NewStep:
    fault = name_fault(event)
    if fault is not None:
        raise StepRefused(name, f"cannot wait: the name of its event {fault}.")
    fault = None if key is None else name_fault(key)
    if fault is not None:
        raise StepRefused(name, f"cannot wait: the key of its event {fault}.")
    wait = None
    if timeout is not None:
        wait = _bounded(timeout, subject=f"The timeout of step '{name}'")
    return NewStep(
        name=name,
        seq=seq,
        status="waiting",
        event=str(event),
        correlation_key=None if key is None else str(key),
        wait=wait,
    )


def _ended(row: StepRow, seq: int, status: Any, *, output: str | None = None) -> NewStep:
    return NewStep(
        name=row.name,
        seq=seq,
        status=status,
        output=output,
        event=row.event,
        correlation_key=row.correlation_key,
        until=row.wake_at,
    )


def _instant(name: str, when: object) -> datetime:
    if not isinstance(when, datetime):
        kind = type(when).__name__
        raise StepRefused(name, f"was given a value of type {kind} as time.", "Pass a datetime.")
    if timezone.is_naive(when):
        when = timezone.make_aware(when, timezone.get_default_timezone())
    try:
        # A time in a zone's gap or overlap equals no other value before it is in UTC.
        return when.astimezone(UTC)
    except OverflowError:
        raise StepRefused(name, "was given a time that is beyond the calendar.") from None


def _bounded(value: Duration, *, subject: str) -> timedelta:
    length = parse_duration(value, subject=subject)
    if length > MAX_WAIT:
        raise DurationInvalid(subject, "is longer than 100 years.")
    return length
