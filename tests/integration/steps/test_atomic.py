"""The database effects of an atomic step and its checkpoint are one: both exist, or neither."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import IntegrityError, transaction

from django_durable_jobs.exceptions import (
    Aborted,
    Draining,
    LeaseLost,
    StepOutputUnserializable,
    StepRefused,
)
from tests.integration.steps.bench import LEASE, REAL, claim_of

pytestmark = REAL


@pytest.fixture
def bench(real_bench):
    return real_bench


def record(name="paid", meanwhile=lambda: None):
    group = Group.objects.create(name=name)
    meanwhile()
    return {"id": group.pk}


def recorded():
    return sorted(Group.objects.values_list("name", flat=True))


def test_effects_and_checkpoint_are_committed_together(bench):
    job_id = bench.enqueue()

    def body(ctx):
        answer = ctx.step.atomic("record", record)
        # Only what is committed is seen on another connection.
        assert "record" in bench.steps(job_id)
        return answer

    attempt = bench.attempt(body)

    assert attempt.value == {"id": Group.objects.get().pk}
    assert recorded() == ["paid"]


def test_a_finished_atomic_step_does_not_run_again(bench):
    bench.enqueue()

    def body(ctx):
        answer = ctx.step.atomic("record", record)
        if ctx.attempt == 1:
            raise ValueError("crash")
        return answer

    bench.attempt(body)

    assert bench.attempt(body).value == {"id": Group.objects.get().pk}
    assert recorded() == ["paid"]


def test_an_error_of_the_function_leaves_neither(bench):
    job_id = bench.enqueue()

    def fails():
        record()
        raise ValueError("after the insert")

    assert str(bench.attempt(lambda ctx: ctx.step.atomic("record", fails)).error) == (
        "after the insert"
    )
    assert (recorded(), bench.steps(job_id)) == ([], {})


def test_an_output_without_a_json_form_leaves_neither(bench):
    """It is written as JSON before COMMIT, or the effects would stand without a checkpoint."""
    job_id = bench.enqueue()

    def unwritable():
        record()
        return {1, 2}

    attempt = bench.attempt(lambda ctx: ctx.step.atomic("record", unwritable))

    assert isinstance(attempt.error, StepOutputUnserializable)
    assert (recorded(), bench.steps(job_id)) == ([], {})


def test_a_constraint_that_fails_at_the_commit_leaves_neither(bench):
    job_id = bench.enqueue()

    def orphan():
        Permission.objects.create(codename="orphan", name="Orphan", content_type_id=-1)

    attempt = bench.attempt(lambda ctx: ctx.step.atomic("record", orphan))

    assert isinstance(attempt.error, IntegrityError)
    assert bench.steps(job_id) == {}
    assert not Permission.objects.filter(codename="orphan").exists()


def test_a_lease_taken_by_another_worker_while_the_function_runs_leaves_neither(bench):
    """The other connection takes the row between the function's write and the checkpoint."""
    job_id = bench.enqueue()
    attempt = bench.attempt(
        lambda ctx: ctx.step.atomic("record", record, meanwhile=lambda: bench.steal(job_id))
    )

    assert isinstance(attempt.error, LeaseLost)
    assert (recorded(), bench.steps(job_id)) == ([], {})
    assert attempt.settlement is None
    assert bench.row(job_id).worker_id == "thief"


def test_the_thief_of_a_lease_runs_the_step_and_its_effects_exist_once(bench):
    job_id = bench.enqueue()
    bench.attempt(
        lambda ctx: ctx.step.atomic("record", record, meanwhile=lambda: bench.steal(job_id))
    )
    assert bench.worker_store.lapse([claim_of(bench.row(job_id))]) == 1
    (again,) = bench.worker_store.rescue(
        "worker-3", ["default"], limit=1, lease=LEASE, drop_exhausted=()
    ).claimed
    attempt = bench.attempt(lambda ctx: ctx.step.atomic("record", record), again)

    assert attempt.landed
    assert recorded() == ["paid"]


def test_a_job_cancelled_while_the_function_runs_leaves_neither(bench):
    job_id = bench.enqueue()

    def cancel():
        assert bench.worker_store.cancel(job_id, reason="by hand") == "running"

    attempt = bench.attempt(lambda ctx: ctx.step.atomic("record", record, meanwhile=cancel))

    assert isinstance(attempt.error, LeaseLost)
    assert recorded() == []
    assert bench.row(job_id).state == "cancelled"


