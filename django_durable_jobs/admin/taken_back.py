"""The steps that a requeue took back, as the attempts that ran them keep them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db import connections
from django.utils.safestring import SafeString

from django_durable_jobs.conf import settings
from django_durable_jobs.models import Job
from django_durable_jobs.payloads import preview

from .badges import step_badge
from .timeline import OUTPUT_SHOWN

SHOWN: Final = 200
"""Steps of all attempts together."""

# The database cuts the outputs: together they may be as large as all payloads of the job.
_READ: Final = """
    SELECT a.claim, step.copy ->> 'seq', step.copy ->> 'name', step.copy ->> 'status',
           CASE WHEN %s THEN left((step.copy -> 'output')::text, %s) END
      FROM x_job_attempts a
     CROSS JOIN LATERAL jsonb_array_elements(a.steps) WITH ORDINALITY AS step (copy, place)
     WHERE a.job_id = %s AND a.steps IS NOT NULL
     ORDER BY a.claim DESC, step.place
     LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A step that was stored and is no more."""

    seq: str
    name: str
    badge: SafeString
    output: str | None


def read_taken_back(job: Job, *, with_output: bool) -> dict[int, list[TakenBack]]:
    """Return up to ``SHOWN`` steps that were taken back, by claim; one statement."""
    found: dict[int, list[TakenBack]] = {}
    with connections[settings.DATABASE].cursor() as cursor:
        cursor.execute(_READ, [with_output, OUTPUT_SHOWN + 1, job.pk, SHOWN])
        for claim, seq, name, status, output in cursor.fetchall():
            shown = None
            if output is not None and output != "null":
                shown = preview(output, OUTPUT_SHOWN, redact=settings.REDACT)
            step = TakenBack(seq, name, step_badge(status), shown)
            found.setdefault(claim, []).append(step)
    return found
