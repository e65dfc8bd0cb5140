"""What the page on replay says of code that changes under a run that is parked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from django_durable_jobs import JobContext, clock, job
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.models import Job
from django_durable_jobs.testing import run_jobs

from .test_examples import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = ROOT / "docs" / "explanation" / "how-replay-works.md"
Body = Callable[[JobContext], Any]
ran: list[str] = []


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    ran.clear()
    yield
    clock.reset()


def work(what: str) -> str:
    ran.append(what)
    return f"old {what}"


def newer_work(what: str) -> str:
    ran.append(what)
    return f"new {what}"


def count(what: str) -> int:
    ran.append(what)
    return 1


def old(ctx: JobContext) -> list[str]:
    first = ctx.step.run("a", work, "a")
    second = ctx.step.run("b", work, "b")
    ctx.step.sleep("nap", "1h")
    return [first, second]


def one_more_behind(ctx: JobContext) -> list[str]:
    return [*old(ctx), ctx.step.run("c", work, "c")]


def renamed(ctx: JobContext) -> list[str]:
    first = ctx.step.run("a", work, "a")
    second = ctx.step.run("b2", work, "b2")
    ctx.step.sleep("nap", "1h")
    return [first, second]


def removed(ctx: JobContext) -> list[str]:
    first = ctx.step.run("a", work, "a")
    ctx.step.sleep("nap", "1h")
    return [first]


def swapped(ctx: JobContext) -> list[str]:
    second = ctx.step.run("b", work, "b")
    first = ctx.step.run("a", work, "a")
    ctx.step.sleep("nap", "1h")
    return [first, second]


def other_functions(ctx: JobContext) -> list[str]:
    first = ctx.step.run("a", newer_work, "another argument")
    second = ctx.step.atomic("b", newer_work, "b")
    ctx.step.sleep("nap", "1h")
    return [first, second]


def longer_sleep(ctx: JobContext) -> list[str]:
    first = ctx.step.run("a", work, "a")
    second = ctx.step.run("b", work, "b")
    ctx.step.sleep("nap", "9h")
    return [first, second]


def other_annotation(ctx: JobContext) -> list[object]:
    return [ctx.step.run("a", count, "a")]


def other_kind(ctx: JobContext) -> None:
    ctx.step.sleep("a", "1h")


def resumed_by(newer: Body) -> Job:
    """The row of a run that parked in ``old`` and came back in *newer*."""
    for body in (old, newer):
        with scratch_registry():
            definition = job(name="docs.changing")(body)
            if body is old:
                definition.enqueue()
            run_jobs(raise_errors=False)
        clock.move(timedelta(hours=1))
    return Job.objects.get()


@pytest.mark.parametrize(
    ("row", "newer", "ran_now", "result", "warns"),
    [
        ("has a new step behind", one_more_behind, ["c"], ["old a", "old b", "old c"], False),
        ("renamed a finished step", renamed, ["b2"], ["old a", "old b2"], True),
        ("removed a finished step", removed, [], ["old a"], True),
        ("swapped two steps, both finished", swapped, [], ["old a", "old b"], False),
        ("changed a step's function", other_functions, [], ["old a", "old b"], False),
        ("changed the length of a sleep", longer_sleep, [], ["old a", "old b"], False),
    ],
)
def test_a_run_goes_on_in_changed_code_as_the_page_says(row, newer, ran_now, result, warns):
    said = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {row}"))

    resumed = resumed_by(newer)

    assert (resumed.state, resumed.result) == ("done", result)
    assert ran == ["a", "b", *ran_now]
    assert bool(resumed.replay_warning) == ("**warning**" in said) == warns


@pytest.mark.parametrize(
    ("row", "newer", "code"),
    [
        ("changed a step's return annotation", other_annotation, "X_PAYLOAD_INVALID"),
        ("made a step one of another kind", other_kind, "X_STEP_REFUSED"),
    ],
)
def test_a_run_that_cannot_go_on_is_given_up_as_the_page_says(row, newer, code):
    assert f"\n| {row}" in PAGE.read_text()

    resumed = resumed_by(newer)

    assert (resumed.state, resumed.error_code) == ("dead", code)
    assert ran == ["a", "b"]
