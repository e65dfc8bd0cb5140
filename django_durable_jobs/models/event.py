"""``x_job_events``: what was published, until it expires."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Xid8Field(models.TextField):  # type: ignore[type-arg]  # generic in the stubs only
    """PostgreSQL's 8-byte transaction id, as text."""

    def db_type(self, connection: object) -> str:
        return "xid8"


class JobEvent(models.Model):
    """An event; several waits may take the same one.

    Attributes:
        xact: The publishing transaction. A wait compares it with the snapshot it began
            under, since a stamp says when a row was written and not when it could be seen.
        job_id: The one job that may take it; None for any that waits for it.
    """

    id = models.UUIDField(_("id"), primary_key=True)
    name = models.TextField(_("name"))
    payload = models.JSONField(_("payload"))
    correlation_key = models.TextField(_("correlation key"), null=True, blank=True)
    job_id = models.UUIDField(_("addressed to"), null=True, blank=True)
    published_at = models.DateTimeField(_("published"), db_default=Now())
    expires_at = models.DateTimeField(_("expires"), db_default=Now())
    xact = Xid8Field(_("transaction"), null=True, editable=False)

    class Meta:
        db_table = "x_job_events"
        verbose_name = _("event")
        verbose_name_plural = _("events")
        default_permissions = ("view",)
        indexes = [
            models.Index("name", "correlation_key", name="x_job_events_key_idx"),
            # Of those for any job: one without a key would otherwise read what is for others.
            models.Index(
                "name",
                "xact",
                name="x_job_events_xact_idx",
                condition=Q(job_id__isnull=True),
            ),
            models.Index(
                "job_id",
                "name",
                name="x_job_events_address_idx",
                condition=Q(job_id__isnull=False),
            ),
            models.Index("expires_at", name="x_job_events_expiry_idx"),
        ]

    def __str__(self) -> str:
        return self.name
