from typing import Any

import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import django_durable_jobs.models.event
from django.db import migrations, models


class OnPostgreSQL(migrations.RunSQL):
    """Skipped elsewhere: a project's other databases, and its tests on the memory driver."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="JobPause",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "kind",
                        "name",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("kind", models.TextField(db_default="queue", verbose_name="kind")),
                ("name", models.TextField(verbose_name="name")),
                (
                    "paused_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="paused"
                    ),
                ),
                ("paused_by", models.TextField(blank=True, db_default="", verbose_name="by")),
                ("reason", models.TextField(blank=True, db_default="", verbose_name="reason")),
            ],
            options={
                "verbose_name": "pause",
                "verbose_name_plural": "pauses",
                "db_table": "x_job_pauses",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="JobWorker",
            fields=[
                (
                    "worker_id",
                    models.TextField(primary_key=True, serialize=False, verbose_name="worker"),
                ),
                ("host", models.TextField(db_default="", verbose_name="host")),
                ("pid", models.BigIntegerField(db_default=0, verbose_name="process id")),
                (
                    "queues",
                    models.JSONField(
                        db_default=models.Value([], models.JSONField()), verbose_name="queues"
                    ),
                ),
                ("slots", models.IntegerField(db_default=1, verbose_name="slots")),
                ("version", models.TextField(blank=True, db_default="", verbose_name="version")),
                (
                    "started_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="started"
                    ),
                ),
                (
                    "seen_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="seen"
                    ),
                ),
                (
                    "expires_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="expires"
                    ),
                ),
            ],
            options={
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
                "db_table": "x_job_workers",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False, verbose_name="id")),
                ("name", models.TextField(verbose_name="name")),
                ("queue", models.TextField(db_default="default", verbose_name="queue")),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("ready", "ready"),
                            ("delayed", "delayed"),
                            ("running", "running"),
                            ("suspended", "suspended"),
                            ("done", "done"),
                            ("failed", "failed"),
                            ("dead", "dead"),
                            ("cancelled", "cancelled"),
                        ],
                        db_default="ready",
                        verbose_name="state",
                    ),
                ),
                ("priority", models.SmallIntegerField(db_default=0, verbose_name="priority")),
                ("tenant_id", models.TextField(blank=True, db_default="", verbose_name="tenant")),
                (
                    "concurrency_key",
                    models.TextField(blank=True, db_default="", verbose_name="concurrency key"),
                ),
                (
                    "idempotency_key",
                    models.TextField(blank=True, null=True, verbose_name="idempotency key"),
                ),
                (
                    "run_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="due"
                    ),
                ),
                ("is_armed", models.BooleanField(db_default=True, verbose_name="armed")),
                ("attempt", models.IntegerField(db_default=0, verbose_name="attempt")),
                (
                    "max_attempts",
                    models.IntegerField(db_default=1, verbose_name="attempts at most"),
                ),
                ("claims", models.BigIntegerField(db_default=0, verbose_name="claims")),
                ("worker_id", models.TextField(blank=True, null=True, verbose_name="worker")),
                (
                    "lease_expires_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="lease until"),
                ),
                (
                    "unknown_since",
                    models.DateTimeField(blank=True, null=True, verbose_name="name unknown since"),
                ),
                (
                    "cancel_requested_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="cancel requested"),
                ),
                (
                    "input",
                    models.JSONField(
                        db_default=models.Value({}, models.JSONField()), verbose_name="input"
                    ),
                ),
                (
                    "input_preview",
                    models.TextField(blank=True, db_default="", verbose_name="input, in short"),
                ),
                ("result", models.JSONField(blank=True, null=True, verbose_name="result")),
                ("progress", models.JSONField(blank=True, null=True, verbose_name="progress")),
                (
                    "last_error",
                    models.TextField(blank=True, db_default="", verbose_name="last error"),
                ),
                (
                    "error_code",
                    models.TextField(blank=True, db_default="", verbose_name="error code"),
                ),
                (
                    "error_class",
                    models.TextField(blank=True, db_default="", verbose_name="error class"),
                ),
                (
                    "error_fingerprint",
                    models.TextField(blank=True, db_default="", verbose_name="error fingerprint"),
                ),
                (
                    "stop_reason",
                    models.TextField(blank=True, db_default="", verbose_name="stop reason"),
                ),
                (
                    "enqueued_by",
                    models.TextField(blank=True, db_default="", verbose_name="enqueued by"),
                ),
                (
                    "trace_parent",
                    models.TextField(blank=True, db_default="", verbose_name="trace parent"),
                ),
                ("origin", models.TextField(blank=True, db_default="", verbose_name="origin")),
                (
                    "origin_id",
                    models.TextField(blank=True, db_default="", verbose_name="origin id"),
                ),
                (
                    "subject_type",
                    models.TextField(blank=True, db_default="", verbose_name="subject type"),
                ),
                (
                    "subject_id",
                    models.TextField(blank=True, db_default="", verbose_name="subject id"),
                ),
                ("parent_id", models.UUIDField(blank=True, null=True, verbose_name="parent")),
                ("root_id", models.UUIDField(blank=True, null=True, verbose_name="root")),
                (
                    "forked_from_id",
                    models.UUIDField(blank=True, null=True, verbose_name="forked from"),
                ),
                (
                    "forked_from_step",
                    models.TextField(blank=True, db_default="", verbose_name="forked from step"),
                ),
                ("rerun_of_id", models.UUIDField(blank=True, null=True, verbose_name="rerun of")),
                ("bulk_id", models.UUIDField(blank=True, null=True, verbose_name="bulk operation")),
                (
                    "code_version",
                    models.TextField(blank=True, db_default="", verbose_name="code version"),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="enqueued",
                    ),
                ),
                ("started_at", models.DateTimeField(blank=True, null=True, verbose_name="started")),
                (
                    "finished_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="finished"),
                ),
            ],
            options={
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
                "db_table": "x_jobs",
                "permissions": [
                    ("retry_job", "Can retry a finished job"),
                    ("cancel_job", "Can cancel a live job"),
                    ("view_job_payload", "Can see a job's input and result"),
                ],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        models.F("queue"),
                        django.db.models.expressions.CombinedExpression(
                            models.F("priority"), "*", models.Value(-1)
                        ),
                        models.F("tenant_id"),
                        models.F("concurrency_key"),
                        models.F("run_at"),
                        models.F("id"),
                        condition=models.Q(("is_armed", True)),
                        name="x_jobs_claim_idx",
                    ),
                    models.Index(
                        models.F("run_at"),
                        condition=models.Q(
                            ("is_armed", False), ("state__in", ["ready", "delayed", "suspended"])
                        ),
                        name="x_jobs_due_idx",
                    ),
                    models.Index(
                        models.F("id"),
                        condition=models.Q(("state", "running")),
                        name="x_jobs_running_idx",
                    ),
                    models.Index(
                        models.F("state"),
                        models.F("finished_at"),
                        condition=models.Q(("state__in", ["done", "failed", "dead", "cancelled"])),
                        name="x_jobs_finished_idx",
                    ),
                    models.Index(
                        models.F("state"),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("state__in", ["failed", "dead", "cancelled"])),
                        name="x_jobs_unhappy_idx",
                    ),
                    models.Index(
                        models.F("parent_id"),
                        condition=models.Q(("parent_id__isnull", False)),
                        name="x_jobs_parent_idx",
                    ),
                    models.Index(
                        models.F("subject_type"),
                        models.F("subject_id"),
                        condition=models.Q(("subject_type", ""), _negated=True),
                        name="x_jobs_subject_idx",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "ready",
                                    "delayed",
                                    "running",
                                    "suspended",
                                    "done",
                                    "failed",
                                    "dead",
                                    "cancelled",
                                ],
                            )
                        ),
                        name="x_jobs_state_check",
                    ),
                    models.UniqueConstraint(
                        models.F("name"),
                        models.F("tenant_id"),
                        models.F("idempotency_key"),
                        condition=models.Q(
                            ("idempotency_key__isnull", False),
                            ("state__in", ["ready", "delayed", "running", "suspended"]),
                        ),
                        name="x_jobs_live_key",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobAttempt",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job",
                        "claim",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("claim", models.BigIntegerField(verbose_name="claim")),
                ("attempt", models.IntegerField(db_default=0, verbose_name="attempt")),
                ("outcome", models.TextField(db_default="", verbose_name="outcome")),
                (
                    "error_code",
                    models.TextField(blank=True, db_default="", verbose_name="error code"),
                ),
                (
                    "error_class",
                    models.TextField(blank=True, db_default="", verbose_name="error class"),
                ),
                ("message", models.TextField(blank=True, db_default="", verbose_name="message")),
                (
                    "traceback",
                    models.TextField(blank=True, db_default="", verbose_name="traceback"),
                ),
                (
                    "error_fingerprint",
                    models.TextField(blank=True, db_default="", verbose_name="error fingerprint"),
                ),
                ("worker_id", models.TextField(blank=True, db_default="", verbose_name="worker")),
                ("started_at", models.DateTimeField(blank=True, null=True, verbose_name="started")),
                (
                    "finished_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="finished",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="attempt_history",
                        to="durable_jobs.job",
                        verbose_name="job",
                    ),
                ),
            ],
            options={
                "verbose_name": "attempt",
                "verbose_name_plural": "attempts",
                "db_table": "x_job_attempts",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="JobEvent",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False, verbose_name="id")),
                ("name", models.TextField(verbose_name="name")),
                ("payload", models.JSONField(verbose_name="payload")),
                (
                    "correlation_key",
                    models.TextField(blank=True, null=True, verbose_name="correlation key"),
                ),
                (
                    "published_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="published",
                    ),
                ),
                (
                    "expires_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="expires"
                    ),
                ),
                (
                    "xact",
                    django_durable_jobs.models.event.Xid8Field(
                        editable=False, null=True, verbose_name="transaction"
                    ),
                ),
            ],
            options={
                "verbose_name": "event",
                "verbose_name_plural": "events",
                "db_table": "x_job_events",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        models.F("name"), models.F("published_at"), name="x_job_events_lookup_idx"
                    ),
                    models.Index(models.F("name"), models.F("xact"), name="x_job_events_xact_idx"),
                    models.Index(models.F("expires_at"), name="x_job_events_expiry_idx"),
                ],
            },
        ),
        migrations.CreateModel(
            name="OutboxEntry",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False, verbose_name="job id")),
                ("name", models.TextField(verbose_name="name")),
                (
                    "ordering_key",
                    models.TextField(blank=True, db_default="", verbose_name="ordering key"),
                ),
                ("request", models.JSONField(verbose_name="request")),
                (
                    "staged_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="staged"
                    ),
                ),
                (
                    "claimed_until",
                    models.DateTimeField(blank=True, null=True, verbose_name="claimed until"),
                ),
                (
                    "due_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="next try",
                    ),
                ),
                ("tries", models.IntegerField(db_default=0, verbose_name="tries")),
                (
                    "last_error",
                    models.TextField(blank=True, db_default="", verbose_name="last error"),
                ),
                ("parked_at", models.DateTimeField(blank=True, null=True, verbose_name="parked")),
            ],
            options={
                "verbose_name": "outbox entry",
                "verbose_name_plural": "outbox",
                "db_table": "x_outbox",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        models.F("due_at"),
                        models.F("id"),
                        condition=models.Q(("parked_at__isnull", True)),
                        name="x_outbox_due_idx",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="JobStep",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job", "name", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.TextField(verbose_name="name")),
                ("seq", models.IntegerField(db_default=0, verbose_name="place")),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("done", "done"),
                            ("sleeping", "sleeping"),
                            ("waiting", "waiting"),
                            ("timed_out", "timed out"),
                        ],
                        db_default="done",
                        verbose_name="status",
                    ),
                ),
                ("output", models.JSONField(blank=True, null=True, verbose_name="output")),
                ("claim", models.BigIntegerField(db_default=0, verbose_name="claim")),
                ("attempt", models.IntegerField(db_default=0, verbose_name="attempt")),
                ("event", models.TextField(blank=True, db_default="", verbose_name="event")),
                (
                    "correlation_key",
                    models.TextField(blank=True, null=True, verbose_name="correlation key"),
                ),
                ("wake_at", models.DateTimeField(blank=True, null=True, verbose_name="wakes")),
                ("mark", models.TextField(blank=True, null=True, verbose_name="snapshot")),
                (
                    "started_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="started"
                    ),
                ),
                (
                    "finished_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="finished"),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="steps",
                        to="durable_jobs.job",
                        verbose_name="job",
                    ),
                ),
            ],
            options={
                "verbose_name": "step",
                "verbose_name_plural": "steps",
                "db_table": "x_job_steps",
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        models.F("event"),
                        models.F("correlation_key"),
                        models.F("job_id"),
                        condition=models.Q(("status", "waiting")),
                        name="x_job_steps_waiting_idx",
                    )
                ],
            },
        ),
        # Room on each page for the next version of a row, so that a lease renewal stays on its
        # page; and vacuum by count, since a queue's table is small but never at rest.
        OnPostgreSQL(
            sql="""
                ALTER TABLE x_jobs SET (
                    fillfactor = 80,
                    autovacuum_vacuum_scale_factor = 0.02,
                    autovacuum_vacuum_threshold = 1000,
                    autovacuum_analyze_scale_factor = 0.05
                )
            """,
            reverse_sql=migrations.RunSQL.noop,
        ),
    ]
