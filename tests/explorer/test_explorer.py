"""What users of the explorer rely on."""

from __future__ import annotations

import pytest

from django_durable_jobs.testing.explorer import explore_crashes

from . import bodies
from .flows import APPROVED, ORDER

REAL = pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"])


@REAL
def test_a_run_survives_real_processes_that_are_killed():
    explored = explore_crashes(bodies.steps, ORDER, kills=3, seed=1, fault="kill")

    assert explored.kills == 3


@REAL
def test_a_check_that_does_not_hold_is_reported_with_the_line_that_repeats_it():
    def never(run):
        assert run.state == "cancelled", "it was not cancelled"

    with pytest.raises(AssertionError, match="The check failed: it was not cancelled"):
        explore_crashes(bodies.steps, ORDER, check=never, kills=0)


@REAL
def test_one_boundary_and_one_fault_are_one_run_beside_the_undisturbed_one():
    explored = explore_crashes(bodies.wait, ORDER, events=APPROVED, boundary=2, fault="lost-answer")

    assert explored.runs == 2


@REAL
def test_a_fault_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="There is no fault 'flood'"):
        explore_crashes(bodies.steps, ORDER, fault="flood")


@REAL
def test_a_jobs_table_that_somebody_uses_is_not_emptied():
    kept = bodies.steps.enqueue(**ORDER)

    with pytest.raises(RuntimeError, match="The jobs table is not empty"):
        explore_crashes(bodies.steps, ORDER, kills=0)
    assert bodies.steps.get_result(kept.id).state == "ready"


@pytest.mark.django_db
def test_exploring_inside_a_transaction_is_refused():
    with pytest.raises(RuntimeError, match="inside a transaction"):
        explore_crashes(bodies.steps, ORDER, kills=0)
