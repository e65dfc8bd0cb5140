"""The life of an order, each way it can end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_durable_jobs import clock
from django_durable_jobs.models import Job
from django_durable_jobs.testing import run_jobs
from example_project.orders.approve import approve
from example_project.orders.catalogue import STOCK, fill_shelves
from example_project.orders.jobs import fulfil
from example_project.orders.models import Order, Payment, Product, Shipment
from example_project.orders.place import place_order
from example_project.payments.models import Charge

# The gateway's books are kept on a connection of its own, so what it reads must be committed.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def shop(settings):
    settings.SHOP = {"GATEWAY_FAILS_EVERY": 10**9, "COOL_OFF": "1h", "PACKING_TIME": "10m"}
    fill_shelves()
    yield
    clock.reset()


def later(**time: int) -> None:
    clock.move(timedelta(**time))
    run_jobs()


def status(order: Order) -> str:
    order.refresh_from_db()
    return order.status


def answer(order: Order) -> str | None:
    assert order.job_id is not None
    return fulfil.get_result(order.job_id).return_value


def test_an_order_is_charged_recorded_approved_and_shipped():
    order = place_order("Ada", {"TEA": 2, "CUP": 1})
    run_jobs()
    assert (Charge.objects.count(), Payment.objects.count()) == (1, 1)
    assert Product.objects.get(sku="TEA").stock == STOCK - 2
    assert status(order) == Order.Status.PAID

    later(hours=1)
    assert status(order) == Order.Status.PAID

    assert approve([order], by="Rosalind") == 1
    run_jobs()
    assert Job.objects.get(name="orders.ship_order").parent_id == order.job_id
    assert status(order) == Order.Status.PAID

    later(minutes=10)
    assert status(order) == Order.Status.SHIPPED
    shipment = Shipment.objects.get()
    assert shipment.approved_by == "Rosalind"
    assert answer(order) == f"shipped 3 pieces as shipment {shipment.pk}"
    assert Charge.objects.count() == 1


def test_an_approval_that_comes_while_the_order_cools_off_counts():
    order = place_order("Ada", {"TEA": 1})
    run_jobs()
    approve([order], by="Rosalind")

    later(hours=1)
    later(minutes=10)

    assert status(order) == Order.Status.SHIPPED


def test_an_order_that_nobody_approves_is_put_on_hold():
    order = place_order("Ada", {"TEA": 1})
    run_jobs()
    later(hours=1)

    later(days=3)

    assert status(order) == Order.Status.ON_HOLD
    assert answer(order) == "on hold"
    assert not Shipment.objects.exists()
