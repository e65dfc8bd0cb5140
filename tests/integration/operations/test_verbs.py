"""The verbs for people, on the PostgreSQL store."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from django_durable_jobs import operations, states
from django_durable_jobs.exceptions import (
    JobDuplicate,
    JobNotCancellable,
    JobNotFound,
    JobNotPromotable,
    JobNotRemovable,
    JobNotRequeueable,
)
from django_durable_jobs.models import Job, JobStep
from django_durable_jobs.store import get_store
from django_durable_jobs.testing.factories import JobFactory, JobStepFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", states.FINISHED_STATES)
def test_a_finished_job_is_requeued_with_attempt_zero_and_its_steps_kept(state):
    job = JobFactory.create(state=state, attempt=5, finished_at=timezone.now(), last_error="boom")
    JobStepFactory.create(job=job, name="charge")

    row = operations.requeue(job.pk)

    assert (row.state, row.attempt, row.last_error) == ("ready", 0, "")
    assert row.run_at <= timezone.now()
    assert JobStep.objects.filter(job_id=job.pk).count() == 1


@pytest.mark.parametrize("state", states.LIVE_STATES)
def test_a_live_job_is_not_requeued_since_it_would_run_twice(state):
    job = JobFactory.create(state=state, attempt=3)

    with pytest.raises(JobNotRequeueable) as refused:
        operations.requeue(job.pk)

    assert refused.value.state == state
    job.refresh_from_db()
    assert (job.state, job.attempt) == (state, 3)


def test_a_job_whose_key_a_live_job_holds_is_not_requeued():
    job = JobFactory.create(dead=True, idempotency_key="order:7")
    holder = JobFactory.create(idempotency_key="order:7")

    with pytest.raises(JobDuplicate) as refused:
        operations.requeue(job.pk)

    assert refused.value.holder == str(holder.pk)
    job.refresh_from_db()
    assert job.state == "dead"


@pytest.mark.django_db(transaction=True)
def test_a_requeued_job_wakes_the_workers_of_its_queue():
    job = JobFactory.create(dead=True, queue="billing")
    listener = get_store().listen()
    assert listener is not None
    try:
        operations.requeue(job.pk)

        assert "billing" in {wake.queue for wake in listener.receive(timeout=10)}
    finally:
        listener.close()


@pytest.mark.parametrize("state", states.LIVE_STATES)
def test_a_live_job_is_cancelled_for_a_stated_reason(state):
    job = JobFactory.create(state=state)

    assert operations.cancel(job.pk, reason="the order was withdrawn") == state

    job.refresh_from_db()
    assert (job.state, job.stop_reason) == ("cancelled", "the order was withdrawn")


@pytest.mark.parametrize("state", states.FINISHED_STATES)
def test_a_finished_job_is_not_cancelled(state):
    job = JobFactory.create(state=state, stop_reason="as it was")

    with pytest.raises(JobNotCancellable) as refused:
        operations.cancel(job.pk)

    assert refused.value.state == state
    job.refresh_from_db()
    assert (job.state, job.stop_reason) == (state, "as it was")


def test_a_job_that_is_gone_is_not_cancelled():
    with pytest.raises(JobNotCancellable, match="it is gone now"):
        operations.cancel(uuid4())


def test_a_waiting_job_is_promoted_to_run_now():
    job = JobFactory.create(state="delayed", run_at=timezone.now() + timedelta(days=1))

    row = operations.promote(job.pk)

    assert row.state == "ready"
    assert row.run_at <= timezone.now()


def test_a_job_that_does_not_wait_for_its_time_is_not_promoted():
    job = JobFactory.create(running=True)

    with pytest.raises(JobNotPromotable):
        operations.promote(job.pk)


def test_a_job_is_removed_with_its_steps():
    job = JobFactory.create(done=True)
    JobStepFactory.create(job=job)

    operations.remove(job.pk)

    assert not Job.objects.filter(pk=job.pk).exists()
    assert not JobStep.objects.filter(job_id=job.pk).exists()


def test_a_running_job_is_not_removed():
    job = JobFactory.create(running=True)

    with pytest.raises(JobNotRemovable):
        operations.remove(job.pk)

    assert Job.objects.filter(pk=job.pk).exists()


@pytest.mark.parametrize(
    "verb", [operations.requeue, operations.promote, operations.remove, operations.show]
)
def test_an_unknown_id_is_refused_by_name(verb):
    unknown = uuid4()

    with pytest.raises(JobNotFound, match=str(unknown)):
        verb(unknown)


def test_a_reason_that_holds_what_the_database_cannot_keep_is_kept_escaped():
    """It is often the text of an error, and the cancel must not fail for it."""
    job = JobFactory.create()

    operations.cancel(job.pk, reason="sent \0 by \ud800")

    job.refresh_from_db()
    assert (job.state, job.stop_reason) == ("cancelled", r"sent \x00 by \ud800")
