"""``x_job_waits``: the further events of waits for any of several."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from .job import Job


class JobWait(models.Model):
    """One more event that ends an open wait; the first one stands on the step itself.

    Written with the waiting step, and deleted by the statement that ends the wait.
    """

    pk = models.CompositePrimaryKey("job", "step", "place")
    job = models.ForeignKey(
        Job,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
        verbose_name=_("job"),
    )
    step = models.TextField(_("step"))
    place = models.IntegerField(_("place"))
    event = models.TextField(_("event"))
    correlation_key = models.TextField(_("correlation key"), null=True, blank=True)

    class Meta:
        db_table = "x_job_waits"
        verbose_name = _("open wait")
        verbose_name_plural = _("open waits")
        default_permissions = ()
        indexes = [
            models.Index("event", "correlation_key", "job_id", name="x_job_waits_event_idx"),
        ]

    def __str__(self) -> str:
        return f"{self.step}: {self.event}"
