"""Django signals around the life of a job.

A receiver that raises is logged by Django and harms neither the enqueue nor the run.
"""

from django.dispatch import Signal

job_enqueued = Signal()
"""Sent after a row was written; ``job_name``, ``queue``, ``job_id`` (may still roll back)."""

job_started = Signal()
"""Sent in the worker before a body runs; ``job_name``, ``queue``, ``job_id``, ``attempt``."""

job_settled = Signal()
"""Sent after a settle that landed; ``job_name``, ``queue``, ``job_id``, ``attempt``, ``state``."""
