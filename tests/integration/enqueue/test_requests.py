"""Enqueues of real requests, with ATOMIC_REQUESTS and from async views."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.test import AsyncClient, Client

from django_durable_jobs import job
from django_durable_jobs.testing import run_jobs
from tests.integration.declared import REAL, heard, stored

pytestmark = [REAL, pytest.mark.urls("tests.integration.enqueue.views")]


@pytest.fixture(autouse=True)
def greet():
    @job(name="shop.greet")
    def greet(name: str) -> str:
        return f"Hello {name}"

    return greet


@pytest.fixture
def atomic_requests(monkeypatch):
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)


def groups() -> int:
    return Group.objects.count()


@pytest.mark.usefixtures("atomic_requests")
def test_an_atomic_request_commits_its_job_with_its_data(listener):
    response = Client().get("/place/")

    assert response.content == b"placed"
    assert (stored(), groups()) == (["shop.greet"], 1)
    assert heard(listener) == ["default"]
    assert [ran.state for ran in run_jobs()] == ["done"]


@pytest.mark.usefixtures("atomic_requests")
def test_an_atomic_request_that_raises_leaves_neither_job_nor_data(listener):
    response = Client(raise_request_exception=False).get("/place/?raise")

    assert response.status_code == 500
    assert (stored(), groups()) == ([], 0)
    assert heard(listener) == []


def test_without_atomic_requests_what_was_enqueued_before_an_error_stays():
    Client(raise_request_exception=False).get("/place/?raise")

    assert (stored(), groups()) == (["shop.greet"], 1)


@pytest.mark.parametrize("fails", [False, True])
def test_an_async_view_outside_a_block_stores_its_job_at_once(fails, listener):
    client = AsyncClient(raise_request_exception=False)

    response = async_to_sync(client.get)(f"/place-async/{'?raise' if fails else ''}")

    assert response.status_code == (500 if fails else 200)
    assert stored() == ["shop.greet"]
    assert heard(listener) == ["default"]


def test_an_async_view_answers_the_id_of_its_job(greet):
    response = async_to_sync(AsyncClient().get)("/place-async/")

    (ran,) = run_jobs()
    assert ran.id == UUID(response.content.decode())
    assert greet.get_result(ran.id).return_value == "Hello Ann"


@pytest.mark.parametrize("fails", [False, True])
def test_an_async_view_that_enqueues_in_a_block_commits_or_rolls_back_both(fails, listener):
    client = AsyncClient(raise_request_exception=False)

    async_to_sync(client.get)(f"/place-async-in-a-block/{'?raise' if fails else ''}")

    assert (stored(), groups()) == (([], 0) if fails else (["shop.greet"], 1))
    assert heard(listener) == ([] if fails else ["default"])


def test_aenqueue_joins_the_transaction_of_the_thread_that_waits_for_it(greet, listener):
    with suppress(RuntimeError), transaction.atomic():
        async_to_sync(greet.aenqueue)(name="rolled back")
        assert stored() == ["shop.greet"]
        raise RuntimeError
    with transaction.atomic():
        async_to_sync(greet.using(priority=3).aenqueue)(name="kept")
        assert heard(listener) == []

    assert stored() == ["shop.greet"]
    assert heard(listener) == ["default"]
