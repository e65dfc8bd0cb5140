"""The steps that park the run until a time comes or an event is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from django.utils import timezone

from django_durable_jobs.durations import Duration
from django_durable_jobs.events.cursor import refuse
from django_durable_jobs.events.event import Event, event_from, event_text
from django_durable_jobs.exceptions import EventInvalid, PayloadInvalid, StepRefused
from django_durable_jobs.payloads import Codec
from django_durable_jobs.store.names import name_fault
from django_durable_jobs.store.rows import EventFilter, EventRow, NewStep, StepRow

from .execution import Entered
from .stored import bounded, is_of_a_sleep, other_verb, require_recorded
from .suspension import Suspension
from .timed import StepOptions

Since = Literal["wait", "run"]
"""From when on an event counts: since the wait was first reached, or since the enqueue."""

MAX_EVENTS: Final = 100
"""Events that one wait can name."""


class Waits(StepOptions):
    """Sleeps and waits for events."""

    def sleep(self, name: str, duration: Duration) -> None:
        """Park the run and come back after *duration*.

        The time to wake is set when the step is first reached, by the database's clock,
        and stays: no replay starts or extends the sleep again.

        Raises:
            Suspension: The time has not come. Let it pass.
            DurationInvalid: *duration* is not a length of time, or above 100 years.
            StepDuplicate: This run used the name before.
            StepRefused: Not a name, inside a transaction, inside or beside another step, or
                in a job called inline.
        """
        length = bounded(duration, subject=f"The sleep of step '{name}'")
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
        schema: Any = None,
        since: Since = "wait",
    ) -> Event | None:
        """Park the run until *event* is published and answer it; None if it timed out.

        The oldest event is taken that was committed after this step was first reached,
        also one that came when the time was up and the run had not been looked at yet.
        Later runs of the body answer the same event, or the same None. Name, key and
        timeout are those of the first reach.

        Args:
            event: Name of the event, as in ``publish_event``.
            key: Take only events with this key; any event of the name without it. An event
                that was addressed to this job need not have it.
            timeout: How long to wait from the first reach; for ever if omitted.
            schema: Type of the payload, such as a dataclass; the answer's ``payload`` is one.
            since: ``"run"`` takes also events that were committed after the job's enqueue
                (those of the transaction that enqueued it included), so that one which
                comes before the run gets here is not missed.

        Raises:
            Suspension: Nothing came yet. Let it pass.
            EventInvalid: The event does not fit *schema*. The job is given up, and when it
                is requeued the wait goes on behind that event.
            DurationInvalid: *timeout* is not a length of time, or above 100 years.
            StepDuplicate: This run used the name before.
            StepRefused: Not a name, key or since, inside a transaction, inside or beside
                another step, or in a job called inline.
        """
        return self._wait(name, [_filter(name, event, key)], timeout, schema, since)

    def wait_for_any(
        self,
        name: str,
        *,
        events: Sequence[str | tuple[str, str | None]],
        key: str | None = None,
        timeout: Duration | None = None,
        since: Since = "wait",
    ) -> Event | None:
        """Park the run until the first of several events and answer it; None if it timed out.

        The answer's ``name`` says which it was. The others are not waited for any more, and
        are taken by nobody.

        Args:
            events: Names, or pairs of a name and a key of its own.
            key: That of the events given by name alone.

        Raises:
            As ``wait_for_event``.
        """
        return self._wait(name, _filters(name, events, key), timeout, None, since)

    def _wait(
        self,
        name: str,
        filters: Sequence[EventFilter],
        timeout: Duration | None,
        schema: Any,
        since: Since,
    ) -> Event | None:
        wanted = None if schema is None else Codec(schema)
        with self._execution.step(name) as step:
            require_recorded(self._execution, step)
            row = step.stored
            if row is not None and row.status == "done" and row.event:
                return _checked(step, event_from(row.output or ""), wanted, is_taken=True)
            if row is not None and row.status == "timed_out":
                return None
            if row is None:
                row = self._execution.put(_waiting(step, filters, timeout, since))
            elif row.status != "waiting":
                raise other_verb(row)
            # The clock before the events: one committed between the two is still found.
            is_over = row.wake_at is not None and self._execution.is_past(row.wake_at)
            found = self._execution.store.find_event(row)
            if found is not None:
                return self._take(step, row, found, wanted)
            if is_over:
                self._execution.put(_ended(step, row, "timed_out"))
                return None
            # Whoever parks the run looks once more after the park: an event committed between
            # this look and that would otherwise wake nobody.
            raise self._execution.suspend(Suspension(name, run_at=row.wake_at, waits=True))

    def _take(self, step: Entered, row: StepRow, found: EventRow, wanted: Codec | None) -> Event:
        text = event_text(found)
        try:
            event = _checked(step, event_from(text), wanted)
        except EventInvalid:
            # Before the job is given up: requeued, it must not meet this event again.
            self._execution.put(
                NewStep(
                    name=step.name,
                    seq=step.seq,
                    status="waiting",
                    event=row.event,
                    correlation_key=row.correlation_key,
                    cursor=refuse(row.cursor, found),
                )
            )
            raise
        stored = self._execution.put(_ended(step, row, "done", output=text))
        if stored.output is None or stored.output == text:
            return event
        return _checked(step, event_from(stored.output), wanted)

    def _sleep(
        self, name: str, *, wait: timedelta | None = None, until: datetime | None = None
    ) -> None:
        with self._execution.step(name) as step:
            require_recorded(self._execution, step)
            row = step.stored
            if row is None:
                sleeping = NewStep(
                    name=name, seq=step.seq, status="sleeping", wait=wait, until=until
                )
                row = self._execution.put(sleeping)
            elif row.status == "done" and is_of_a_sleep(row):
                return
            elif row.status != "sleeping":
                raise other_verb(row)
            if row.wake_at is None or self._execution.is_past(row.wake_at):
                done = NewStep(
                    name=name, seq=step.seq, status="done", output="null", until=row.wake_at
                )
                self._execution.put(done)
                return
            raise self._execution.suspend(Suspension(name, run_at=row.wake_at))


def _checked(step: Entered, event: Event, wanted: Codec | None, *, is_taken: bool = False) -> Event:
    if wanted is None:
        return event
    try:
        payload = wanted.decode_json(event.payload, subject="The payload", path="payload")
    except PayloadInvalid as error:
        raise EventInvalid(
            step.name, event.name, event.id, error.problem, is_taken=is_taken
        ) from None
    return replace(event, payload=payload)


def _waiting(
    step: Entered, filters: Sequence[EventFilter], timeout: Duration | None, since: object
) -> NewStep:
    if since not in ("wait", "run"):
        raise StepRefused(
            step.name, "cannot wait: its since is neither 'wait' nor 'run'.", "Leave it out."
        )
    wait = None
    if timeout is not None:
        wait = bounded(timeout, subject=f"The timeout of step '{step.name}'")
    first, *others = filters
    return NewStep(
        name=step.name,
        seq=step.seq,
        status="waiting",
        event=first.event,
        correlation_key=first.key,
        alternatives=tuple(others),
        wait=wait,
        since_run=since == "run",
    )


def _ended(step: Entered, row: StepRow, status: Any, *, output: str | None = None) -> NewStep:
    return NewStep(
        name=step.name,
        seq=step.seq,
        status=status,
        output=output,
        event=row.event,
        correlation_key=row.correlation_key,
        until=row.wake_at,
    )


def _filters(
    name: str, events: Sequence[str | tuple[str, str | None]], key: str | None
) -> list[EventFilter]:
    if isinstance(events, str):
        # Its letters would be events.
        raise StepRefused(
            name, "cannot wait: its events are one text.", "Give a list: events=[...]."
        )
    filters: list[EventFilter] = []
    for each in events:
        if isinstance(each, tuple) and len(each) != 2:
            raise StepRefused(
                name,
                "cannot wait: one of its events is no pair of a name and a key.",
                'Give names, or pairs: events=["paid", ("refunded", "7")].',
            )
        event, own_key = each if isinstance(each, tuple) else (each, key)
        filters.append(_filter(name, event, own_key))
    if not 0 < len(filters) <= MAX_EVENTS:
        raise StepRefused(
            name,
            f"cannot wait: it names {len(filters)} events, not 1 to {MAX_EVENTS}.",
            "Publish what many events mean under one name, with the difference in its payload."
            if filters
            else "Give at least one: events=[...].",
        )
    return filters


def _filter(name: str, event: object, key: object) -> EventFilter:
    fault = name_fault(event)
    if fault is not None:
        raise StepRefused(
            name,
            f"cannot wait: the name of its event {fault}.",
            "Give the name that publish_event() is given.",
        )
    fault = None if key is None else name_fault(key)
    if fault is not None:
        raise StepRefused(
            name,
            f"cannot wait: the key of its event {fault}.",
            "Give the key as a short text, such as str(order_id), or leave it out.",
        )
    return EventFilter(str(event), None if key is None else str(key))


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
        raise StepRefused(
            name,
            "was given a time that is beyond the calendar.",
            "Give one that also has a date in UTC.",
        ) from None
