"""``x_job_workers``: the worker processes that are alive."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class JobWorker(models.Model):
    """A worker process; the row expires unless its supervisor renews it."""

    worker_id = models.TextField(_("worker"), primary_key=True)
    host = models.TextField(_("host"), db_default="")
    pid = models.BigIntegerField(_("process id"), db_default=0)
    queues = models.JSONField(_("queues"), db_default=models.Value([], models.JSONField()))
    slots = models.IntegerField(_("slots"), db_default=1)
    version = models.TextField(_("version"), db_default="", blank=True)
    started_at = models.DateTimeField(_("started"), db_default=Now())
    seen_at = models.DateTimeField(_("seen"), db_default=Now())
    expires_at = models.DateTimeField(_("expires"), db_default=Now())

    class Meta:
        db_table = "x_job_workers"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.worker_id
