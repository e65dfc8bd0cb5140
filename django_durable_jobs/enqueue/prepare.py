"""Decide everything about a row, and store nothing."""

from __future__ import annotations

from typing import Protocol

from django_durable_jobs.conf import settings
from django_durable_jobs.payloads import preview
from django_durable_jobs.policies.retry import Retry
from django_durable_jobs.steps import current_job_id
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import NewJob

from .options import Options


class EnqueueableJob(Protocol):
    """A declaration as the enqueue sees it."""

    @property
    def name(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def retry(self) -> Retry: ...

    @property
    def version(self) -> str: ...

    def key_for(self, text: str) -> str | None:
        """The declared idempotency key of an encoded input."""
        ...

    def tenant_for_input(self, text: str) -> str:
        """The declared tenant of an encoded input, "" for none."""
        ...


def prepare(job: EnqueueableJob, text: str, options: Options) -> NewJob:
    """The row for one call of *job* with the encoded input *text*; stored by nobody yet.

    Raises:
        OptionInvalid: The declared key or tenant of this input cannot be stored.
    """
    key = options.idempotency_key
    parent = current_job_id()
    return NewJob(
        id=new_id(),
        name=job.name,
        queue=options.queue or job.queue,
        input=text,
        input_preview=preview(text, redact=settings.REDACT),
        max_attempts=options.max_attempts or job.retry.attempts,
        priority=job.priority if options.priority is None else options.priority,
        delay=options.delay,
        run_at=options.run_at,
        tenant_id=(job.tenant_for_input(text) if options.tenant_id is None else options.tenant_id),
        idempotency_key=job.key_for(text) if key is None else key,
        enqueued_by=options.enqueued_by,
        origin="" if parent is None else "job",
        origin_id="" if parent is None else str(parent),
        code_version=job.version,
    )