def test_a_signal_set_while_the_function_runs_leaves_neither(bench):
    job_id = bench.enqueue()

    def body(ctx):
        ctx.step.atomic("record", record, meanwhile=lambda: ctx.signal.cancel(Draining()))

    attempt = bench.attempt(body)

    assert isinstance(attempt.error, Aborted)
    assert (recorded(), bench.steps(job_id)) == ([], {})
    assert bench.row(job_id).state == "ready"


def test_the_lease_can_be_renewed_while_the_function_works(bench):
    """The fence is taken last: taken first, the renewal would skip the row until it lapsed."""
    job_id = bench.enqueue()
    renewals = []

    def renew():
        claims = [claim_of(bench.row(job_id))]
        renewals.append(bench.worker_store.renew(claims, lease=LEASE, beats=()))

    bench.attempt(lambda ctx: ctx.step.atomic("record", record, meanwhile=renew))

    (renewal,) = renewals
    assert [claim.job_id for claim in renewal.held] == [job_id]


def test_an_error_after_the_commit_fails_the_attempt_and_leaves_the_step_done(bench):
    job_id = bench.enqueue()

    def fails():
        raise ValueError("mail server away")

    def body(ctx):
        return ctx.step.atomic("record", record, meanwhile=lambda: transaction.on_commit(fails))

    attempt = bench.attempt(body)

    assert str(attempt.error) == "mail server away"
    assert recorded() == ["paid"]
    assert bench.steps(job_id)["record"].status == "done"
    assert bench.attempt(body).value == {"id": Group.objects.get().pk}


@pytest.mark.parametrize(
    "verb",
    [
        lambda step: step.run("inner", lambda: 1),
        lambda step: step.atomic("inner", lambda: 1),
        lambda step: step.sleep("inner", "1h"),
        lambda step: step.wait_for_event("inner", event="paid"),
    ],
)
def test_a_step_inside_the_body_s_own_transaction_is_refused(bench, verb):
    """Its checkpoint would be stored before the transaction around it commits, if it ever does."""
    job_id = bench.enqueue()

    def body(ctx):
        with transaction.atomic():
            record()
            verb(ctx.step)

    attempt = bench.attempt(body)

    assert isinstance(attempt.error, StepRefused)
    assert str(attempt.error) == (
        "Step 'inner' was called inside a transaction: it would be stored before that commits. "
        "Call it outside, or do the database work in ctx.step.atomic()."
    )
    assert (recorded(), bench.steps(job_id)) == ([], {})


def test_a_step_inside_an_atomic_step_is_refused(bench):
    job_id = bench.enqueue()
    attempt = bench.attempt(
        lambda ctx: ctx.step.atomic("outer", lambda: ctx.step.run("inner", record))
    )

    assert isinstance(attempt.error, StepRefused)
    assert (recorded(), bench.steps(job_id)) == ([], {})


def test_steps_are_refused_in_a_job_that_is_atomic_as_a_whole(bench):
    bench.enqueue()
    attempt = bench.attempt(lambda ctx: ctx.step.sleep("nap", "1h"), atomic_job=True)

    assert str(attempt.error) == (
        "Step 'nap' was called in job 'shop.pay', which is atomic as a whole. "
        "Call the function itself, or declare the job without atomic=True."
    )


# -- ctx.atomic


def test_a_transaction_of_the_body_commits_while_the_job_is_held(bench):
    bench.enqueue()

    def body(ctx):
        with ctx.atomic():
            record()

    assert bench.attempt(body).error is None
    assert recorded() == ["paid"]


def test_a_transaction_of_the_body_does_not_commit_without_the_lease(bench):
    job_id = bench.enqueue()

    def body(ctx):
        with ctx.atomic():
            record(meanwhile=lambda: bench.steal(job_id))

    attempt = bench.attempt(body)

    assert isinstance(attempt.error, LeaseLost)
    assert recorded() == []
    assert attempt.settlement is None


def test_a_transaction_of_the_body_does_not_commit_once_the_signal_is_set(bench):
    bench.enqueue()

    def body(ctx):
        with ctx.atomic():
            record(meanwhile=lambda: ctx.signal.cancel(Draining()))

    assert isinstance(bench.attempt(body).error, Aborted)
    assert recorded() == []


def test_a_transaction_of_the_body_is_refused_inside_another(bench):
    bench.enqueue()

    def body(ctx):
        with transaction.atomic(), ctx.atomic():
            record()

    attempt = bench.attempt(body)

    assert isinstance(attempt.error, StepRefused)
    assert recorded() == []


def test_a_transaction_of_the_body_is_refused_in_a_job_that_is_atomic_as_a_whole(bench):
    bench.enqueue()

    def body(ctx):
        with ctx.atomic():
            record()

    assert isinstance(bench.attempt(body, atomic_job=True).error, StepRefused)
    assert recorded() == []
