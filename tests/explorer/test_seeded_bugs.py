"""The explorer finds the bugs that it is there for, on its own."""

from __future__ import annotations

import pytest

from django_durable_jobs.testing.explorer import Explorer

from . import seeded_bugs as bugs
from .flows import SMALL

pytestmark = [
    pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"]),
    pytest.mark.timeout(300),
]


def problems_of(flow: str, **only) -> set[str]:
    """What the explorer has to say of the flow, in process."""
    with Explorer(kills=0, seed=1) as explorer:
        explored = explorer.explore(SMALL[flow], **only)
    assert explored.runs > 1
    return {problem for each in explored.violations for problem in each.problems}


def says(problems: set[str], text: str) -> bool:
    return any(text in problem for problem in problems)


@pytest.mark.parametrize("flow", SMALL)
def test_without_a_bug_nothing_is_found(flow):
    assert problems_of(flow) == set()


def test_a_checkpoint_without_a_fence_is_found():
    with bugs.no_fence("put_step"):
        problems = problems_of("steps")

    assert says(problems, "ran again after its checkpoint was committed")
    assert says(problems, "A claim that another worker had taken changed its job: there is step")


def test_a_settlement_without_a_fence_is_found():
    with bugs.no_fence("settle"):
        problems = problems_of("steps")

    assert says(problems, "A claim that another worker had taken changed its job: there is job")


def test_an_event_that_nobody_looks_for_after_the_park_is_found():
    with bugs.no_look_after_the_park():
        problems = problems_of("wait", fault="event")

    assert says(problems, "woken by nothing but the look for missed wakes")


def test_a_run_that_nobody_looks_for_after_the_commit_is_found():
    with bugs.no_look_after_the_commit():
        problems = problems_of("wait", fault="held-event")

    assert says(problems, "woken by nothing but the look for missed wakes")


def test_an_output_stored_after_the_next_step_began_is_found():
    with bugs.step_after_the_next_one_began():
        problems = problems_of("steps", fault="drop")

    assert says(problems, "ran again after it had returned to the body")
