"""Runs that newer code resumes: what goes on, what is told of, what waits, what is given up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from django_durable_jobs import JobContext, clock, job, operations
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.models import Job, JobStep
from django_durable_jobs.store import get_store
from tests.integration.burst import work_until_idle
from tests.integration.declared import REAL

pytestmark = REAL

NAME = "shop.fulfil"

done: list[str] = []
"""The steps whose functions ran, in order."""


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def did(step: str) -> str:
    done.append(step)
    return step


def deploy(body: Callable[[JobContext], Any] | None, **options: Any) -> None:
    """Run what is due in a process that has this code, and no other."""
    with scratch_registry():
        if body is not None:

            @job(name=NAME, **options)
            def fulfil(ctx: JobContext) -> Any:
                return body(ctx)

        work_until_idle(slots=2)


def start(body: Callable[[JobContext], Any], count: int = 1, **options: Any) -> list[UUID]:
    """Enqueue runs, and run them up to their first wait."""
    with scratch_registry():

        @job(name=NAME, **options)
        def fulfil(ctx: JobContext) -> Any:
            return body(ctx)

        ids = [fulfil.enqueue().id for _ in range(count)]
        work_until_idle(slots=2)
    return ids


def results(job: Job) -> Any:
    """What the body returned, as JSON."""
    return job.result


def rows(ids: list[UUID]) -> list[Job]:
    return list(Job.objects.filter(pk__in=ids).order_by("pk"))


def an_hour_passes() -> None:
    clock.move(timedelta(hours=1, seconds=1))


# -- what differs


def v1(ctx: JobContext) -> list[str]:
    first = ctx.step.run("s1", did, "s1")
    child = ctx.step.uuid("child")
    ctx.step.sleep("night", "1h")
    return [first, str(child), ctx.step.run("s2", did, "s2")]


def v2(ctx: JobContext) -> list[str]:
    """Draws from the random numbers before the id, as nothing in v1 did."""
    first = ctx.step.run("s1", did, "s1")
    logging.getLogger("shop").info("a new line")
    ctx.step.random("lucky")
    child = ctx.step.uuid("child")
    ctx.step.sleep("night", "1h")
    return [first, str(child), ctx.step.run("s2", did, "s2")]


def v3(ctx: JobContext) -> list[str]:
    ctx.step.run("s0", did, "s0")
    return v1(ctx)


def v4(ctx: JobContext) -> list[str]:
    first = ctx.step.run("s1", did, "s1")
    child = ctx.step.uuid("child")
    ctx.step.sleep("night", "1h")
    return [first, str(child), ctx.step.run("s2 renamed", did, "s2 renamed")]


def v5(ctx: JobContext) -> list[str]:
    second = ctx.step.run("s2", did, "s2")
    child = ctx.step.uuid("child")
    ctx.step.sleep("night", "1h")
    return [second, str(child), ctx.step.run("s1", did, "s1")]


def test_twenty_runs_keep_their_ids_when_newer_code_draws_another_value_first():
    ids = start(v1, 20)
    children = {
        step.job_id: step.output for step in JobStep.objects.filter(name="child", job_id__in=ids)
    }
    an_hour_passes()

    deploy(v2)

    assert {row.state for row in rows(ids)} == {"done"}
    assert {row.pk: results(row)[1] for row in rows(ids)} == children
    assert len(set(children.values())) == 20
    assert (done.count("s1"), done.count("s2")) == (20, 20)
    assert {row.replay_warning for row in rows(ids)} == {
        "New step 'lucky' ran before step 'child', which an earlier run had finished."
    }


@pytest.mark.parametrize(
    ("newer", "ran", "expected", "warning"),
    [
        (
            v3,
            ["s1", "s0", "s2"],
            ["s1", "s2"],
            "New step 's0' ran before step 's1', which an earlier run had finished.",
        ),
        (v4, ["s1", "s2 renamed"], ["s1", "s2 renamed"], ""),
        (
            v5,
            ["s1", "s2"],
            ["s2", "s1"],
            "New step 's2' ran before step 's1', which an earlier run had finished.",
        ),
    ],
    ids=["inserted", "not yet reached, renamed", "swapped"],
)
def test_a_new_step_runs_once_and_finished_ones_keep_their_results(newer, ran, expected, warning):
    [job_id] = start(v1)
    an_hour_passes()

    deploy(newer)

    [row] = rows([job_id])
    assert (row.state, row.replay_warning) == ("done", warning)
    assert done == ran
    assert results(row)[::2] == expected


def test_a_run_whose_step_became_another_verb_stops_and_names_it_and_goes_on_after_a_rollback():
    [job_id] = start(v1)
    an_hour_passes()

    deploy(lambda ctx: ctx.step.run("night", did, "night"))
    [row] = rows([job_id])
    assert (row.state, row.error_code) == ("dead", "X_STEP_REFUSED")
    assert row.last_error.startswith("Step 'night' was stored by another verb")
    operations.requeue(job_id)
    deploy(v1)

    assert [row.state for row in rows([job_id])] == ["done"]
    assert done == ["s1", "s2"]


def test_a_finished_step_that_newer_code_has_not_is_named_on_the_row_and_in_the_log(caplog):
    [job_id] = start(v1)
    an_hour_passes()

    with caplog.at_level(logging.WARNING, "django_durable_jobs"):
        deploy(lambda ctx: str(ctx.step.uuid("child")))

    [row] = rows([job_id])
    assert row.state == "done"
    assert row.replay_warning == "Stored steps 's1', 'night' were not reached."
    assert [record.getMessage() for record in caplog.records] == [
        f"jobs.replay.differs: job {job_id} (shop.fulfil): {row.replay_warning}"
    ]


def test_the_warning_stays_when_the_run_goes_on_as_it_should():
    [job_id] = start(v1)
    an_hour_passes()

    def two_nights(ctx: JobContext) -> None:
        ctx.step.run("s0", did, "s0")
        ctx.step.run("s1", did, "s1")
        ctx.step.uuid("child")
        ctx.step.sleep("night", "1h")
        ctx.step.sleep("second night", "1h")

    deploy(two_nights)
    [parked] = rows([job_id])
    an_hour_passes()
    deploy(two_nights)

    [row] = rows([job_id])
    assert (parked.state, row.state) == ("suspended", "done")
    assert row.replay_warning == parked.replay_warning
    assert row.replay_warning.startswith("New step 's0' ran before step 's1'")


def test_of_unchanged_code_nothing_is_said_however_often_it_is_interrupted():
    def body(ctx: JobContext) -> None:
        for night in range(4):
            ctx.step.run(f"work {night}", did, f"work {night}")
            ctx.step.sleep(f"night {night}", "1h")
        if len(done) == 4:
            did("broke")
            raise ConnectionError("once")

    [job_id] = start(body)
    for _ in range(6):
        an_hour_passes()
        deploy(body)

    [row] = rows([job_id])
    assert (row.state, row.replay_warning) == ("done", "")
    assert done == ["work 0", "work 1", "work 2", "work 3", "broke"]


# -- declared versions


def test_a_job_is_stored_with_the_version_that_enqueued_it_and_then_that_which_ran_it():
    [job_id] = start(v1, version="1")
    [before] = rows([job_id])
    an_hour_passes()

    deploy(v1, version="2")

    [after] = rows([job_id])
    assert (before.code_version, after.code_version) == ("1", "2")
    # The steps are the same, so there is nothing to warn of.
    assert (after.state, after.replay_warning) == ("done", "")


def test_a_run_that_goes_on_in_another_version_names_both_where_its_steps_differ():
    [job_id] = start(v1, version="1")
    an_hour_passes()

    deploy(v3, version="2", on_version_change="continue")

    [row] = rows([job_id])
    assert row.replay_warning == (
        "A run of version '1' went on in version '2'. New step 's0' ran before step 's1', which "
        "an earlier run had finished."
    )


def test_a_run_that_may_not_go_on_is_dead_and_goes_on_after_a_rollback_of_the_deploy():
    [job_id] = start(v1, version="1")
    an_hour_passes()

    deploy(v5, version="2", on_version_change="fail")
    [row] = rows([job_id])
    assert (row.state, row.error_code, row.code_version) == ("dead", "X_JOB_VERSION_CHANGED", "1")
    assert row.last_error == (
        "Job 'shop.fulfil' was begun by version '1' of its code, and this is version '2'. "
        "Requeue it where the old version runs, or requeue it from its first step."
    )
    assert done == ["s1"]

    operations.requeue(job_id)
    deploy(v1, version="1")

    [row] = rows([job_id])
    assert (row.state, results(row)[0], results(row)[2]) == ("done", "s1", "s2")
    assert done == ["s1", "s2"]


def test_or_it_begins_anew_in_the_new_version_when_it_is_requeued_from_its_first_step():
    [job_id] = start(v1, version="1")
    an_hour_passes()
    deploy(v5, version="2", on_version_change="fail")

    operations.requeue(job_id, from_step="s1")
    deploy(v5, version="2", on_version_change="fail")
    an_hour_passes()
    deploy(v5, version="2", on_version_change="fail")

    [row] = rows([job_id])
    assert (row.state, row.code_version, row.generation) == ("done", "2", 1)
    assert done == ["s1", "s2", "s1"]


@pytest.mark.parametrize("rule", ["fail", "wait"])
def test_a_job_that_has_stored_no_step_is_run_by_any_version(rule):
    def broken(ctx: JobContext) -> None:
        raise ConnectionError("before the first step")

    [job_id] = start(broken, version="1")
    clock.move(timedelta(minutes=10))

    deploy(lambda ctx: did("all of it"), version="2", on_version_change=rule)

    [row] = rows([job_id])
    assert (row.state, row.code_version, done) == ("done", "2", ["all of it"])


@pytest.mark.parametrize("rule", ["fail", "wait"])
def test_a_job_that_another_version_enqueued_is_its_runners_before_it_stores_a_step(rule):
    """Killed behind its first step, it would wait for a version that never saw it."""
    [job_id] = start(lambda ctx: ctx.step.sleep("night", "1h"), version="1")
    Job.objects.filter(pk=job_id).update(state="ready", run_at=clock.now(), is_armed=True)
    JobStep.objects.filter(job_id=job_id).delete()
    seen: list[str] = []

    deploy(
        lambda ctx: seen.append(Job.objects.get(pk=job_id).code_version),
        version="2",
        on_version_change=rule,
    )

    assert seen == ["2"]


# -- waiting for a version


def test_ten_runs_go_on_when_only_another_function_changed():
    ids = start(v1, 10, version="1", on_version_change="wait")
    an_hour_passes()

    deploy(v1, version="1", on_version_change="wait")

    assert {row.state for row in rows(ids)} == {"done"}
    assert get_store().version_waits() == {}


def test_ten_runs_wait_for_their_version_unspent_and_are_counted_and_told_of_once(caplog):
    ids = start(v1, 10, version="1")
    an_hour_passes()

    with caplog.at_level(logging.WARNING, "django_durable_jobs"):
        deploy(v5, version="2", on_version_change="wait")

    assert get_store().version_waits() == {(NAME, "1"): 10}
    assert operations.version_waits() == {(NAME, "1"): 10}
    assert {
        (row.state, row.attempt, row.code_version, row.awaited_version, row.last_error)
        for row in rows(ids)
    } == {("ready", 0, "1", "1", "")}
    assert done == ["s1"] * 10
    assert [record.getMessage() for record in caplog.records] == [
        "jobs.version.waiting: runs of job 'shop.fulfil' were begun by version '1' of its code "
        "and wait for a worker that has it; here it is version '2'."
    ]

    clock.move(timedelta(seconds=60))
    deploy(v1, version="1")

    assert get_store().version_waits() == {}
    assert {(row.state, row.awaited_version) for row in rows(ids)} == {("done", "")}
    assert sorted(done) == ["s1"] * 10 + ["s2"] * 10


def test_a_run_waits_at_growing_pauses_and_is_never_given_up_for_its_age():
    [job_id] = start(v1, version="1")
    an_hour_passes()
    pauses = []

    for _ in range(12):
        deploy(v5, version="2", on_version_change="wait")
        [row] = rows([job_id])
        pause = row.run_at - clock.now()
        pauses.append(round(pause.total_seconds() / 30))
        clock.move(pause + timedelta(seconds=1))
    clock.move(timedelta(days=400))
    deploy(v5, version="2", on_version_change="wait")

    assert pauses[:3] == [1, 1, 2]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60
    [row] = rows([job_id])
    assert (row.state, row.attempt) == ("ready", 0)


def test_a_removed_job_waits_as_an_unknown_name_and_can_be_cancelled_or_resumed():
    ids = start(v1, 2, version="1", on_version_change="wait")
    an_hour_passes()

    deploy(None)

    assert get_store().version_waits() == {}
    assert {(row.state, row.attempt, row.awaited_version) for row in rows(ids)} == {
        ("ready", 0, "")
    }
    assert all(row.unknown_since is not None for row in rows(ids))
    operations.cancel(ids[0], reason="the job is gone")
    clock.move(timedelta(seconds=60))
    deploy(v1, version="1")
    assert [row.state for row in rows(ids)] == ["cancelled", "done"]


def test_a_job_removed_after_a_long_wait_for_its_version_has_its_day_like_any_other():
    [job_id] = start(v1, version="1")
    an_hour_passes()
    deploy(v5, version="2", on_version_change="wait")
    clock.move(timedelta(days=30))

    deploy(None)

    [row] = rows([job_id])
    assert (row.state, row.error_code) == ("ready", "")


def test_a_run_begun_without_a_version_waits_by_that_name():
    [job_id] = start(v1)
    an_hour_passes()

    deploy(v5, version="1", on_version_change="wait")

    [row] = rows([job_id])
    assert (row.state, row.awaited_version) == ("ready", "(none)")
    clock.move(timedelta(seconds=60))
    deploy(v1)
    assert rows([job_id])[0].state == "done"
