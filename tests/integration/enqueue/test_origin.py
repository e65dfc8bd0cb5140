"""A job remembers which job's body enqueued it."""

from __future__ import annotations

import pytest

from django_durable_jobs import JobContext, job
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.models import Job
from django_durable_jobs.testing import run_jobs


@pytest.mark.django_db
def test_a_job_enqueued_by_a_body_names_that_job_as_its_origin():
    with scratch_registry():

        @job(name="shop.child")
        def child() -> None:
            return None

        @job(name="shop.parent")
        def parent(ctx: JobContext) -> None:
            child.enqueue()
            ctx.step.enqueue("child", child)

        result = parent.enqueue()
        run_jobs()

    origins = Job.objects.filter(name="shop.child").values_list("origin", "origin_id")
    assert list(origins) == [("job", str(result.id))] * 2
    assert Job.objects.get(pk=result.id).origin == ""
