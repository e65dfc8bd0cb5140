"""``x_jobs``: one row per job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from django_durable_jobs import states

NEVER: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""Due time of what no clock makes due; the statements write the same instant."""


class Job(models.Model):
    """A unit of background work, from its enqueue to its retention.

    Written only by the store's statements; the model is for reading and for migrations.
    Rows due later carry ``is_armed = false`` and stand outside the claim index. The lease
    stands in no index, so that a renewal stays a heap-only update.
    """

    class State(models.TextChoices):
        READY = states.READY, _("ready")
        DELAYED = states.DELAYED, _("delayed")
        RUNNING = states.RUNNING, _("running")
        SUSPENDED = states.SUSPENDED, _("suspended")
        DONE = states.DONE, _("done")
        FAILED = states.FAILED, _("failed")
        DEAD = states.DEAD, _("dead")
        CANCELLED = states.CANCELLED, _("cancelled")

    id = models.UUIDField(_("id"), primary_key=True)
    name = models.TextField(_("name"))
    queue = models.TextField(_("queue"), db_default="default")
    state = models.TextField(_("state"), choices=State.choices, db_default=states.READY)
    priority = models.SmallIntegerField(_("priority"), db_default=0)
    tenant_id = models.TextField(_("tenant"), db_default="", blank=True)
    concurrency_key = models.TextField(_("concurrency key"), db_default="", blank=True)
    idempotency_key = models.TextField(_("idempotency key"), null=True, blank=True)
    run_at = models.DateTimeField(_("due"), db_default=Now())
    is_armed = models.BooleanField(_("armed"), db_default=True)

    attempt = models.IntegerField(_("attempt"), db_default=0)
    max_attempts = models.IntegerField(_("attempts at most"), db_default=1)
    claims = models.BigIntegerField(_("claims"), db_default=0)
    worker_id = models.TextField(_("worker"), null=True, blank=True)
    lease_expires_at = models.DateTimeField(_("lease until"), null=True, blank=True)
    unknown_since = models.DateTimeField(_("name unknown since"), null=True, blank=True)
    cancel_requested_at = models.DateTimeField(_("cancel requested"), null=True, blank=True)

    input = models.JSONField(_("input"), db_default=models.Value({}, models.JSONField()))
    input_preview = models.TextField(_("input, in short"), db_default="", blank=True)
    result = models.JSONField(_("result"), null=True, blank=True)
    progress = models.JSONField(_("progress"), null=True, blank=True)

    last_error = models.TextField(_("last error"), db_default="", blank=True)
    error_code = models.TextField(_("error code"), db_default="", blank=True)
    error_class = models.TextField(_("error class"), db_default="", blank=True)
    error_fingerprint = models.TextField(_("error fingerprint"), db_default="", blank=True)
    stop_reason = models.TextField(_("stop reason"), db_default="", blank=True)

    enqueued_by = models.TextField(_("enqueued by"), db_default="", blank=True)
    trace_parent = models.TextField(_("trace parent"), db_default="", blank=True)
    origin = models.TextField(_("origin"), db_default="", blank=True)
    origin_id = models.TextField(_("origin id"), db_default="", blank=True)
    subject_type = models.TextField(_("subject type"), db_default="", blank=True)
    subject_id = models.TextField(_("subject id"), db_default="", blank=True)
    parent_id = models.UUIDField(_("parent"), null=True, blank=True)
    parent_step = models.TextField(_("step of the parent"), db_default="", blank=True)
    family_id = models.UUIDField(_("family"), null=True, blank=True)
    root_id = models.UUIDField(_("root"), null=True, blank=True)
    forked_from_id = models.UUIDField(_("forked from"), null=True, blank=True)
    forked_from_step = models.TextField(_("forked from step"), db_default="", blank=True)
    rerun_of_id = models.UUIDField(_("rerun of"), null=True, blank=True)
    bulk_id = models.UUIDField(_("bulk operation"), null=True, blank=True)
    code_version = models.TextField(_("code version"), db_default="", blank=True)
    awaited_version = models.TextField(_("waits for version"), db_default="", blank=True)
    replay_warning = models.TextField(_("replay warning"), db_default="", blank=True)
    generation = models.IntegerField(_("generation"), db_default=0)
    mark = models.TextField(_("snapshot"), null=True, blank=True)

    created_at = models.DateTimeField(_("enqueued"), db_default=Now())
    started_at = models.DateTimeField(_("started"), null=True, blank=True)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    class Meta:
        db_table = "x_jobs"
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        default_permissions = ("view",)
        permissions = [
            ("retry_job", _("Can retry a finished job")),
            ("cancel_job", _("Can cancel a live job")),
            ("view_job_payload", _("Can see a job's input and result")),
        ]
        constraints = [
            models.CheckConstraint(
                name="x_jobs_state_check", condition=Q(state__in=list(states.STATES))
            ),
            models.UniqueConstraint(
                "name",
                "tenant_id",
                "idempotency_key",
                name="x_jobs_live_key",
                condition=Q(
                    idempotency_key__isnull=False,
                    state__in=list(states.LIVE_STATES),
                ),
            ),
        ]
        indexes = [
            # The claim: the most wanted lane is one range, in the order it is taken.
            models.Index(
                "queue",
                -F("priority"),
                "tenant_id",
                "concurrency_key",
                "run_at",
                "id",
                name="x_jobs_claim_idx",
                condition=Q(is_armed=True),
            ),
            models.Index(
                "run_at",
                name="x_jobs_due_idx",
                condition=Q(
                    is_armed=False,
                    state__in=[states.READY, states.DELAYED, states.SUSPENDED],
                ),
            ),
            # By id, so that the dead entries of finished runs never share a key.
            models.Index("id", name="x_jobs_running_idx", condition=Q(state=states.RUNNING)),
            models.Index(
                "state",
                "finished_at",
                name="x_jobs_finished_idx",
                condition=Q(state__in=list(states.FINISHED_STATES)),
            ),
            models.Index(
                "state",
                F("id").desc(),
                name="x_jobs_unhappy_idx",
                condition=Q(state__in=[states.FAILED, states.DEAD, states.CANCELLED]),
            ),
            models.Index(
                "parent_id", name="x_jobs_parent_idx", condition=Q(parent_id__isnull=False)
            ),
            # Whether a fan-out has a child left, without the finished ones.
            models.Index(
                "family_id",
                "id",
                name="x_jobs_live_children_idx",
                condition=Q(family_id__isnull=False, state__in=list(states.LIVE_STATES)),
            ),
            # Which child starts next. Held is what waits for the end of a sibling alone.
            models.Index(
                "family_id",
                "id",
                name="x_jobs_held_children_idx",
                condition=Q(state=states.DELAYED, run_at=NEVER),
            ),
            models.Index(
                "name",
                "awaited_version",
                name="x_jobs_version_idx",
                condition=~Q(awaited_version=""),
            ),
            models.Index(
                "subject_type",
                "subject_id",
                name="x_jobs_subject_idx",
                condition=~Q(subject_type=""),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.pk}"
