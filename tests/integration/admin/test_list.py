"""The list: what it shows, what it asks of the database, and where it pages."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable_jobs.admin import JobAdmin, budget, counting
from django_durable_jobs.admin.filters import FILTERS
from django_durable_jobs.models import Job
from django_durable_jobs.testing.factories import JobFactory

from .conftest import LIST, page_of

pytestmark = pytest.mark.django_db

UNKNOWN = ["no-such-thing", "", "\0", "' OR 1=1 --", "☃", "x" * 5000]


def shown(response) -> list[UUID]:
    return [job.pk for job in response.context["cl"].result_list]


@pytest.mark.parametrize("value", UNKNOWN, ids=range(len(UNKNOWN)))
@pytest.mark.parametrize("parameter", [each.parameter_name for each in FILTERS])
def test_an_unknown_value_of_a_filter_shows_no_job(operator, parameter, value):
    JobFactory.create()

    response = operator.get(LIST, {parameter: value})

    assert response.status_code == 200
    assert shown(response) == []


@pytest.mark.parametrize("parameter", [each.parameter_name for each in FILTERS])
def test_an_unknown_value_of_a_filter_acts_on_no_job(operator, parameter):
    job = JobFactory.create()
    data = {"action": "cancel", "_selected_action": [str(job.pk)]}

    response = operator.post(f"{LIST}?{parameter}=no-such-thing", data, follow=True)

    assert "none of the selected jobs is in this list" in response.content.decode()
    assert Job.objects.get(pk=job.pk).state == "ready"


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("state", "dead"), ("queue", "billing"), ("name", "shop.refund"), ("since", "1h")],
)
def test_a_filter_shows_what_matches(operator, parameter, value):
    JobFactory.create(created_at=timezone.now() - timedelta(hours=2))
    wanted = JobFactory.create(dead=True, queue="billing", name="shop.refund")

    assert shown(operator.get(LIST, {parameter: value})) == [wanted.pk]


@pytest.mark.parametrize("state", Job.State.values)
def test_each_state_has_a_tab_with_its_count_and_shows_its_jobs(operator, state):
    wanted = [JobFactory.create(state=state, is_armed=armed).pk for armed in (True, False)]
    JobFactory.create(state="dead" if state != "dead" else "done")

    response = operator.get(LIST, {"state": state})

    assert sorted(shown(response)) == sorted(wanted)
    [tab] = [tab for tab in response.context["tabs"] if tab["is_current"]]
    assert (tab["state"], tab["count"]) == (state, 2)


@pytest.mark.parametrize(
    "query",
    [
        "input__password__startswith=s",
        "input__contains=1",
        "last_error__icontains=x",
        "tenant_id=x",
        "id__in=1",
        "utm_source=mail",
    ],
)
def test_no_column_is_reachable_by_the_address_but_the_filters(operator, query):
    JobFactory.create(input={"password": "s3cr3t"})

    response = operator.get(f"{LIST}?{query}")

    assert response.status_code == 302
    assert response["Location"] == f"{LIST}?e=1"


def test_pages_hold_every_job_once_newest_first_and_lead_back(operator, monkeypatch):
    monkeypatch.setattr(JobAdmin, "list_per_page", 3)
    moment = timezone.now()
    ids = [job.pk for job in JobFactory.create_batch(8, created_at=moment)][::-1]

    pages = [operator.get(LIST)]
    while link := pages[-1].context["cl"].older_link:
        pages.append(operator.get(LIST + link))
    assert [pk for page in pages for pk in shown(page)] == ids

    back = operator.get(LIST + pages[-1].context["cl"].newer_link)
    assert shown(back) == shown(pages[-2])
    assert shown(operator.get(LIST + back.context["cl"].newest_link)) == ids[:3]
    assert pages[0].context["cl"].newer_link is None


def test_paging_keeps_the_filters(operator, monkeypatch):
    monkeypatch.setattr(JobAdmin, "list_per_page", 1)
    older, newer = JobFactory.create(dead=True), JobFactory.create(dead=True)
    JobFactory.create()

    first = operator.get(LIST, {"state": "dead"})
    second = operator.get(LIST + first.context["cl"].older_link)

    assert (shown(first), shown(second)) == ([newer.pk], [older.pk])


@pytest.mark.parametrize("cursor", ["after", "before"])
@pytest.mark.parametrize("value", ["junk", "", "7", "\0"])
def test_a_cursor_that_the_list_did_not_make_leads_to_the_first_page(operator, cursor, value):
    response = operator.get(LIST, {cursor: value})

    assert (response.status_code, response["Location"]) == (302, f"{LIST}?e=1")


def test_a_list_makes_the_same_few_statements_however_many_jobs_it_shows(operator):
    JobFactory.create_batch(3)
    with CaptureQueriesContext(connection) as few:
        operator.get(LIST)
    JobFactory.create_batch(60)
    with CaptureQueriesContext(connection) as many:
        operator.get(LIST)

    assert len(many) == len(few) <= 12


def test_nothing_is_counted_without_a_limit_and_no_payload_is_read(operator, monkeypatch):
    monkeypatch.setattr(JobAdmin, "list_per_page", 2)
    JobFactory.create_batch(5)

    with CaptureQueriesContext(connection) as captured:
        operator.get(LIST, {"state": "ready", "queue": "default"})

    statements = [query["sql"] for query in captured if "x_jobs" in query["sql"]]
    for sql in statements:
        assert len(re.findall(r"count\(", sql, re.I)) <= len(re.findall(r"\blimit\b", sql, re.I))
        assert not re.search(r'"x_jobs"\."(input|result|progress)"', sql)
        assert not re.search(r'(?<!LEFT\()"x_jobs"\."last_error"', sql)
    assert any("count(" in sql.lower() for sql in statements)


def test_counts_stop_at_the_cap_and_say_so(operator, monkeypatch):
    monkeypatch.setattr(counting, "CAP", 3)
    monkeypatch.setattr("django_durable_jobs.admin.changelist.CAP", 3)
    monkeypatch.setattr(JobAdmin, "list_per_page", 2)
    JobFactory.create_batch(5, dead=True)

    page = operator.get(LIST, {"state": "dead"}).content.decode()

    assert "<b>3+</b>" in page
    assert "3+ jobs" in page


def test_a_count_at_least_prints_so_everywhere():
    number = counting.capped(10_001)

    assert str(number) == f"{number}" == "%s" % number == "10,000+"  # noqa: UP031 - the form gettext uses
    assert str(counting.capped(10_000)) == "10000"


def test_no_count_stands_beside_filters_and_no_column_sorts(operator):
    JobFactory.create()
    page = operator.get(LIST, {"_facets": "True"}).content.decode()

    assert "Show counts" not in page
    assert "sortable" not in page


def test_acting_on_all_that_match_is_not_offered(operator, monkeypatch):
    monkeypatch.setattr(JobAdmin, "list_per_page", 1)
    JobFactory.create_batch(3)

    page = operator.get(LIST).content.decode()

    assert "Select all 3" not in page
    assert 'class="question' not in page


def test_a_row_tells_name_state_queue_attempts_due_age_and_error(operator):
    now = timezone.now()
    JobFactory.create(
        name="shop.refund",
        queue="billing",
        attempt=2,
        max_attempts=5,
        run_at=now + timedelta(minutes=10, seconds=20),
        created_at=now - timedelta(hours=3),
        last_error="GatewayTimeout: no answer\nsecond line",
        input_preview='{"order_id": 42}',
    )

    page = operator.get(LIST).content.decode()

    for text in ("shop.refund", "billing", "2 / 5", "in 10 min", ">3 h<", "no answer<"):
        assert text in page
    assert "{&quot;order_id&quot;: 42}" in page


def test_an_empty_list_says_what_it_means(operator):
    assert "No job has been enqueued yet." in operator.get(LIST).content.decode()
    assert "No job matches." in operator.get(LIST, {"state": "dead"}).content.decode()


def test_a_row_leads_to_the_page_of_its_job(operator):
    job = JobFactory.create()

    assert f'href="{page_of(job)}"' in operator.get(LIST).content.decode()


@pytest.mark.django_db(transaction=True)
def test_a_list_that_takes_too_long_is_stopped_and_says_so(admin_client, monkeypatch):
    # A superuser: tests with real commits leave no permissions behind them.
    monkeypatch.setattr(budget, "SECONDS", 0.1)
    settings = connection.settings_dict
    other = psycopg.connect(
        dbname=settings["NAME"],
        user=settings["USER"],
        password=settings["PASSWORD"] or None,
        host=settings["HOST"],
        port=settings["PORT"],
    )
    with other, other.transaction():
        other.execute("lock table x_jobs in access exclusive mode")
        narrowed = admin_client.get(LIST, {"state": "dead"})
        plain = admin_client.get(LIST)

    assert (narrowed.status_code, narrowed["Location"]) == (302, LIST)
    assert (plain.status_code, plain["Location"]) == (302, "/admin/")
    assert "was stopped. Narrow it" in admin_client.get(LIST).content.decode()


# -- runs that wait for a version


def waits_on(response) -> list[str]:
    lines = re.findall(r'<p class="ddj-waits">(.*?)</p>', response.content.decode(), re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", "", line).split()) for line in lines]


def test_runs_that_wait_for_a_version_are_counted_above_the_list(viewer):
    JobFactory.create_batch(10, name="shop.fulfil", awaited_version="1")
    JobFactory.create(name="shop.ship", awaited_version="1")
    JobFactory.create(name="shop.fulfil", awaited_version="2")
    JobFactory.create(name="shop.fulfil", awaited_version="1", state="cancelled")
    JobFactory.create(name="shop.fulfil")

    assert waits_on(viewer.get(LIST)) == [
        "Waiting for version 1: 10 × shop.fulfil, 1 × shop.ship",
        "Waiting for version 2: 1 × shop.fulfil",
    ]


def test_a_count_of_runs_that_wait_leads_to_their_list(viewer):
    waiting = JobFactory.create(name="shop/fulfil & ship", awaited_version="1")
    JobFactory.create()
    html = viewer.get(LIST).content.decode()
    [link] = re.findall(r'<p class="ddj-waits">[^<]*<a href="([^"]*)"', html)

    assert shown(viewer.get(LIST + unescape(link))) == [waiting.pk]


def test_where_no_run_waits_for_a_version_nothing_is_said_of_it(viewer):
    JobFactory.create()

    assert waits_on(viewer.get(LIST)) == []


def test_versions_and_names_that_wait_are_escaped(viewer):
    text = "<script>alert(1)</script>"
    JobFactory.create(name=text, awaited_version=text)

    html = viewer.get(LIST).content.decode()

    assert text not in html
    assert "Waiting for version &lt;script&gt;" in html


def test_the_count_of_runs_that_wait_stops_at_the_cap_and_says_so(viewer, monkeypatch):
    monkeypatch.setattr(counting, "CAP", 3)
    JobFactory.create_batch(5, name="shop.fulfil", awaited_version="1")

    assert waits_on(viewer.get(LIST)) == ["Waiting for version 1: 4+ × shop.fulfil"]
