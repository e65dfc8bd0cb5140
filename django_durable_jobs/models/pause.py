"""``x_job_pauses``: what a person has stopped for now."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class JobPause(models.Model):
    """A paused queue (later also jobs and schedules); read by the claim itself."""

    pk = models.CompositePrimaryKey("kind", "name")
    kind = models.TextField(_("kind"), db_default="queue")
    name = models.TextField(_("name"))
    paused_at = models.DateTimeField(_("paused"), db_default=Now())
    paused_by = models.TextField(_("by"), db_default="", blank=True)
    reason = models.TextField(_("reason"), db_default="", blank=True)

    class Meta:
        db_table = "x_job_pauses"
        verbose_name = _("pause")
        verbose_name_plural = _("pauses")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
