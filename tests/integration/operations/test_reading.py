"""Pages of jobs, newest first."""

from __future__ import annotations

from uuid import UUID

import pytest

from django_durable_jobs.exceptions import PageInvalid
from django_durable_jobs.operations import MAX_JOB_PAGE, attempts, job_cursor, list_jobs, show
from django_durable_jobs.store.rows import JobFilter
from django_durable_jobs.testing.factories import JobAttemptFactory, JobFactory

pytestmark = pytest.mark.django_db


def test_a_page_shows_the_newest_jobs_first():
    old, new = JobFactory.create(), JobFactory.create()

    assert [row.id for row in list_jobs()] == [new.pk, old.pk]


def test_cursors_page_to_older_jobs_and_back_to_the_newer_ones_next_to_them():
    ids = [job.pk for job in JobFactory.create_batch(7)][::-1]

    first = list_jobs(limit=2)
    second = list_jobs(limit=2, after=job_cursor(first[-1]))
    third = list_jobs(limit=2, after=job_cursor(second[-1]))
    back = list_jobs(limit=2, before=job_cursor(third[0]))

    assert [row.id for row in (*first, *second, *third)] == ids[:6]
    assert back == second


def test_a_page_holds_only_what_matches():
    JobFactory.create(queue="default")
    wanted = JobFactory.create(queue="billing", state="dead")

    assert [row.id for row in list_jobs(JobFilter(queue="billing", state="dead"))] == [wanted.pk]
    assert list_jobs(JobFilter(queue="nowhere")) == []


@pytest.mark.parametrize("limit", [0, -1, MAX_JOB_PAGE + 1])
def test_a_page_size_out_of_range_is_refused_and_not_clamped(limit):
    with pytest.raises(PageInvalid) as refused:
        list_jobs(limit=limit)

    assert str(refused.value) == (
        f"A page of jobs cannot have {limit} rows. Ask for 1 to 200, and page on with a cursor."
    )


@pytest.mark.parametrize("which", ["after", "before"])
@pytest.mark.parametrize("cursor", ["", "7", "x' or 1=1", str(UUID(int=7))])
def test_a_cursor_the_list_did_not_make_is_refused_by_its_name(which, cursor):
    with pytest.raises(PageInvalid, match=f"The cursor '{which}' was not made by this list"):
        list_jobs(**{which: cursor})


def test_both_cursors_at_once_are_refused():
    JobFactory.create()
    [row] = list_jobs()

    with pytest.raises(PageInvalid, match="not both"):
        list_jobs(after=job_cursor(row), before=job_cursor(row))


def test_a_job_is_shown_with_the_tries_that_failed_newest_first():
    job = JobFactory.create(dead=True)
    for claim in (1, 2):
        JobAttemptFactory.create(job=job, claim=claim, attempt=claim)

    assert show(job.pk).id == job.pk
    assert [row.claim for row in attempts(job.pk)] == [2, 1]
