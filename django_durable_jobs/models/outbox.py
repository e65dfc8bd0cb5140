"""``x_outbox``: jobs staged in a transaction that the jobs database cannot join."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class OutboxEntry(models.Model):
    """A job on its way to the store; ``request`` keeps all that was decided at the enqueue."""

    id = models.UUIDField(_("job id"), primary_key=True)
    name = models.TextField(_("name"))
    ordering_key = models.TextField(_("ordering key"), db_default="", blank=True)
    request = models.JSONField(_("request"))
    staged_at = models.DateTimeField(_("staged"), db_default=Now())
    claimed_until = models.DateTimeField(_("claimed until"), null=True, blank=True)
    due_at = models.DateTimeField(_("next try"), db_default=Now())
    tries = models.IntegerField(_("tries"), db_default=0)
    last_error = models.TextField(_("last error"), db_default="", blank=True)
    parked_at = models.DateTimeField(_("parked"), null=True, blank=True)

    class Meta:
        db_table = "x_outbox"
        verbose_name = _("outbox entry")
        verbose_name_plural = _("outbox")
        default_permissions = ("view",)
        indexes = [
            models.Index(
                "due_at", "id", name="x_outbox_due_idx", condition=Q(parked_at__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.pk}"
