"""Views that enqueue, and their URLs."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from django_durable_jobs.jobs import get_job


def _job():
    job = get_job("shop.greet")
    assert job is not None
    return job


def place(request: HttpRequest) -> HttpResponse:
    Group.objects.create(name="ann")
    _job().enqueue(name="Ann")
    if "raise" in request.GET:
        raise RuntimeError("The view failed.")
    return HttpResponse("placed")


@transaction.non_atomic_requests
async def place_async(request: HttpRequest) -> HttpResponse:
    result = await _job().aenqueue(name="Ann")
    if "raise" in request.GET:
        raise RuntimeError("The view failed.")
    return HttpResponse(str(result.id))


@transaction.non_atomic_requests
async def place_async_in_a_block(request: HttpRequest) -> HttpResponse:
    def act() -> None:
        with transaction.atomic():
            Group.objects.create(name="ann")
            _job().enqueue(name="Ann")
            if "raise" in request.GET:
                raise RuntimeError("The block failed.")

    await sync_to_async(act)()
    return HttpResponse("placed")


urlpatterns = [
    path("place/", place),
    path("place-async/", place_async),
    path("place-async-in-a-block/", place_async_in_a_block),
]
