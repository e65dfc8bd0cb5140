"""``x_job_attempts``: the tries that did not end done."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from .job import Job


class JobAttempt(models.Model):
    """One failed, lapsed or buried attempt, written by the statement that ended it."""

    pk = models.CompositePrimaryKey("job", "claim")
    job = models.ForeignKey(
        Job,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="attempt_history",
        verbose_name=_("job"),
    )
    claim = models.BigIntegerField(_("claim"))
    attempt = models.IntegerField(_("attempt"), db_default=0)
    outcome = models.TextField(_("outcome"), db_default="")
    error_code = models.TextField(_("error code"), db_default="", blank=True)
    error_class = models.TextField(_("error class"), db_default="", blank=True)
    message = models.TextField(_("message"), db_default="", blank=True)
    traceback = models.TextField(_("traceback"), db_default="", blank=True)
    error_fingerprint = models.TextField(_("error fingerprint"), db_default="", blank=True)
    worker_id = models.TextField(_("worker"), db_default="", blank=True)
    steps = models.JSONField(_("steps taken back"), null=True, blank=True)
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    finished_at = models.DateTimeField(_("finished"), db_default=Now())

    class Meta:
        db_table = "x_job_attempts"
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.attempt} {self.outcome}"
