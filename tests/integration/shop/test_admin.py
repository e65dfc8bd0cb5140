"""The shop's admin leads to the jobs of its orders."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_durable_jobs.models import JobEvent
from example_project.orders.catalogue import fill_shelves
from example_project.orders.place import ProductUnknown, place_order

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("ann"))
    return client


def test_the_list_of_orders_links_to_each_orders_job(operator):
    fill_shelves()
    order = place_order("Ada", {"TEA": 1})

    page = operator.get("/admin/orders/order/").content.decode()

    (address,) = re.findall(r'href="([^"]+)">fulfilment<', page)
    assert str(order.job_id) in address
    assert operator.get(address).status_code == 200


def test_an_order_that_is_approved_on_the_list_is_approved_once(operator):
    fill_shelves()
    order = place_order("Ada", {"TEA": 1})
    chosen = {"action": "approve_selected", "_selected_action": [order.pk]}

    first = operator.post("/admin/orders/order/", chosen, follow=True)
    second = operator.post("/admin/orders/order/", chosen, follow=True)

    order.refresh_from_db()
    assert order.approved_by == "ann"
    assert "Orders approved: 1." in first.content.decode()
    assert "Orders approved: 0." in second.content.decode()
    assert JobEvent.objects.filter(name="order.approved", correlation_key=order.number).count() == 1


def test_an_orders_page_shows_its_lines(operator):
    fill_shelves()
    order = place_order("Ada", {"TEA": 2})

    page = operator.get(f"/admin/orders/order/{order.pk}/change/")

    assert page.status_code == 200
    assert "Tea, 100 g" in page.content.decode()


def test_the_gateways_books_can_be_read_and_not_written(operator):
    assert operator.get("/admin/payments/gatewaycall/").status_code == 200
    assert operator.get("/admin/payments/gatewaycall/add/").status_code == 403


def test_an_order_of_something_unknown_is_refused_whole():
    with pytest.raises(ProductUnknown, match=r"^There is no product 'GIN'\.$"):
        place_order("Ada", {"GIN": 1})
