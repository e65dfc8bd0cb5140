"""A body whose steps are no longer those that its run has stored is told of, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from django_durable_jobs.steps.sequence import Ending, StepSequence
from django_durable_jobs.store.rows import StepRow

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def row(name: str, *, is_open: bool = False) -> StepRow:
    return StepRow(
        name=name,
        seq=1,
        status="sleeping" if is_open else "done",
        output=None,
        event="",
        correlation_key=None,
        wake_at=None,
        started_at=NOW,
        finished_at=None if is_open else NOW,
        mark=None,
    )


def difference(
    stored: Sequence[str],
    reached: Sequence[str],
    ending: Ending = "returned",
    *,
    still_open: Sequence[str] = (),
    failed: Sequence[str] = (),
    branches: Sequence[str] = (),
) -> str | None:
    """What is said of a body that reached these steps after an earlier run stored those."""
    sequence = StepSequence()
    sequence.stored([row(name, is_open=name in still_open) for name in stored])
    for name in reached:
        sequence.entered(name, name in stored, branch=name in branches)
        if name not in failed and (name not in stored or name in still_open):
            sequence.kept(name)
    return sequence.difference(ending)


# -- nothing to say


@pytest.mark.parametrize("ending", ["returned", "suspended", "raised"])
@pytest.mark.parametrize("stored", [[], ["a"], ["a", "b"], ["a", "b", "c"]])
def test_of_the_same_steps_nothing_is_said(stored, ending):
    assert difference(stored, ["a", "b", "c"], ending) is None


def test_of_a_sleep_that_is_over_nothing_is_said():
    assert difference(["a", "nap"], ["a", "nap", "b"], still_open=["nap"]) is None


@pytest.mark.parametrize("ending", ["suspended", "raised"])
def test_of_steps_that_may_yet_be_reached_nothing_is_said(ending):
    assert difference(["a", "b", "c"], ["a"], ending) is None


def test_of_a_new_step_behind_all_finished_ones_nothing_is_said():
    assert difference(["a", "nap"], ["a", "new", "nap"], "suspended", still_open=["nap"]) is None


@pytest.mark.parametrize(
    "reached",
    [["a", "x1", "y1", "x2", "y2", "z"], ["a", "y1", "y2", "x1", "x2", "z"]],
)
def test_of_the_order_of_branches_nothing_is_said(reached):
    branches = ["x1", "x2", "y1", "y2"]

    assert difference(["a", "x1", "y1", "y2"], reached, branches=branches) is None
    assert difference(["a", "x1"], reached, branches=branches) is None


def test_of_a_step_that_fails_again_as_it_did_before_nothing_is_said():
    """A body that catches the failure of one step and goes on with another does so each time."""
    assert difference(["invoice"], ["card", "invoice", "ship"], failed=["card"]) is None


# -- what is said


def test_a_stored_step_that_the_body_never_reached_is_named():
    assert difference(["a", "b"], ["a"]) == "Stored step 'b' was not reached."


def test_so_is_one_that_had_not_finished():
    assert difference(["a", "nap"], ["a"], still_open=["nap"]) == (
        "Stored step 'nap' was not reached."
    )


def test_so_is_one_of_a_branch():
    assert difference(["x", "y"], ["x"], branches=["x", "y"]) == (
        "Stored step 'y' was not reached."
    )


def test_of_many_a_few_are_named_and_the_others_counted():
    stored = [f"s{number}" for number in range(1, 9)]

    assert difference(stored, []) == (
        "Stored steps 's1', 's2', 's3', 's4', 's5' and 3 more were not reached."
    )


@pytest.mark.parametrize("ending", ["returned", "suspended", "raised"])
def test_a_new_step_before_a_finished_one_is_named_with_it(ending):
    assert difference(["a", "b"], ["new", "a", "b"], ending) == (
        "New step 'new' ran before step 'a', which an earlier run had finished."
    )


@pytest.mark.parametrize("ending", ["suspended", "raised"])
def test_it_is_named_also_if_the_run_did_not_get_to_the_finished_one(ending):
    """The new step is stored by then, so no later execution could tell."""
    assert difference(["a", "b"], ["a", "new"], ending) == (
        "New step 'new' ran before step 'b', which an earlier run had finished."
    )


def test_several_new_steps_are_named_with_the_first_they_came_before():
    assert difference(["a", "b"], ["x", "a", "y", "b"]) == (
        "New steps 'x', 'y' ran before step 'a', which an earlier run had finished."
    )


def test_a_renamed_step_is_both_new_and_missing():
    assert difference(["a", "b"], ["a", "b2"]) == (
        "New step 'b2' ran, and stored step 'b' was not reached."
    )


def test_swapped_steps_are_named():
    """As the one that had not run yet, which now comes first."""
    assert difference(["a"], ["b", "a"]) == (
        "New step 'b' ran before step 'a', which an earlier run had finished."
    )


def test_a_step_that_failed_before_and_succeeds_now_is_named_with_what_ran_in_its_stead():
    assert difference(["invoice"], ["card"]) == (
        "New step 'card' ran, and stored step 'invoice' was not reached."
    )


def test_a_difference_before_and_a_difference_behind_are_one_sentence():
    assert difference(["a", "b"], ["new", "a"]) == (
        "New step 'new' ran before step 'a', which an earlier run had finished, and stored step "
        "'b' was not reached."
    )
