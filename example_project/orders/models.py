"""The shop's own tables.

Payments, stock movements and shipments have no unique constraint on purpose: a step that took
effect twice would show as two rows, and nothing but the step's own promise prevents it.
"""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Product(models.Model):
    sku = models.CharField(max_length=20, unique=True)
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.IntegerField(default=0)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    class Status(models.TextChoices):
        PLACED = "placed"
        PAID = "paid"
        SHIPPED = "shipped"
        ON_HOLD = "on hold"

    customer = models.CharField(max_length=100)
    total = models.DecimalField(max_digits=10, decimal_places=2)
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.PLACED)
    placed_at = models.DateTimeField(db_default=Now())
    approved_by = models.CharField(max_length=100, blank=True, db_default="")
    # No foreign key: finished jobs are purged after a while, orders are not.
    job_id = models.UUIDField(null=True, editable=False)

    def __str__(self) -> str:
        return f"{self.number} of {self.customer}"

    @property
    def number(self) -> str:
        return f"S{self.pk:05}"


class OrderLine(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    quantity = models.PositiveIntegerField()
    price = models.DecimalField(max_digits=8, decimal_places=2)

    def __str__(self) -> str:
        return f"{self.quantity} of {self.product}"


class Payment(models.Model):
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="payments")
    reference = models.CharField(max_length=100)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    recorded_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.reference


class StockMovement(models.Model):
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="stock_movements")
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    quantity = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.quantity:+} {self.product}"


class Shipment(models.Model):
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="shipments")
    approved_by = models.CharField(max_length=100)
    shipped_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.order.number}, approved by {self.approved_by}"
