"""The tables as Django models; one file per table."""

from .attempt import JobAttempt
from .event import JobEvent
from .job import Job
from .outbox import OutboxEntry
from .pause import JobPause
from .step import JobStep
from .wait import JobWait
from .worker import JobWorker

TABLES = (
    "x_jobs",
    "x_job_steps",
    "x_job_attempts",
    "x_job_waits",
    "x_job_events",
    "x_job_pauses",
    "x_job_workers",
    "x_outbox",
)
"""Every table that the migrations install; a test compares it with what exists."""

__all__ = [
    "TABLES",
    "Job",
    "JobAttempt",
    "JobEvent",
    "JobPause",
    "JobStep",
    "JobWait",
    "JobWorker",
    "OutboxEntry",
]
