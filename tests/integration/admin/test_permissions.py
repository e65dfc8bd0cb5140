"""Who may do what: every address and every action, for every set of permissions."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_durable_jobs.admin import JobAdmin
from django_durable_jobs.models import Job
from django_durable_jobs.operations import OPERATIONS
from django_durable_jobs.testing.factories import JobFactory

from .conftest import LIST, page_of

pytestmark = pytest.mark.django_db

PEOPLE = {
    "nobody in particular": (),
    "viewer": ("view_job",),
    "may see payloads": ("view_job", "view_job_payload"),
    "may retry": ("view_job", "retry_job"),
    "may cancel": ("view_job", "cancel_job"),
    "may retry but not look": ("retry_job", "cancel_job", "view_job_payload"),
}
# Where an operation applies, so that what is refused is refused for want of permission.
STARTS_IN = {"requeue": "dead", "cancel": "ready"}
ENDS_IN = {"requeue": "ready", "cancel": "cancelled"}


def may(codenames, operation):
    return "view_job" in codenames and operation.permission.split(".")[1] in codenames


@pytest.fixture(params=list(PEOPLE.values()), ids=list(PEOPLE))
def codenames(request):
    return request.param


@pytest.fixture
def person(codenames, staff):
    return staff(*codenames)


@pytest.fixture(params=list(OPERATIONS.values()), ids=list(OPERATIONS))
def operation(request):
    return request.param


@pytest.fixture
def job(operation):
    return JobFactory.create(state=STARTS_IN[operation.name])


def test_looking_needs_the_view_permission(person, codenames):
    job = JobFactory.create()
    expected = 200 if "view_job" in codenames else 403

    assert person.get(LIST).status_code == expected
    assert person.get(page_of(job)).status_code == expected
    assert person.get(page_of(job, "history")).status_code == expected


def test_a_payload_is_downloaded_only_with_its_own_permission(person, codenames):
    job = JobFactory.create()
    allowed = {"view_job", "view_job_payload"} <= set(codenames)

    response = person.get(page_of(job, "payload", "input"))

    assert response.status_code == (200 if allowed else 403)


@pytest.mark.parametrize("method", ["get", "post"])
def test_an_operation_needs_its_permission_and_the_view_permission(
    person, codenames, operation, job, method
):
    response = getattr(person, method)(page_of(job, "op", operation.name))

    job.refresh_from_db()
    if may(codenames, operation):
        assert response.status_code == (200 if method == "get" else 302)
        wanted = STARTS_IN if method == "get" else ENDS_IN
        assert job.state == wanted[operation.name]
    else:
        assert response.status_code == 403
        assert job.state == STARTS_IN[operation.name]


def test_a_bulk_action_needs_the_permission_also_when_it_is_posted_confirmed(
    person, codenames, operation, job
):
    for confirmed in ({}, {"confirmed": "1"}):
        data = {"action": operation.name, "_selected_action": [str(job.pk)], **confirmed}
        response = person.post(LIST, data)
        if "view_job" not in codenames:
            assert response.status_code == 403

    job.refresh_from_db()
    wanted = ENDS_IN if may(codenames, operation) else STARTS_IN
    assert job.state == wanted[operation.name]


def test_a_bulk_action_is_offered_only_to_those_who_may(staff, operation):
    JobFactory.create()
    option = f'<option value="{operation.name}">'
    allowed = staff("view_job", operation.permission.split(".")[1])

    assert option not in staff("view_job").get(LIST).content.decode()
    assert option in allowed.get(LIST).content.decode()


def test_a_button_is_shown_only_to_those_who_may(person, codenames, operation, job):
    if "view_job" in codenames:
        page = person.get(page_of(job)).content.decode()

        assert (page_of(job, "op", operation.name) in page) == may(codenames, operation)


def test_nobody_adds_changes_or_deletes_by_hand(admin_client):
    job = JobFactory.create(name="shop.charge")

    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}add/", {"name": "x"}).status_code == 403
    assert admin_client.post(page_of(job), {"name": "x"}).status_code == 403
    assert admin_client.get(page_of(job, "delete")).status_code == 403
    assert admin_client.post(page_of(job, "delete"), {"post": "yes"}).status_code == 403
    data = {"action": "delete_selected", "_selected_action": [str(job.pk)], "post": "yes"}
    admin_client.post(LIST, data)

    assert Job.objects.get(pk=job.pk).name == "shop.charge"


@pytest.mark.parametrize("path", [(), ("change",), ("op", "cancel"), ("payload", "input")])
def test_a_stranger_is_sent_to_the_login(path, db):
    job = JobFactory.create()
    address = page_of(job, *path) if path else LIST

    for response in (Client().get(address), Client().post(address)):
        assert response.status_code == 302
        assert response["Location"].startswith("/admin/login/")


def test_somebody_who_is_not_staff_is_sent_to_the_login(db):
    client = Client()
    client.force_login(User.objects.create_user("customer"))

    assert client.get(LIST)["Location"].startswith("/admin/login/")


def test_every_operation_has_its_permission_hook():
    for name in OPERATIONS:
        assert hasattr(JobAdmin, f"has_{name}_permission")


def test_the_menu_shows_jobs_only_to_those_who_may_see_them(staff):
    assert LIST in staff("view_job").get("/admin/").content.decode()
    assert LIST not in staff().get("/admin/").content.decode()


def test_without_the_payload_permission_no_payload_is_on_any_page(viewer):
    job = JobFactory.create(
        done=True, input={"note": "INPUT-TEXT"}, input_preview="INPUT-TEXT", result="RESULT-TEXT"
    )

    for address in (LIST, page_of(job), page_of(job, "history")):
        page = viewer.get(address).content.decode()
        assert "INPUT-TEXT" not in page
        assert "RESULT-TEXT" not in page
