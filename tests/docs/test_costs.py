"""The pages of the steps say what each verb costs in statements; here they are counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_durable_jobs import JobContext, clock, job, publish_event
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.testing import run_jobs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "steps.md"
# What opens and closes transactions is no statement of the verb's own.
FRAME = re.compile(r"^(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)", re.I)

pytestmark = pytest.mark.django_db(transaction=True)


def listed() -> dict[str, tuple[int, int, int]]:
    """First reach, going on and replay by verb, as the page has them."""
    rows = re.findall(r"^\| `([a-z_]+)` \| (\d+) \| (\d+|–) \| (\d+) \|$", PAGE.read_text(), re.M)
    return {
        verb: (int(first), 0 if on == "–" else int(on), int(replay))
        for verb, first, on, replay in rows
    }


class Counter:
    """Counts the statements that one verb sends at each execution of the body."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    @contextmanager
    def counting(self) -> Iterator[None]:
        captured = CaptureQueriesContext(connection)
        try:
            with captured:
                yield
        finally:
            texts = (query["sql"] for query in captured.captured_queries)
            self.counts.append(sum(FRAME.match(text) is None for text in texts))


def nothing() -> None:
    """Do nothing, so that only the verb's own statements are counted."""


def verbs(child: Any) -> dict[str, Callable[[JobContext], object]]:
    return {
        "run": lambda ctx: ctx.step.run("it", nothing),
        "atomic": lambda ctx: ctx.step.atomic("it", nothing),
        "sleep": lambda ctx: ctx.step.sleep("it", "1h"),
        "wait_for_event": lambda ctx: ctx.step.wait_for_event("it", event="it", timeout="2h"),
        "wait_for_any": lambda ctx: ctx.step.wait_for_any("it", events=["it", "that"]),
        "call": lambda ctx: ctx.step.call("it", child),
        "map": lambda ctx: ctx.step.map("it", child, [{}, {}, {}]),
        "enqueue": lambda ctx: ctx.step.enqueue("it", child),
        "publish_event": lambda ctx: ctx.step.publish_event("it", "that"),
        "now": lambda ctx: ctx.step.now("it"),
        "random": lambda ctx: ctx.step.random("it"),
        "uuid": lambda ctx: ctx.step.uuid("it"),
    }


@pytest.fixture(autouse=True)
def _declarations():
    with scratch_registry():
        yield
    clock.reset()


@pytest.mark.parametrize("verb", sorted(verbs(None)))
def test_the_page_says_how_many_statements_a_verb_sends(verb):
    @job(name="costs.child")
    def child() -> None:
        """Finish at once."""

    act = verbs(child)[verb]
    counter = Counter()

    @job(name="costs.body")
    def body(ctx: JobContext) -> None:
        ctx.step.run("loads what is stored", nothing)
        with counter.counting():
            act(ctx)
        # Once more from the top, when all is stored.
        ctx.step.sleep("come back", "10m")

    body.enqueue()
    run_jobs()
    clock.move(timedelta(hours=1))
    publish_event("it")
    run_jobs()
    clock.move(timedelta(hours=1))
    run_jobs()
    *reaches, replay = counter.counts
    first, *going_on = reaches
    print(verb, counter.counts)
    assert len(going_on) <= 1

    assert listed()[verb] == (first, sum(going_on), replay)
