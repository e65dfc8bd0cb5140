"""The steps of a job as rows with bars on one axis of time.

Bars are SVG rectangles placed by percentages: presentation attributes are no styles, so
the strictest content security policy lets them be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils.safestring import SafeString

from django_durable_jobs.conf import settings
from django_durable_jobs.models import Job, JobStep
from django_durable_jobs.payloads import preview

from .badges import step_badge, step_colour
from .payload import beginning_of
from .times import aware, duration, is_endless, time_tag

SHOWN_STEPS: Final = 200
OUTPUT_SHOWN: Final = 160

_TICKS: Final = 5
_LEAST_WIDTH: Final = 0.4
# Right of this a label would run out of the picture, so it goes to the left of its bar.
_LABEL_LEFT_FROM: Final = 78.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar and its label; positions are percentages of the axis, as SVG wants them."""

    x: str
    width: str
    colour: str
    is_waiting: bool
    label_x: str
    label_is_left: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the picture: a step, or the wait in the queue before the first."""

    seq: int | None
    name: str
    badge: SafeString | str
    attempt: int
    started: SafeString | str
    duration: str
    output: str | None
    event: str
    correlation_key: str | None
    wake: SafeString | str
    bar: Bar | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture.

    Attributes:
        ticks: Position and label of each line of the axis.
        is_cut: There are more steps than shown.
    """

    rows: tuple[Row, ...]
    ticks: tuple[tuple[str, str], ...]
    total: str
    is_cut: bool


def read_steps(job: Job, *, with_output: bool) -> list[dict[str, Any]]:
    """Return up to one more than ``SHOWN_STEPS`` steps in order; one statement."""
    columns = ["name", "seq", "status", "event", "correlation_key", "wake_at", "attempt", "claim"]
    columns += ["alternatives", "children"]
    steps = JobStep.objects.using(settings.DATABASE).filter(job_id=job.pk).order_by("seq", "name")
    outputs = {"output_start": beginning_of("output", OUTPUT_SHOWN + 1)} if with_output else {}
    return list(steps.values(*columns, "started_at", "finished_at", **outputs)[: SHOWN_STEPS + 1])


def draw(job: Job, steps: Sequence[dict[str, Any]], now: datetime) -> Timeline | None:
    """Return the picture of *steps*; None without any."""
    if not steps:
        return None
    shown = _as_reached(job, steps[:SHOWN_STEPS], now)
    begin = min(aware(job.created_at), *(aware(step["started_at"]) for step in shown))
    ends = [aware(step["finished_at"]) for step in shown if step["finished_at"]]
    ends += [aware(job.finished_at) if job.finished_at else now]
    axis = _Axis(begin, max(ends))
    floors = _floors(job, shown)
    first = min(aware(step["started_at"]) for step in shown)
    first = min([first, *filter(None, floors)])
    rows = [_step_row(step, floor, axis, now) for step, floor in zip(shown, floors, strict=True)]
    if first - aware(job.created_at) >= timedelta(milliseconds=1):
        rows.insert(0, _queued_row(job, first, axis))
    return Timeline(tuple(rows), axis.ticks(), duration(axis.span), len(steps) > SHOWN_STEPS)


class _Axis:
    def __init__(self, begin: datetime, end: datetime) -> None:
        self.begin = begin
        self.span = max(end - begin, timedelta(milliseconds=1))

    def bar(self, start: datetime, end: datetime, colour: str, *, is_waiting: bool) -> Bar:
        left = min(max((start - self.begin) / self.span * 100, 0.0), 100.0)
        width = min(max((end - start) / self.span * 100, _LEAST_WIDTH), 100.0)
        left = min(left, 100.0 - width)
        is_left = left + width > _LABEL_LEFT_FROM and left > 100.0 - _LABEL_LEFT_FROM
        return Bar(
            x=f"{left:.2f}%",
            width=f"{width:.2f}%",
            colour=colour,
            is_waiting=is_waiting,
            label_x=f"{left if is_left else min(left + width, _LABEL_LEFT_FROM):.2f}%",
            label_is_left=is_left,
        )

    def ticks(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (f"{n / _TICKS * 100:.2f}%", duration(self.span * n / _TICKS) if n else "0")
            for n in range(_TICKS + 1)
        )


def _queued_row(job: Job, first: datetime, axis: _Axis) -> Row:
    created = aware(job.created_at)
    return Row(
        seq=None,
        name="",
        badge="",
        attempt=0,
        started="",
        duration=duration(first - created),
        output=None,
        event="",
        correlation_key=None,
        wake="",
        bar=axis.bar(created, first, "queued", is_waiting=False),
    )


def _as_reached(job: Job, steps: Sequence[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Return *steps*, of which none begins before the body can have got there.

    A wait that counts from the enqueue has the time of that: it began at the earliest after
    the step before it, and in the claim that holds it open.
    """
    reached: list[dict[str, Any]] = []
    before = aware(job.created_at)
    for step in steps:
        started, ended = aware(step["started_at"]), aware(step["finished_at"] or now)
        if step["event"] and started == aware(job.created_at):
            is_of_this_claim = step["finished_at"] is None and step["claim"] == job.claims
            if is_of_this_claim and job.started_at is not None:
                before = max(before, aware(job.started_at))
            started = min(before, ended)
            step = {**step, "started_at": started, "is_bound": True}
        reached.append(step)
        before = max(before, ended if step["finished_at"] else started)
    return reached


def _floors(job: Job, steps: Sequence[dict[str, Any]]) -> list[datetime | None]:
    """Return for each step the last instant before which it cannot have begun, where known.

    That is the checkpoint before it, or the start of the claim that reached it.
    """
    floors: list[datetime | None] = []
    before: tuple[int, datetime] | None = None
    for step in steps:
        if before is not None and before[0] == step["claim"]:
            floors.append(before[1])
        elif job.claims == step["claim"] and job.started_at is not None:
            floors.append(aware(job.started_at))
        else:
            floors.append(None)
        before = (step["claim"], aware(step["finished_at"] or step["started_at"]))
    return floors


def _step_row(step: dict[str, Any], floor: datetime | None, axis: _Axis, now: datetime) -> Row:
    started = aware(step["started_at"])
    is_open = step["finished_at"] is None
    ended = now if is_open else aware(step["finished_at"])
    is_bound = ended == started and floor is not None and floor < ended
    if is_bound and floor is not None:
        # A step stored in one go knows its end alone; it began after the one before it.
        started = floor
    is_bound = is_bound or bool(step.get("is_bound"))
    is_wait = bool(step["event"]) or step["status"] == JobStep.Status.SLEEPING
    is_wait = is_wait or step["wake_at"] is not None
    output = step.get("output_start")
    return Row(
        seq=step["seq"],
        name=step["name"],
        badge=step_badge(step["status"]),
        attempt=step["attempt"],
        started=time_tag(step["started_at"], now),
        duration=("≤ " if is_bound else "") + duration(ended - started) if ended > started else "",
        output=None if output is None else preview(output, OUTPUT_SHOWN, redact=settings.REDACT),
        event=step["event"],
        correlation_key=step["correlation_key"],
        wake=time_tag(step["wake_at"], now) if is_open and not is_endless(step["wake_at"]) else "",
        bar=axis.bar(started, max(ended, started), step_colour(step["status"]), is_waiting=is_wait),
    )
