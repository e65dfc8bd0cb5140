"""Acting on the selected jobs."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry

from django_durable_jobs.models import Job
from django_durable_jobs.testing.factories import JobFactory

from .conftest import LIST

pytestmark = pytest.mark.django_db


def act(client, action, jobs, *, query="", **more):
    data = {"action": action, "_selected_action": [str(job.pk) for job in jobs], **more}
    return client.post(LIST + query, data, follow=True)


def confirm(client, action, jobs, **more):
    return act(client, action, jobs, confirmed="1", **more)


def states_of(*jobs):
    return [Job.objects.get(pk=job.pk).state for job in jobs]


def messages_of(response):
    return [str(message) for message in response.context["messages"]]


def test_the_first_post_asks_and_changes_nothing(operator):
    dead, running = JobFactory.create(dead=True), JobFactory.create(running=True)

    html = act(operator, "requeue", [dead, running]).content.decode()

    assert "Retry 1 job?" in html
    assert "1 selected job is skipped" in html
    assert f'name="_selected_action" value="{dead.pk}"' in html
    assert states_of(dead, running) == ["dead", "running"]


def test_the_confirmed_post_acts_on_each_and_says_what_became_of_it(operator):
    dead, running = JobFactory.create(dead=True), JobFactory.create(running=True)

    response = confirm(operator, "requeue", [dead, running], reason="gateway is back")

    assert states_of(dead, running) == ["ready", "running"]
    assert messages_of(response) == [
        f"Retried: 1 job. Skipped 1: {running.pk} – the job is running now."
    ]
    entry = LogEntry.objects.get()
    assert entry.object_id == str(dead.pk)
    assert entry.change_message == "Retried (was dead): gateway is back"


def test_every_job_of_a_page_can_be_cancelled_at_once(operator):
    jobs = JobFactory.create_batch(100)

    response = confirm(operator, "cancel", jobs, reason="withdrawn")

    assert messages_of(response) == ["Cancelled: 100 jobs."]
    assert set(states_of(*jobs)) == {"cancelled"}
    assert LogEntry.objects.count() == 100


def test_a_job_that_left_the_filtered_state_meanwhile_is_told_as_skipped(operator):
    dead, moved = JobFactory.create_batch(2, dead=True)
    assert act(operator, "requeue", [dead, moved], query="?state=dead").status_code == 200
    Job.objects.filter(pk=moved.pk).update(state="running")

    response = confirm(operator, "requeue", [dead, moved], query="?state=dead")

    assert states_of(dead, moved) == ["ready", "running"]
    assert f"Skipped 1: {moved.pk} – the job is running now." in messages_of(response)[0]
    assert response.redirect_chain == [(f"{LIST}?state=dead", 302)]


def test_a_job_that_is_gone_is_told_as_skipped(operator):
    job = JobFactory.create(dead=True)
    data = {
        "action": "requeue",
        "_selected_action": [str(job.pk), gone := str(uuid4())],
        "confirmed": "1",
    }

    response = operator.post(LIST, data, follow=True)

    assert messages_of(response) == [f"Retried: 1 job. Skipped 1: {gone} – the job is gone."]


def test_acting_on_all_that_match_is_refused(operator):
    jobs = JobFactory.create_batch(2)

    for more in ({}, {"confirmed": "1"}):
        response = act(operator, "cancel", jobs[:1], select_across="1", **more)
        assert "select the jobs themselves" in messages_of(response)[-1]

    assert states_of(*jobs) == ["ready", "ready"]


def test_a_selection_that_is_not_of_ids_is_refused(operator):
    data = {"action": "cancel", "_selected_action": ["0", "' OR 1=1"], "confirmed": "1"}

    response = operator.post(LIST, data, follow=True)

    assert messages_of(response) == ["Nothing changed: what was selected is not a list of jobs."]


def test_a_selection_larger_than_a_call_may_be_is_refused(operator, settings):
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = None
    job = JobFactory.create()
    data = {
        "action": "cancel",
        "_selected_action": [str(job.pk), *(str(uuid4()) for _ in range(1000))],
        "confirmed": "1",
    }

    response = operator.post(LIST, data, follow=True)

    assert messages_of(response) == ["Nothing changed: select at most 1000 jobs."]
    assert states_of(job) == ["ready"]


def test_a_reason_that_is_too_long_asks_again_and_changes_nothing(operator):
    job = JobFactory.create()

    response = confirm(operator, "cancel", [job], reason="x" * 301)

    assert "at most 300 characters" in response.content.decode()
    assert states_of(job) == ["ready"]


def test_nothing_selected_changes_nothing(operator):
    job = JobFactory.create()

    response = operator.post(LIST, {"action": "cancel", "index": "0"}, follow=True)

    assert "Items must be selected" in messages_of(response)[0]
    assert states_of(job) == ["ready"]
