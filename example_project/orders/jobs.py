"""The life of an order as one durable job, and its shipment as a job of its own.

Read it from top to bottom, as if nothing could go wrong: a step that has finished is not run
again, whatever happens to the worker after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db.models import F

from django_durable_jobs import JobContext, Retry, job
from example_project.payments import gateway

from .models import Order, Payment, Product, Shipment, StockMovement

PATIENT: Final = Retry(attempts=25, delay="500ms", max_delay="5s")


@dataclass(frozen=True)
class Parcel:
    """What left the house."""

    shipment_id: int
    pieces: int


@job(retry=PATIENT, idempotency_key=lambda inputs: f"order:{inputs.order_id}")
def fulfil(ctx: JobContext, order_id: int) -> str:
    """Charge the customer, book it, let it cool off, wait for the approval, have it shipped."""
    order = Order.objects.get(pk=order_id)

    # Outside the database a step can happen twice (killed between the effect and its
    # checkpoint), so the gateway is told by the same key that it is the same charge.
    reference = ctx.step.run("charge", gateway.charge, f"order-{order.number}", order.total)

    # Inside the database a step happens once: its rows and its checkpoint commit together.
    ctx.step.atomic("record", record, order_id, reference)

    # While an order sleeps or waits, no worker is busy with it.
    ctx.step.sleep("cool off", time_of("COOL_OFF"))

    # Since the run began: somebody may approve it while it cools off.
    approval = ctx.step.wait_for_event(
        "approval", event="order.approved", key=order.number, timeout="3d", since="run"
    )
    if approval is None:
        ctx.step.atomic("put on hold", put_on_hold, order_id)
        return "on hold"

    # A job of its own, with its own steps and attempts. This one is parked until it has finished.
    parcel = ctx.step.call("ship", ship_order, order_id, approved_by=approval.payload["by"])
    return f"shipped {parcel.pieces} pieces as shipment {parcel.shipment_id}"


@job(retry=PATIENT)
def ship_order(ctx: JobContext, order_id: int, approved_by: str) -> Parcel:
    """Pick and pack what was ordered, and hand it to the carrier."""
    ctx.step.sleep("pick and pack", time_of("PACKING_TIME"))
    return ctx.step.atomic("hand over", hand_over, order_id, approved_by)


def record(order_id: int, reference: str) -> None:
    """Book the payment, and take the goods from stock."""
    order = Order.objects.get(pk=order_id)
    Payment.objects.create(order=order, reference=reference, amount=order.total)
    # By product: two orders of the same goods take their row locks in the same order.
    for line in order.lines.order_by("product_id"):
        Product.objects.filter(pk=line.product_id).update(stock=F("stock") - line.quantity)
        StockMovement.objects.create(
            order=order, product_id=line.product_id, quantity=-line.quantity
        )
    _move(order_id, Order.Status.PAID)


def put_on_hold(order_id: int) -> None:
    _move(order_id, Order.Status.ON_HOLD)


def hand_over(order_id: int, approved_by: str) -> Parcel:
    order = Order.objects.get(pk=order_id)
    shipment = Shipment.objects.create(order=order, approved_by=approved_by)
    _move(order_id, Order.Status.SHIPPED)
    return Parcel(shipment.pk, pieces=sum(line.quantity for line in order.lines.all()))


def time_of(what: str) -> str:
    """How long *what* takes in this shop."""
    shop: dict[str, str] = getattr(settings, "SHOP", {})
    return shop.get(what, "2s")


def _move(order_id: int, status: Order.Status) -> None:
    Order.objects.filter(pk=order_id).update(status=status)
