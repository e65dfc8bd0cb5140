"""The copies of steps that a requeue takes back, as the history of attempts keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from django_durable_jobs.store.rows import StepRow


def copies_of(steps: Iterable[StepRow], *, after: str | None) -> str:
    """*steps* as JSON text, behind those that were taken back *after* the same attempt before."""
    earlier = "" if after is None else after[1:-1]
    texts = [_copy(step) for step in steps]
    return f"[{', '.join(filter(None, [earlier, *texts]))}]"


def _copy(step: StepRow) -> str:
    known = {
        "name": step.name,
        "seq": step.seq,
        "status": step.status,
        "event": step.event,
        "key": step.correlation_key,
        "wake_at": _instant(step.wake_at),
        "started_at": _instant(step.started_at),
        "finished_at": _instant(step.finished_at),
        "attempt": step.attempt,
    }
    # The output as it was written: a number that is read and written again may be another.
    return f'{json.dumps(known)[:-1]}, "output": {step.output or "null"}}}'


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
