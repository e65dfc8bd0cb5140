"""What the page of one job shows, read in a fixed number of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models.functions import Left
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from django_durable_jobs import clock, states
from django_durable_jobs.conf import settings
from django_durable_jobs.models import Job, JobAttempt

from .badges import state_badge, state_label
from .explaining import explain
from .payload import SHOWN, Payload, beginning_of, shown, size_of
from .taken_back import TakenBack, read_taken_back
from .timeline import draw, read_steps
from .times import exact_tag, time_tag

PAYLOADS: Final = ("input", "result", "progress")
SHOWN_ATTEMPTS: Final = 20

_TRACEBACK_SHOWN: Final = 20_000
_MESSAGE_SHOWN: Final = 4_000


@dataclass(frozen=True, slots=True)
class Try:
    """A try that did not end done, or of which a requeue took steps back."""

    number: int
    outcome: str
    finished: SafeString
    worker: str
    error: str
    code: str
    message: str
    traceback: str
    taken_back: Sequence[TakenBack]


def detail(job: Job, *, with_payload: bool) -> dict[str, Any]:
    """Return the context of *job*'s page.

    Args:
        with_payload: Read inputs, results and outputs; without it they stay in the
            database.
    """
    now = clock.now()
    steps = read_steps(job, with_output=with_payload)
    tries = _read_tries(job, now, read_taken_back(job, with_output=with_payload))
    return {
        "badge": state_badge(job.state),
        "why": explain(job, steps, now),
        "facts": _facts(job, now),
        "replay_warning": job.replay_warning[:_MESSAGE_SHOWN],
        "last_error": job.last_error[:_MESSAGE_SHOWN],
        "error_class": job.error_class,
        "error_code": job.error_code,
        "tries": tries[:SHOWN_ATTEMPTS],
        "tries_are_cut": len(tries) > SHOWN_ATTEMPTS,
        "timeline": draw(job, steps, now),
        "may_see_payload": with_payload,
        "payloads": _read_payloads(job) if with_payload else {},
    }


def _read_payloads(job: Job) -> dict[str, Payload | None]:
    columns: list[Any] = []
    for name in PAYLOADS:
        columns += [beginning_of(name, SHOWN + 1), size_of(name)]
    jobs = Job._default_manager.using(settings.DATABASE).filter(pk=job.pk)
    row = jobs.values_list(*columns).first()
    if row is None:
        return {}
    pairs = zip(row[::2], row[1::2], strict=True)
    return {name: shown(*pair) for name, pair in zip(PAYLOADS, pairs, strict=True)}


def _read_tries(job: Job, now: Any, taken_back: dict[int, list[TakenBack]]) -> list[Try]:
    rows = (
        JobAttempt.objects.using(settings.DATABASE)
        .filter(job_id=job.pk)
        .order_by("-claim")
        .values(
            "claim",
            "attempt",
            "outcome",
            "finished_at",
            "worker_id",
            "error_class",
            "error_code",
            message_start=Left("message", _MESSAGE_SHOWN),
            traceback_start=Left("traceback", _TRACEBACK_SHOWN),
        )[: SHOWN_ATTEMPTS + 1]
    )
    return [
        Try(
            number=row["attempt"],
            outcome=_outcome(row["outcome"]),
            finished=time_tag(row["finished_at"], now),
            worker=row["worker_id"],
            error=row["error_class"],
            code=row["error_code"],
            message=row["message_start"],
            traceback=row["traceback_start"],
            taken_back=taken_back.get(row["claim"], ()),
        )
        for row in rows
    ]


def _outcome(outcome: str) -> str:
    # The outcome is the state the attempt left the job in; "ready" is a retry to come.
    if outcome == "ready":
        return gettext("to be tried again")
    return gettext("requeued from a step") if outcome == "requeued" else state_label(outcome)


def _facts(job: Job, now: Any) -> list[tuple[str, Any]]:
    """Return label and value of what is known; what is empty is left out."""
    facts: list[tuple[str, Any]] = [
        (gettext("queue"), job.queue),
        (gettext("attempt"), f"{job.attempt} / {job.max_attempts}"),
        (gettext("priority"), job.priority),
        (gettext("enqueued"), exact_tag(job.created_at, now)),
        (gettext("due"), exact_tag(job.run_at, now)),
    ]
    optional: list[tuple[str, Any]] = [
        (gettext("started"), job.started_at and exact_tag(job.started_at, now)),
        (gettext("finished"), job.finished_at and exact_tag(job.finished_at, now)),
        (gettext("worker"), job.worker_id),
        (gettext("idempotency key"), job.idempotency_key),
        (gettext("tenant"), job.tenant_id),
        (gettext("concurrency key"), job.concurrency_key),
        (gettext("enqueued by"), job.enqueued_by),
        (gettext("origin"), f"{job.origin} {job.origin_id}".strip()),
        (gettext("code version"), job.code_version),
        (gettext("waits for version"), job.awaited_version if job.state == states.READY else ""),
        (gettext("requeued from a step"), job.generation),
        (gettext("trace"), job.trace_parent),
    ]
    return facts + [(label, value) for label, value in optional if value]
