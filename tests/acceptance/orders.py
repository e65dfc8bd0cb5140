"""Orders of the shop, and what must hold of them however often their workers were killed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Min, Sum

from django_durable_jobs import states
from django_durable_jobs.models import Job, JobStep
from example_project.orders.approve import approve
from example_project.orders.catalogue import CATALOGUE, STOCK, fill_shelves
from example_project.orders.models import (
    Order,
    OrderLine,
    Payment,
    Product,
    Shipment,
    StockMovement,
)
from example_project.orders.place import place_order
from example_project.payments.models import Charge, GatewayCall


def place_orders(count: int, rng: random.Random) -> list[Order]:
    fill_shelves()
    return [place_order("Ada", _basket(rng)) for _ in range(count)]


def approve_some(rng: random.Random) -> None:
    """Approve a tenth of the orders that can be: some cool off yet, others wait already."""
    paid = Order.objects.filter(status=Order.Status.PAID, approved_by="")
    approve([order for order in paid if rng.random() < 0.1], by="Rosalind")


def job_ids(orders: Sequence[Order]) -> list[UUID]:
    """The jobs of the orders, and those of their shipments."""
    own = [order.job_id for order in orders if order.job_id]
    return [*own, *Job.objects.filter(parent_id__in=own).values_list("pk", flat=True)]


def finished(orders: Sequence[Order]) -> int:
    own = [order.job_id for order in orders if order.job_id]
    return Job.objects.filter(pk__in=own, state__in=states.FINISHED_STATES).count()


def whereabouts() -> str:
    """Where the jobs that are not finished stand, for the message of a test that failed."""
    jobs = Job.objects.exclude(state__in=states.FINISHED_STATES).prefetch_related("steps")
    lines = [
        f"{job.pk} {job.state}, attempt {job.attempt}, claim {job.claims} by {job.worker_id}, "
        f"due {job.run_at:%T}, armed {job.is_armed}, lease {job.lease_expires_at}: "
        + ", ".join(f"{step.name} {step.status}" for step in job.steps.all())
        for job in jobs
    ]
    return "\n".join([f"{len(lines)} jobs are not finished", *lines])


def broken_promises(orders: Sequence[Order]) -> list[str]:
    """A sentence for each thing that is not as it must be, none if all is well."""
    return [
        *jobs_not_done(orders),
        *shipments_amiss(orders),
        *charges_amiss(orders),
        *rows_amiss(orders),
        *calls_after_the_checkpoint(orders),
    ]


def jobs_not_done(orders: Sequence[Order]) -> list[str]:
    jobs = Job.objects.in_bulk([order.job_id for order in orders if order.job_id])
    return [
        f"{order.number}: its job is {jobs[order.job_id].state}, not done: "
        f"{jobs[order.job_id].last_error}"
        for order in orders
        if order.job_id is not None and jobs[order.job_id].state != "done"
    ]


def shipments_amiss(orders: Sequence[Order]) -> list[str]:
    """Each order's job started one other, which is done, and got what that one answered."""
    own = [order.job_id for order in orders if order.job_id]
    children: dict[UUID | None, list[Job]] = {}
    for child in Job.objects.filter(parent_id__in=own):
        children.setdefault(child.parent_id, []).append(child)
    answers = dict(Job.objects.filter(pk__in=own).values_list("pk", "result"))
    shipped = dict(Shipment.objects.values_list("order_id", "pk"))
    pieces = dict(OrderLine.objects.values_list("order_id").annotate(Sum("quantity")))
    amiss = []
    for order in orders:
        found = [f"{child.name} {child.state}" for child in children.get(order.job_id, [])]
        if found != ["orders.ship_order done"]:
            amiss.append(f"{order.number}: its children are {found}, not one shipment that is done")
        answer = f"shipped {pieces[order.pk]} pieces as shipment {shipped.get(order.pk)}"
        if order.job_id is not None and answers[order.job_id] != answer:
            amiss.append(f"{order.number}: answered {answers[order.job_id]!r}, not {answer!r}")
    return amiss


def charges_amiss(orders: Sequence[Order]) -> list[str]:
    """Each order is charged once, its total, and nothing else is charged."""
    wanted = Counter((_key(order), order.total) for order in orders)
    found = Counter(Charge.objects.values_list("key", "amount"))
    return [
        f"{key}: charged {found[key, amount]} times {amount}, not {wanted[key, amount]} times"
        for key, amount in sorted(wanted.keys() | found.keys())
        if wanted[key, amount] != found[key, amount]
    ]


def rows_amiss(orders: Sequence[Order]) -> list[str]:
    """What atomic steps wrote stands there once, and the stock is what it must then be."""
    payments = Counter(Payment.objects.values_list("order_id", flat=True))
    shipments = Counter(Shipment.objects.values_list("order_id", flat=True))
    moved = Counter(StockMovement.objects.values_list("order_id", "product_id", "quantity"))
    lines = Counter(
        (order_id, product_id, -quantity)
        for order_id, product_id, quantity in OrderLine.objects.values_list(
            "order_id", "product_id", "quantity"
        )
    )
    amiss = [
        f"{order.number}: {rows[order.pk]} {name} rows, not 1"
        for order in orders
        for name, rows in (("payment", payments), ("shipment", shipments))
        if rows[order.pk] != 1
    ]
    amiss += [f"stock movements {moved - lines} too many" for _ in [1] if moved - lines]
    amiss += [f"stock movements {lines - moved} missing" for _ in [1] if lines - moved]
    for product in Product.objects.annotate(sold=Sum("orderline__quantity")):
        if product.stock != STOCK - (product.sold or 0):
            amiss.append(f"{product}: {product.stock} in stock after {product.sold} were sold")
    return amiss


def calls_after_the_checkpoint(orders: Sequence[Order]) -> list[str]:
    """The gateway hears nothing more of an order whose charge is a finished step.

    Payments are written by the next step, and nothing renews their time; so a worker that
    stores a checkpoint twice, with a later time, is found out all the same.
    """
    stored = dict(
        JobStep.objects.filter(name="charge", status="done").values_list("job_id", "finished_at")
    )
    paid = dict(Payment.objects.values_list("order_id").annotate(Min("recorded_at")))
    by_key: dict[str, list[datetime]] = {}
    for key, at in GatewayCall.objects.values_list("key", "at"):
        by_key.setdefault(key, []).append(at)
    amiss = []
    for order in orders:
        moments = (stored.get(order.job_id) if order.job_id else None, paid.get(order.pk))
        times = [at for at in moments if at is not None]
        if times and (late := [at for at in by_key.get(_key(order), []) if at > min(times)]):
            amiss.append(f"{order.number}: {len(late)} gateway calls after its checkpoint")
    return amiss


def _key(order: Order) -> str:
    return f"order-{order.number}"


def _basket(rng: random.Random) -> dict[str, int]:
    return {sku: rng.randint(1, 3) for sku in rng.sample(list(CATALOGUE), 2)}
