"""The books of the payment gateway, which in a real shop lie with somebody else."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Charge(models.Model):
    """Money taken from a customer, at most once for each idempotency key."""

    key = models.CharField(max_length=100, unique=True)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.key}: {self.amount}"


class GatewayCall(models.Model):
    """One call that reached the gateway, whatever came of it."""

    class Outcome(models.TextChoices):
        RECEIVED = "received"  # and still so if the caller was killed
        CHARGED = "charged"
        REPEATED = "repeated"  # the key had been charged before
        UNAVAILABLE = "unavailable"
        ANSWER_LOST = "answer lost"  # charged, but the caller saw an error

    key = models.CharField(max_length=100, db_index=True)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    pid = models.IntegerField(verbose_name="caller's process id")
    at = models.DateTimeField(db_default=Now())
    outcome = models.CharField(max_length=20, choices=Outcome.choices, db_default=Outcome.RECEIVED)

    def __str__(self) -> str:
        return f"{self.key}: {self.outcome}"
