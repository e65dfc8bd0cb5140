"""The same verb on several jobs, and the table that surfaces draw from."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission

from django_durable_jobs import states
from django_durable_jobs.exceptions import BulkTooLarge
from django_durable_jobs.models import Job
from django_durable_jobs.operations import MAX_BULK_ROWS, OPERATIONS, apply_to_each
from django_durable_jobs.testing.factories import JobFactory

pytestmark = pytest.mark.django_db


def test_a_refused_job_does_not_stop_the_others():
    dead, running, failed = (
        JobFactory.create(dead=True),
        JobFactory.create(running=True),
        JobFactory.create(dead=True),
    )

    outcome = apply_to_each(OPERATIONS["requeue"], [dead.pk, running.pk, failed.pk])

    assert set(outcome.done) == {dead.pk, failed.pk}
    [(skipped, refusal)] = outcome.skipped
    assert skipped == running.pk
    assert "it is running now" in str(refusal)


def test_of_two_finished_jobs_with_one_key_only_one_is_requeued():
    first, second = JobFactory.create_batch(2, dead=True, idempotency_key="order:7")

    outcome = apply_to_each(OPERATIONS["requeue"], [second.pk, first.pk])

    assert outcome.done == (first.pk,)
    assert [job_id for job_id, _refusal in outcome.skipped] == [second.pk]


def test_a_job_named_twice_is_acted_on_once():
    job = JobFactory.create(dead=True)

    outcome = apply_to_each(OPERATIONS["requeue"], [job.pk, job.pk])

    assert outcome.done == (job.pk,)
    assert outcome.skipped == ()


def test_a_call_on_too_many_jobs_changes_none():
    job = JobFactory.create(dead=True)
    too_many = [job.pk, *(uuid4() for _ in range(MAX_BULK_ROWS))]

    with pytest.raises(BulkTooLarge) as refused:
        apply_to_each(OPERATIONS["requeue"], too_many)

    assert str(refused.value) == (
        "One call cannot act on 1,001 jobs; the limit is 1,000. Act on them in several calls."
    )
    assert Job.objects.get(pk=job.pk).state == "dead"


def test_a_cancelled_job_keeps_the_reason():
    job = JobFactory.create()

    apply_to_each(OPERATIONS["cancel"], [job.pk], reason="ann: withdrawn")

    assert Job.objects.get(pk=job.pk).stop_reason == "ann: withdrawn"


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))
@pytest.mark.parametrize("state", states.STATES)
def test_the_table_offers_an_operation_exactly_where_the_store_allows_it(operation, state):
    job = JobFactory.create(state=state)

    outcome = apply_to_each(operation, [job.pk])

    assert bool(outcome.done) == (state in operation.states)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))
def test_every_operation_asks_for_a_permission_that_can_be_given(operation):
    app_label, codename = operation.permission.split(".")

    assert Permission.objects.filter(
        content_type__app_label=app_label, content_type__model="job", codename=codename
    ).exists()
