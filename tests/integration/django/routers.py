"""Routers as projects write them."""

from __future__ import annotations

from typing import Any


class ReadsJobsFromOther:
    """Sends the reads of jobs to a replica, which may lag behind."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model._meta.app_label == "durable_jobs" else None

    def allow_relation(self, first: Any, second: Any, **hints: Any) -> bool:
        return True


class JobsOnOther:
    """Keeps the jobs in a database of their own."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model._meta.app_label == "durable_jobs" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return db == "other" if app_label == "durable_jobs" else None


class NoJobsOnOther:
    """A replica, to which the migrations of jobs are none of its business."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return db != "other" if app_label == "durable_jobs" else None
