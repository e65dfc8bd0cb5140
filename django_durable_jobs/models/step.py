"""``x_job_steps``: the checkpoints of a run."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext_lazy as _

from .job import Job


class JobStep(models.Model):
    """One named step of a job; its name is the replay key.

    No foreign key constraint: a step is written only under the fence of its running job,
    and deleted in the statement that deletes the job, so the check would cost and not hold.

    Attributes:
        is_set_aside: An open wait of a job that has ended, which no publisher need read. A
            requeue takes it up again.
    """

    class Status(models.TextChoices):
        DONE = "done", _("done")
        SLEEPING = "sleeping", _("sleeping")
        WAITING = "waiting", _("waiting")
        CALLING = "calling", _("calling")
        TIMED_OUT = "timed_out", _("timed out")
        FAILED = "failed", _("failed")

    pk = models.CompositePrimaryKey("job", "name")
    job = models.ForeignKey(
        Job,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="steps",
        verbose_name=_("job"),
    )
    name = models.TextField(_("name"))
    seq = models.IntegerField(_("place"), db_default=0)
    status = models.TextField(_("status"), choices=Status.choices, db_default="done")
    output = models.JSONField(_("output"), null=True, blank=True)
    claim = models.BigIntegerField(_("claim"), db_default=0)
    attempt = models.IntegerField(_("attempt"), db_default=0)
    event = models.TextField(_("event"), db_default="", blank=True)
    correlation_key = models.TextField(_("correlation key"), null=True, blank=True)
    wake_at = models.DateTimeField(_("wakes"), null=True, blank=True)
    mark = models.TextField(_("snapshot"), null=True, blank=True)
    alternatives = models.JSONField(_("other events"), null=True, blank=True)
    cursor_at = models.DateTimeField(_("refused up to"), null=True, blank=True)
    cursor_id = models.UUIDField(_("last refused event"), null=True, blank=True)
    cursor_mark = models.TextField(_("snapshot of the refusal"), null=True, blank=True)
    refused = models.JSONField(_("refused events"), null=True, blank=True)
    is_set_aside = models.BooleanField(_("set aside"), db_default=False)
    family_id = models.UUIDField(_("family"), null=True, blank=True)
    children = models.IntegerField(_("children"), null=True, blank=True)
    children_at_once = models.IntegerField(_("children at once"), null=True, blank=True)
    started_at = models.DateTimeField(_("started"), db_default=Now())
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    class Meta:
        db_table = "x_job_steps"
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        default_permissions = ("view",)
        indexes = [
            # By an expression, of which the planner keeps figures for the open waits alone. Those
            # of the column count every step without a key, and it would read the whole table.
            models.Index(
                "event",
                Coalesce("correlation_key", models.Value("")),
                "job_id",
                name="x_job_steps_waiting_idx",
                condition=Q(status="waiting", is_set_aside=False),
            ),
            models.Index(
                "job_id",
                name="x_job_steps_calling_idx",
                condition=Q(status="calling"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.name}"
