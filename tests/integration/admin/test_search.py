"""What may be typed into the search field."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_durable_jobs.jobs import job as declare
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.testing.factories import JobFactory

from .conftest import LIST

pytestmark = pytest.mark.django_db


def found(client, term):
    response = client.get(LIST, {"q": term})
    assert response.status_code == 200
    return {job.pk for job in response.context["cl"].result_list}


@pytest.fixture
def declared():
    """A registry that knows one job, ``shop.refund_order``."""
    with scratch_registry():

        @declare(name="shop.refund_order")
        def refund(order_id: int) -> None: ...

        yield


def test_an_id_finds_its_job(operator):
    wanted, _other = JobFactory.create_batch(2)

    assert found(operator, str(wanted.pk)) == {wanted.pk}
    assert found(operator, f"  {str(wanted.pk).upper()} ") == {wanted.pk}
    assert found(operator, wanted.pk.hex) == {wanted.pk}


def test_the_beginning_of_an_id_finds_the_jobs_that_begin_so(operator):
    wanted = JobFactory.create(id="01900000-aaaa-7000-8000-000000000001")
    JobFactory.create(id="01910000-aaaa-7000-8000-000000000001")

    assert [str(pk) for pk in found(operator, "01900000-aa")] == [wanted.id]


def test_a_few_digits_are_looked_for_among_ids_and_names(operator, declared):
    by_id = JobFactory.create(id="dead0000-aaaa-7000-8000-000000000001")
    by_name = JobFactory.create(name="dead")
    JobFactory.create()

    assert {str(pk) for pk in found(operator, "dead")} == {by_id.id, str(by_name.pk)}


def test_a_search_by_id_rides_the_primary_key_alone(operator):
    job = JobFactory.create()
    with CaptureQueriesContext(connection) as captured:
        found(operator, str(job.pk))

    assert not any('"x_jobs"."name" IN' in query["sql"] for query in captured)


def test_a_part_of_a_declared_name_finds_its_jobs(operator, declared):
    wanted = JobFactory.create(name="shop.refund_order")
    JobFactory.create(name="shop.charge")

    assert found(operator, "REFUND") == {wanted.pk}


def test_the_whole_name_finds_jobs_whose_declaration_is_gone(operator, declared):
    wanted = JobFactory.create(name="shop.retired")

    assert found(operator, "shop.retired") == {wanted.pk}


def test_a_key_finds_the_jobs_under_it(operator):
    wanted = JobFactory.create(idempotency_key="order:7")
    JobFactory.create(idempotency_key="order:8")

    assert found(operator, "key:order:7") == {wanted.pk}


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("input.order.id=7", {"order": {"id": 7}}),
        ("input.order.id=7", {"order": {"id": "7"}}),
        ("input.paid=true", {"paid": True}),
        ("input.note=null", {"note": None}),
        ("input.city=São Paulo", {"city": "São Paulo"}),
        ("input.big=9007199254740993", {"big": 9007199254740993}),
        ("input.n=NaN", {"n": "NaN"}),
        ("input.n=1e999", {"n": "1e999"}),
        ('input.quoted="7"', {"quoted": "7"}),
    ],
)
def test_a_value_in_the_input_finds_its_jobs_as_number_and_as_text(operator, term, value):
    wanted = JobFactory.create(input=value)
    JobFactory.create(input={"order": {"id": 8}, "big": 9007199254740992, "paid": False})

    assert found(operator, term) == {wanted.pk}


@pytest.mark.parametrize(
    "term",
    [
        "nothing",
        "key:",
        "input.=",
        "input.a=",
        "input..=x",
        "zzzz",
        "\0",
        "a\0b",
        "%",
        "_",
        "x" * 9000,
    ],
)
def test_a_term_that_means_nothing_finds_no_job(operator, term):
    JobFactory.create()

    assert found(operator, term) == set()


def test_input_is_not_searched_for_those_who_may_not_see_it(viewer):
    JobFactory.create(input={"note": "private"})

    response = viewer.get(LIST, {"q": "input.note=private"})

    assert not response.context["cl"].result_list
    assert "You may not search by input." in response.content.decode()


@pytest.mark.parametrize("key", ["password", "a.api_key", "cardNumber", "stripe_tokens"])
def test_a_redacted_key_is_not_searched_for_anybody(operator, key):
    nested: object = "s3cr3t"
    for part in reversed(key.split(".")):
        nested = {part: nested}
    JobFactory.create(input=nested)

    response = operator.get(LIST, {"q": f"input.{key}=s3cr3t"})

    assert not response.context["cl"].result_list
    assert "never shown" in response.content.decode()


def test_no_search_looks_for_text_inside_payloads(operator):
    JobFactory.create()
    for term in ("x", "key:x", "input.a=x", "0190aaaa"):
        with CaptureQueriesContext(connection) as captured:
            found(operator, term)
        assert not any("LIKE" in query["sql"].upper() for query in captured)
