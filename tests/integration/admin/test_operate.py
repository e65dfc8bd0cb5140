"""Acting on one job: confirm by GET, act by POST, say what happened, record who did it."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from django_durable_jobs import operations
from django_durable_jobs.admin.operating import REASON_AT_MOST
from django_durable_jobs.models import Job
from django_durable_jobs.testing.factories import JobFactory, JobStepFactory

from .conftest import LIST, page_of

pytestmark = pytest.mark.django_db


def messages_of(response):
    return [str(message) for message in response.context["messages"]]


@pytest.mark.parametrize("method", ["get", "head", "options", "put", "patch", "delete"])
@pytest.mark.parametrize(("op", "state"), [("requeue", "dead"), ("cancel", "running")])
def test_nothing_but_a_post_acts(operator, op, state, method):
    job = JobFactory.create(state=state)

    getattr(operator, method)(page_of(job, "op", op), {"reason": "x"} if method == "get" else "")

    job.refresh_from_db()
    assert job.state == state
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("method", ["put", "patch", "delete", "options"])
def test_other_methods_are_not_allowed(operator, method):
    response = getattr(operator, method)(page_of(JobFactory.create(), "op", "cancel"))

    assert (response.status_code, response["Allow"]) == (405, "GET, POST")


@pytest.mark.parametrize("path", [("op", "cancel"), ()])
def test_a_post_without_the_csrf_token_is_refused(admin_user, path):
    job = JobFactory.create()
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    data = {"action": "cancel", "_selected_action": [str(job.pk)], "confirmed": "1"}

    response = client.post(page_of(job, *path) if path else LIST, data)

    assert response.status_code == 403
    job.refresh_from_db()
    assert job.state == "ready"


def test_the_confirmation_says_what_will_happen_to_which_job(operator):
    job = JobFactory.create(running=True, name="shop.charge")

    html = operator.get(page_of(job, "op", "cancel")).content.decode()

    for text in ("Cancel this job?", "shop.charge", str(job.pk), "its code stops", "Reason"):
        assert text in html
    assert 'method="post"' in html


def test_a_retried_job_is_due_again_and_the_person_and_reason_are_recorded(operator):
    job = JobFactory.create(dead=True, name="shop.charge")
    JobStepFactory.create(job=job)

    response = operator.post(
        page_of(job, "op", "requeue"), {"reason": "gateway is back"}, follow=True
    )

    assert response.redirect_chain == [(page_of(job), 302)]
    assert messages_of(response) == ["Retried: shop.charge."]
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("ready", 0)
    entry = LogEntry.objects.get()
    assert entry.user == response.wsgi_request.user
    assert entry.object_id == str(job.pk)
    assert entry.change_message == "Retried (was dead): gateway is back"
    assert "gateway is back" in operator.get(page_of(job, "history")).content.decode()


def test_a_cancelled_job_tells_who_cancelled_it_and_why(operator):
    job = JobFactory.create(running=True)

    response = operator.post(page_of(job, "op", "cancel"), {"reason": "withdrawn"}, follow=True)

    job.refresh_from_db()
    user = response.wsgi_request.user.get_username()
    assert (job.state, job.stop_reason) == ("cancelled", f"{user}: withdrawn")


@pytest.mark.parametrize(
    ("op", "start", "now", "said"),
    [
        ("requeue", "dead", "running", "Nothing changed: the job is running now."),
        ("cancel", "running", "done", "Nothing changed: the job is done now."),
    ],
)
def test_a_job_that_moved_on_after_the_confirmation_is_left_alone(operator, op, start, now, said):
    job = JobFactory.create(state=start)
    assert operator.get(page_of(job, "op", op)).status_code == 200
    Job.objects.filter(pk=job.pk).update(state=now)

    response = operator.post(page_of(job, "op", op), follow=True)

    assert messages_of(response) == [said]
    job.refresh_from_db()
    assert job.state == now
    assert not LogEntry.objects.exists()


def test_a_second_click_changes_nothing_and_says_so(operator):
    job = JobFactory.create(dead=True)
    operator.post(page_of(job, "op", "requeue"))
    response = operator.post(page_of(job, "op", "requeue"), follow=True)

    assert "Nothing changed: the job is ready now." in messages_of(response)
    assert LogEntry.objects.count() == 1


def test_a_job_whose_key_is_held_is_not_retried_and_the_holder_is_named(operator):
    job = JobFactory.create(dead=True, idempotency_key="order:7")
    holder = JobFactory.create(idempotency_key="order:7")

    response = operator.post(page_of(job, "op", "requeue"), follow=True)

    assert messages_of(response) == [
        f"Nothing changed: the live job {holder.pk} holds its idempotency key."
    ]
    job.refresh_from_db()
    assert job.state == "dead"


def test_a_job_removed_meanwhile_is_not_found(operator):
    job = JobFactory.create(dead=True, finished_at=timezone.now())
    address = page_of(job, "op", "requeue")
    operations.remove(job.pk)

    assert operator.post(address).status_code == 404


def test_an_unknown_operation_is_not_found(operator):
    assert operator.post(page_of(JobFactory.create(), "op", "delete")).status_code == 404


def test_a_reason_that_is_too_long_is_told_and_nothing_is_done(operator):
    job = JobFactory.create()

    response = operator.post(page_of(job, "op", "cancel"), {"reason": "x" * (REASON_AT_MOST + 1)})

    assert response.status_code == 200
    assert "at most 300 characters" in response.content.decode()
    job.refresh_from_db()
    assert job.state == "ready"


def test_an_operation_that_does_not_apply_offers_no_button(operator):
    html = operator.get(page_of(JobFactory.create(running=True), "op", "requeue")).content.decode()

    assert "does not apply in this state" in html
    assert 'class="ddj-form"' not in html
