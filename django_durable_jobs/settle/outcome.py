"""From the end of an attempt to the one transition that settles it."""

from __future__ import annotations

import random as chance
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import (
    Draining,
    JobTimeout,
    JobUnknown,
    LeaseLost,
    RunFault,
)
from django_durable_jobs.policies import decide as policy
from django_durable_jobs.policies.classification import facts_of
from django_durable_jobs.policies.retry import Random
from django_durable_jobs.states import DEAD, READY
from django_durable_jobs.store.definition import RunnableJob
from django_durable_jobs.store.rows import ClaimedJob, Failure, Settlement

from .failure import describe_failure

HANDED_ON_FIRST_DELAY: Final = timedelta(seconds=30)
HANDED_ON_LONGEST_DELAY: Final = timedelta(minutes=30)

UNVERSIONED: Final = "(none)"
"""The version that a run waits for which was begun by code without one."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The body returned; *result* is the value as JSON text."""

    result: str


@dataclass(frozen=True, slots=True)
class Parked:
    """A step suspended the run.

    Attributes:
        run_at: When to look again; None until something wakes it, unless *delay* is given.
        waits: It waits for an event.
        calls: It waits for children.
        steps: Names of the steps in which it waits; empty for all that it has open.
    """

    run_at: datetime | None = None
    delay: timedelta | None = None
    waits: bool = False
    calls: bool = False
    steps: tuple[str, ...] = ()


AttemptEnd = Returned | Parked | BaseException
"""What became of the body: it returned, was parked, or raised this."""


def settlement_of(
    end: AttemptEnd,
    *,
    claimed: ClaimedJob,
    definition: RunnableJob,
    reason: RunFault | None,
    random: Random = chance.random,
) -> Settlement | None:
    """The transition that ends the attempt; None when it is somebody else's to end.

    Why the body was told to stop goes before what it made of that: a cancelled body
    raises anything. Nothing is settled once the lease was lost. A body that outlived its
    timeout has timed out, also if it returned after all. One that raised while the
    worker drains is run again at once, with its attempt given back.

    Args:
        reason: The reason of the attempt's signal, None if it was not set.
        random: Chance for the jitter of the retry.
    """
    if isinstance(reason, LeaseLost) or _says_the_lease_is_lost(end, claimed):
        return None
    outcome, failure = _judge(end, claimed, reason)
    decision = policy.decide(
        outcome,
        retry=definition.retry,
        attempt=claimed.attempt,
        max_attempts=claimed.max_attempts,
        random=random,
    )
    settlement = Settlement(
        identity=claimed.identity,
        state=decision.state,
        delay=decision.delay,
        give_back=decision.give_back,
        failure=failure,
        stop_reason=decision.stop_reason or "",
    )
    match outcome, end:
        case policy.Completed(), Returned(result=result):
            return replace(settlement, result=result)
        case policy.Suspended(), Parked(run_at=run_at, waits=waits, calls=calls, steps=steps):
            return replace(settlement, run_at=run_at, waits=waits, calls=calls, steps=steps)
    return settlement


def settlement_of_unknown(
    claimed: ClaimedJob, *, unknown_after: timedelta | None = None
) -> Settlement:
    """The transition of a job whose name this worker does not know.

    It is given back with its attempt, for a worker with newer code, and looked at again
    after a delay that doubles from 30 seconds to 30 minutes. When no worker has known it
    for *unknown_after*, it goes to the dead letters with ``X_JOB_UNKNOWN``.

    Args:
        unknown_after: ``DURABLE_JOBS["UNKNOWN_AFTER"]`` if omitted.
    """
    limit = settings.UNKNOWN_AFTER if unknown_after is None else unknown_after
    # A run that waited for a version until now was known all the time.
    is_unknown_since_long = claimed.unknown_since is not None and not claimed.awaited_version
    age = _handed_on_for(claimed) if is_unknown_since_long else timedelta(0)
    if is_unknown_since_long and age >= limit:
        error = JobUnknown(claimed.name, age.total_seconds())
        return Settlement(
            identity=claimed.identity,
            state=DEAD,
            give_back=True,
            failure=describe_failure(error, job_name=claimed.name),
            stop_reason=str(error),
            unknown_name=True,
        )
    return Settlement(
        identity=claimed.identity,
        state=READY,
        delay=_delay_after(age),
        give_back=True,
        unknown_name=True,
    )


def settlement_of_other_version(claimed: ClaimedJob) -> Settlement:
    """The transition of a run that goes on only under the version that began it.

    It is given back with its attempt, and looked at again after a delay that doubles from
    30 seconds to 30 minutes, for as long as it takes: it is never given up for its age.
    """
    version = claimed.code_version or UNVERSIONED
    is_waiting = claimed.awaited_version == version
    age = _handed_on_for(claimed) if is_waiting else timedelta(0)
    return Settlement(
        identity=claimed.identity,
        state=READY,
        delay=_delay_after(age),
        give_back=True,
        awaited_version=version,
    )


def _handed_on_for(claimed: ClaimedJob) -> timedelta:
    """How long no worker that took the job has run it."""
    if claimed.unknown_since is None:
        return timedelta(0)
    return claimed.claimed_at - claimed.unknown_since


def _delay_after(age: timedelta) -> timedelta:
    # The age itself as delay doubles it each time.
    return min(max(age, HANDED_ON_FIRST_DELAY), HANDED_ON_LONGEST_DELAY)


def _judge(
    end: AttemptEnd, claimed: ClaimedJob, reason: RunFault | None
) -> tuple[policy.Outcome, Failure | None]:
    if isinstance(reason, JobTimeout):
        failure = describe_failure(reason, job_name=claimed.name)
        if isinstance(end, BaseException):
            # Where the body was when it obeyed says more than where the timer was.
            found = describe_failure(end, job_name=claimed.name)
            failure = replace(failure, traceback=found.traceback, fingerprint=found.fingerprint)
        return policy.TimedOut(), failure
    if isinstance(end, Returned):
        return policy.Completed(end.result), None
    if isinstance(end, Parked):
        return policy.Suspended(end.delay), None
    if isinstance(reason, Draining):
        return policy.Interrupted(), None
    return policy.Raised(facts_of(end)), describe_failure(end, job_name=claimed.name)


def _says_the_lease_is_lost(end: AttemptEnd, claimed: ClaimedJob) -> bool:
    # A job that is called inside another may lose a lease of its own.
    return isinstance(end, LeaseLost) and end.job_id == str(claimed.identity.job_id)
