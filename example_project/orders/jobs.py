"""The life of an order as one durable job.

Read it from top to bottom, as if nothing could go wrong: a step that has finished is not run
again, whatever happens to the worker after it.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import F

from django_durable_jobs import JobContext, Retry, job
from example_project.payments import gateway

from .models import Order, Payment, Product, Shipment, StockMovement


@job(
    retry=Retry(attempts=25, delay="500ms", max_delay="5s"),
    idempotency_key=lambda inputs: f"order:{inputs.order_id}",
)
def fulfil(ctx: JobContext, order_id: int) -> str:
    """Charge the customer, take the goods from stock, wait for the picker, pack, ship."""
    order = Order.objects.get(pk=order_id)

    # Outside the database a step can happen twice (killed between the effect and its
    # checkpoint), so the gateway is told by the same key that it is the same charge.
    reference = ctx.step.run("charge", gateway.charge, f"order-{order.number}", order.total)

    # Inside the database a step happens once: its rows and its checkpoint commit together.
    ctx.step.atomic("record payment", record_payment, order_id, reference)
    ctx.step.atomic("reserve stock", reserve_stock, order_id)

    # While an order waits or sleeps, no worker is busy with it.
    picked = ctx.step.wait_for_event("picked", event="order.picked", key=order.number, timeout="1d")
    if picked is None:
        ctx.step.atomic("put on hold", put_on_hold, order_id)
        return "on hold"
    ctx.step.atomic("record picking", record_picking, order_id)
    ctx.step.sleep("packing", packing_time())

    ctx.step.atomic("ship", ship, order_id, picked.payload["by"])
    return "shipped"


def record_payment(order_id: int, reference: str) -> None:
    order = Order.objects.get(pk=order_id)
    Payment.objects.create(order=order, reference=reference, amount=order.total)
    _move(order_id, Order.Status.PAID)


def reserve_stock(order_id: int) -> None:
    # By product: two orders of the same goods take their row locks in the same order.
    lines = Order.objects.get(pk=order_id).lines.order_by("product_id")
    for line in lines:
        Product.objects.filter(pk=line.product_id).update(stock=F("stock") - line.quantity)
        StockMovement.objects.create(
            order_id=order_id, product_id=line.product_id, quantity=-line.quantity
        )
    _move(order_id, Order.Status.RESERVED)


def put_on_hold(order_id: int) -> None:
    _move(order_id, Order.Status.ON_HOLD)


def record_picking(order_id: int) -> None:
    _move(order_id, Order.Status.PICKED)


def ship(order_id: int, picked_by: str) -> None:
    Shipment.objects.create(order_id=order_id, picked_by=picked_by)
    _move(order_id, Order.Status.SHIPPED)


def packing_time() -> str:
    shop: dict[str, str] = getattr(settings, "SHOP", {})
    return shop.get("PACKING_TIME", "2s")


def _move(order_id: int, status: Order.Status) -> None:
    Order.objects.filter(pk=order_id).update(status=status)
