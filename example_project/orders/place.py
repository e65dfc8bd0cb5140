"""Placing an order: the order and the job that fulfils it, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from .jobs import fulfil
from .models import Order, OrderLine, Product


class ProductUnknown(Exception):
    """The basket holds something that the shop does not sell; no order was placed."""

    def __init__(self, sku: str) -> None:
        super().__init__(f"There is no product '{sku}'.")


def place_order(customer: str, basket: Mapping[str, int]) -> Order:
    """Save an order and enqueue its fulfilment: both, or neither.

    Args:
        basket: Quantity by SKU.

    Raises:
        ProductUnknown: A SKU that no product has.
    """
    with transaction.atomic():
        products = Product.objects.in_bulk(list(basket), field_name="sku")
        for sku in basket:
            if sku not in products:
                raise ProductUnknown(sku)
        lines = [
            OrderLine(product=products[sku], quantity=quantity, price=products[sku].price)
            for sku, quantity in basket.items()
        ]
        order = Order.objects.create(
            customer=customer, total=sum(line.price * line.quantity for line in lines)
        )
        for line in lines:
            line.order = order
        OrderLine.objects.bulk_create(lines)
        order.job_id = fulfil.enqueue(order_id=order.pk).id
        order.save(update_fields=["job_id"])
    return order
