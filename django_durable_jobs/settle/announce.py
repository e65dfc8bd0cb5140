"""Tell the job's own hook that the job has finished."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from django_durable_jobs.exceptions import OnSettledFailed
from django_durable_jobs.states import DEAD, DONE, FAILED
from django_durable_jobs.store.definition import RunnableJob
from django_durable_jobs.store.rows import BuriedJob, ClaimedJob, Settlement

logger = logging.getLogger(__name__)

ON_SETTLED_ATTEMPTS: Final = 3
PAUSE_SECONDS: Final = 0.1
KEY_BUSY: Final = "X_JOB_KEY_BUSY"

SettledOutcome = Literal["completed", "dead-lettered", "dropped", "refused"]


@dataclass(frozen=True, slots=True)
class Settled:
    """How a job finished, as its ``on_settled`` hook is told.

    Attributes:
        outcome: ``completed``: the body returned. ``dead-lettered``: given up, and kept for
            a person. ``dropped``: given up, with ``dead_letter=False``. ``refused``: its
            concurrency key was busy and the body never ran.
        input: The decoded input; None when it no longer fits the signature.
        result: The decoded result of a completed job, else None.
        error: Why it was given up; None when completed.
        code: The error's code; None when it had none or nothing was raised.
        attempt: The last attempt, from 1.
    """

    outcome: SettledOutcome
    job_id: UUID
    job_name: str
    input: Any
    result: Any
    error: str | None
    code: str | None
    attempt: int


def announce_settled(
    definition: RunnableJob,
    claimed: ClaimedJob,
    settlement: Settlement,
    *,
    pause: Callable[[float], object] = time.sleep,
) -> bool:
    """Call the job's hook for a settlement that landed; whether it took the news.

    Does nothing, and answers True, for one that did not finish the job and for a job
    without a hook. Never raises and never changes the job: a hook that raises is called
    again, ``ON_SETTLED_ATTEMPTS`` times in all, then logged as ``jobs.on_settled.failed``.
    Call it in the tenant scope of the body.

    Args:
        pause: Waits so many seconds between tries; may return early.
    """
    outcome = _outcome(settlement)
    if outcome is None or definition.on_settled is None:
        return True
    failure = settlement.failure
    return _announce(
        definition,
        Settled(
            outcome=outcome,
            job_id=claimed.identity.job_id,
            job_name=definition.name,
            input=_input(definition, claimed.input),
            result=_result(definition, settlement.result),
            error=failure.message if failure else settlement.stop_reason or None,
            code=(failure.code or None) if failure else None,
            attempt=claimed.attempt,
        ),
        pause,
    )


def announce_buried(
    definition: RunnableJob,
    buried: BuriedJob,
    *,
    pause: Callable[[float], object] = time.sleep,
) -> bool:
    """The same for a job that was settled because its lease lapsed on the final attempt.

    Nothing was raised there, so ``code`` is None.
    """
    if definition.on_settled is None:
        return True
    return _announce(
        definition,
        Settled(
            outcome="dropped" if buried.state == FAILED else "dead-lettered",
            job_id=buried.id,
            job_name=definition.name,
            input=_input(definition, buried.input),
            result=None,
            error=buried.error,
            code=None,
            attempt=buried.attempt,
        ),
        pause,
    )


def _announce(definition: RunnableJob, settled: Settled, pause: Callable[[float], object]) -> bool:
    hook = definition.on_settled
    if hook is None:
        return True
    for attempt in range(1, ON_SETTLED_ATTEMPTS + 1):
        try:
            hook(settled)
        # A hook that calls sys.exit() must not take the worker's thread with it.
        except (Exception, SystemExit) as error:
            if attempt < ON_SETTLED_ATTEMPTS:
                pause(PAUSE_SECONDS * attempt)
            else:
                _log(settled, error)
        else:
            return True
    return False


def _log(settled: Settled, error: BaseException) -> None:
    fault = OnSettledFailed(settled.job_name, settled.job_id, ON_SETTLED_ATTEMPTS)
    logger.error(
        "jobs.on_settled.failed: %s",
        fault,
        extra={
            "event": "jobs.on_settled.failed",
            "code": fault.code,
            "job_id": str(settled.job_id),
            "job_name": settled.job_name,
            "outcome": settled.outcome,
        },
        exc_info=error,
    )


def _outcome(settlement: Settlement) -> SettledOutcome | None:
    if settlement.state == DONE:
        return "completed"
    if settlement.state == DEAD:
        return "dead-lettered"
    if settlement.state == FAILED:
        failure = settlement.failure
        return "refused" if failure is not None and failure.code == KEY_BUSY else "dropped"
    return None


def _input(definition: RunnableJob, text: str) -> Any:
    try:
        return definition.load_input(text)
    except Exception:
        # Often the very reason why the job was given up; the hook is told all the same. And
        # validators of the job's own types may raise anything.
        return None


def _result(definition: RunnableJob, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return definition.load_result(text)
    except Exception:
        # It was stored a moment ago, so it is JSON, whatever its type makes of it now.
        return json.loads(text)
