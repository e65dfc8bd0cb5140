"""A second admin site, a narrowed admin, another database, other languages."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin

from django_durable_jobs.admin import JobAdmin, register
from django_durable_jobs.models import Job
from django_durable_jobs.testing.factories import JobFactory

from .conftest import LIST, page_of

pytestmark = pytest.mark.django_db

OPS_LIST = "/ops/durable_jobs/job/"


def ops_page_of(job, *rest):
    return page_of(job, *rest).replace("/admin/", "/ops/", 1)


@pytest.mark.urls("tests.integration.admin.second_site")
def test_links_and_redirects_stay_on_the_site_they_are_on(operator):
    job = JobFactory.create(queue="billing")
    pages = [
        operator.get(OPS_LIST),
        operator.get(ops_page_of(job)),
        operator.get(ops_page_of(job, "op", "cancel")),
        operator.post(OPS_LIST, {"action": "cancel", "_selected_action": [str(job.pk)]}),
    ]

    for response in pages:
        assert response.status_code == 200
        assert not re.search(r'(href|action)="/admin/', response.content.decode())
    assert operator.post(ops_page_of(job, "op", "cancel"))["Location"] == ops_page_of(job)


@pytest.mark.urls("tests.integration.admin.second_site")
def test_a_narrowed_admin_neither_shows_nor_touches_other_jobs(operator):
    other = JobFactory.create(queue="default")
    data = {"action": "cancel", "_selected_action": [str(other.pk)], "confirmed": "1"}

    assert str(other.pk) not in operator.get(OPS_LIST).content.decode()
    assert operator.get(ops_page_of(other))["Location"] == OPS_LIST
    assert operator.get(ops_page_of(other, "payload", "input")).status_code == 404
    assert operator.post(ops_page_of(other, "op", "cancel")).status_code == 404
    operator.post(OPS_LIST, data)

    assert Job.objects.get(pk=other.pk).state == "ready"


@pytest.mark.urls("tests.integration.admin.second_site")
def test_a_narrowed_permission_holds_on_the_page_the_address_and_in_bulk(operator):
    booked, billing = JobFactory.create(queue="booked"), JobFactory.create(queue="billing")
    data = {
        "action": "cancel",
        "_selected_action": [str(booked.pk), str(billing.pk)],
        "confirmed": "1",
    }

    page = operator.get(ops_page_of(booked)).content.decode()
    assert ops_page_of(booked, "op", "cancel") not in page
    assert operator.post(ops_page_of(booked, "op", "cancel")).status_code == 403
    response = operator.post(OPS_LIST, data, follow=True)

    assert [str(message) for message in response.context["messages"]] == [
        "Cancelled: 1 job. Left alone 1 job that is not yours to change."
    ]
    assert Job.objects.get(pk=booked.pk).state == "ready"
    assert Job.objects.get(pk=billing.pk).state == "cancelled"


def test_the_pages_can_be_registered_with_any_site():
    site = admin.AdminSite(name="own")

    register(site)

    assert isinstance(site.get_model_admin(Job), JobAdmin)


class ElsewhereRouter:
    """Sends reads to a database that has none of the jobs."""

    def db_for_read(self, model, **hints):
        return "other" if model._meta.app_label == "durable_jobs" else None


@pytest.mark.django_db(databases=["default", "other"])
def test_the_pages_read_the_jobs_own_database_whatever_a_router_says(operator, settings):
    job = JobFactory.create()
    settings.DATABASE_ROUTERS = [ElsewhereRouter()]

    assert str(job.pk) in operator.get(LIST).content.decode()
    assert operator.get(page_of(job)).status_code == 200


@pytest.mark.parametrize("language", ["ar", "de"])
def test_the_pages_are_shown_in_other_languages(operator, settings, language):
    settings.LANGUAGE_CODE = language
    settings.USE_THOUSAND_SEPARATOR = True
    job = JobFactory.create(dead=True)

    for address in (LIST, page_of(job), page_of(job, "op", "requeue")):
        html = operator.get(address).content.decode()
        assert f'lang="{language}"' in html


def test_no_page_has_inline_script_or_style(operator):
    job = JobFactory.create(dead=True)
    select = {"action": "requeue", "_selected_action": [str(job.pk)]}
    pages = [
        operator.get(LIST),
        operator.get(page_of(job)),
        operator.get(page_of(job, "op", "requeue")),
        operator.post(LIST, select),
    ]

    for response in pages:
        html = response.content.decode()
        assert not re.search(r"<script(?![^>]*\ssrc=)", html)
        assert not re.search(r"<style|\sstyle=|\son\w+=", html)
        assert "durable_jobs/durable_jobs.css" in html
