"""Run one claimed job's body, to the settlement that ends its attempt."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, Protocol

from django_durable_jobs.exceptions import LeaseLost, SuspensionSwallowed, VersionChanged
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.settle import (
    Parked,
    Returned,
    settlement_of,
    settlement_of_other_version,
)
from django_durable_jobs.settle.outcome import AttemptEnd
from django_durable_jobs.signals import job_started
from django_durable_jobs.states import DONE
from django_durable_jobs.steps import AsyncJobContext, JobContext, RunContext, suspension_in
from django_durable_jobs.steps.current import running
from django_durable_jobs.steps.effects import only_on_jobs_database
from django_durable_jobs.steps.sequence import Ending
from django_durable_jobs.store.definition import OnVersionChange, RunnableJob
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import ClaimedJob, Settlement

from .bodies import HERE, Bodies

logger = logging.getLogger("django_durable_jobs.worker")


class ExecutableJob(RunnableJob, Protocol):
    """A declaration as the worker runs it.

    Attributes:
        is_async: ``run`` answers a coroutine.
        version: Of its code; "" when none was declared.
        on_version_change: What becomes of a run that another version began.
    """

    @property
    def atomic(self) -> bool: ...

    @property
    def is_async(self) -> bool: ...

    @property
    def version(self) -> str: ...

    @property
    def on_version_change(self) -> OnVersionChange: ...

    def run(self, context: RunContext, values: Any, /) -> Any: ...

    def dump_result(self, value: object, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Executed:
    """How an execution ended.

    Attributes:
        settlement: What to land; None when the claim is lost and nothing may be written.
        has_landed: It was written in the body's own transaction already.
        error: What the body raised, for the log.
    """

    settlement: Settlement | None
    has_landed: bool
    error: BaseException | None


def execute(
    claimed: ClaimedJob,
    definition: ExecutableJob,
    *,
    store: JobStore,
    user_store: JobStore,
    signal: CancelSignal,
    bodies: Bodies = HERE,
) -> Executed:
    """Run the body and say how its attempt ends; never raises what the body raised.

    The signal is set when this returns, whatever happened, so a thread that the body left
    running can store nothing more.

    Args:
        store: On connections of the worker's own.
        user_store: Joins the transactions of this thread.
        bodies: Where the body runs; in this thread if omitted.
    """
    kind = AsyncJobContext if definition.is_async else JobContext
    context = kind(
        claimed,
        store=store,
        user_store=user_store,
        signal=signal,
        atomic_job=definition.atomic,
        run_branches=bodies.run_branches,
    )
    try:
        kept_out = _keep_out(context, claimed, definition, store, signal)
        if kept_out is not None:
            return kept_out
        if job_started.has_listeners():
            _tell_started(claimed, definition)
        with running(claimed.identity.job_id):
            if definition.atomic:
                return _run_atomic(context, claimed, definition, user_store, signal, bodies)
            end = _end_of(context, claimed, definition, bodies)
        context.flush_progress()
        return _ended(end, context, claimed, definition, signal)
    finally:
        signal.end()


def _keep_out(
    context: RunContext,
    claimed: ClaimedJob,
    definition: ExecutableJob,
    store: JobStore,
    signal: CancelSignal,
) -> Executed | None:
    """How an attempt ends whose run may not go on in this code; None when it may."""
    rule = definition.on_version_change
    if rule == "continue" or claimed.code_version == definition.version:
        return None
    try:
        if not context.has_stored_steps:
            # Before its first step: killed behind that, the run must not pass for the other's.
            if not store.record_version(claimed.identity, definition.version):
                raise LeaseLost(claimed.identity.job_id, "begin it")
            return None
    except Exception as error:
        # The store's: nothing is known of the run, so the body must not begin.
        return _judged(error, claimed, definition, signal)
    if rule == "wait":
        return Executed(settlement_of_other_version(claimed), has_landed=False, error=None)
    changed = VersionChanged(definition.name, claimed.code_version, definition.version)
    return _judged(changed, claimed, definition, signal)


def _tell_started(claimed: ClaimedJob, definition: ExecutableJob) -> None:
    try:
        job_started.send_robust(
            sender=execute,
            job_name=definition.name,
            queue=claimed.queue,
            job_id=claimed.identity.job_id,
            attempt=claimed.attempt,
        )
    except BaseException:
        # Django takes in what derives from Exception; sys.exit() does not.
        logger.exception("jobs.signal.failed: job_started of job %s", claimed.identity.job_id)


def _end_of(
    context: RunContext, claimed: ClaimedJob, definition: ExecutableJob, bodies: Bodies
) -> AttemptEnd:
    try:
        value = _value_of(context, claimed, definition, bodies)
        _refuse_swallowed(context, definition)
        return Returned(definition.dump_result(value))
    # A body may raise anything, SystemExit included, and only its own attempt may end by it.
    except BaseException as error:
        suspension = suspension_in(error)
        if suspension is None:
            return error
        return Parked(
            suspension.run_at,
            suspension.delay,
            suspension.waits,
            suspension.calls,
            context.waiting_steps,
        )


def _value_of(
    context: RunContext, claimed: ClaimedJob, definition: ExecutableJob, bodies: Bodies
) -> Any:
    values = definition.load_input(claimed.input)
    if definition.is_async:
        return bodies.run_async(lambda: definition.run(context, values))
    return bodies.run(lambda: definition.run(context, values))


def _run_atomic(
    context: RunContext,
    claimed: ClaimedJob,
    definition: ExecutableJob,
    user_store: JobStore,
    signal: CancelSignal,
    bodies: Bodies,
) -> Executed:
    """Commit the body's effects and its settle together, or neither."""
    settlement: Settlement | None = None
    commits: list[bool] = []
    try:
        with user_store.atomic():
            # First of the hooks, so it tells a failed commit from a hook that failed behind it.
            user_store.on_commit(lambda: commits.append(True))
            with only_on_jobs_database(f"The atomic job '{definition.name}'"):
                value = _value_of(context, claimed, definition, bodies)
            end = Returned(definition.dump_result(value))
            settlement = _ended(end, context, claimed, definition, signal).settlement
            # Cancelled by now: its effects must not be kept beside an attempt that failed.
            if settlement is None or settlement.state != DONE:
                context.check()
                raise LeaseLost(claimed.identity.job_id, "commit the atomic job")
            # Last before COMMIT, or the renewal of the lease would wait for the body.
            if not user_store.settle([settlement])[0]:
                raise LeaseLost(claimed.identity.job_id, "commit the atomic job")
    except BaseException as error:
        if commits:
            return Executed(settlement, has_landed=True, error=error)
        return _ended(error, context, claimed, definition, signal)
    return Executed(settlement, has_landed=True, error=None)


def _ended(
    end: AttemptEnd,
    context: RunContext,
    claimed: ClaimedJob,
    definition: ExecutableJob,
    signal: CancelSignal,
) -> Executed:
    """How an attempt ends whose body this code ran."""
    executed = _judged(end, claimed, definition, signal)
    if executed.settlement is None:
        return executed
    settlement = replace(
        executed.settlement,
        code_version=definition.version,
        replay_warning=_replay_warning(end, context, claimed, definition),
    )
    return replace(executed, settlement=settlement)


def _replay_warning(
    end: AttemptEnd, context: RunContext, claimed: ClaimedJob, definition: ExecutableJob
) -> str | None:
    warning = context.replay_warning(_ending(end))
    if warning is None:
        return None
    if claimed.code_version != definition.version:
        begun, here = _named(claimed.code_version), _named(definition.version)
        warning = f"A run of {begun} went on in {here}. {warning}"
    logger.warning(
        "jobs.replay.differs: job %s (%s): %s", claimed.identity.job_id, claimed.name, warning
    )
    return warning


def _ending(end: AttemptEnd) -> Ending:
    if isinstance(end, Returned):
        return "returned"
    return "suspended" if isinstance(end, Parked) else "raised"


def _named(version: str) -> str:
    return f"version '{version}'" if version else "code without a version"


def _judged(
    end: AttemptEnd, claimed: ClaimedJob, definition: ExecutableJob, signal: CancelSignal
) -> Executed:
    settlement = settlement_of(end, claimed=claimed, definition=definition, reason=signal.reason)
    error = end if isinstance(end, BaseException) else None
    return Executed(settlement, has_landed=False, error=error)


def _refuse_swallowed(context: RunContext, definition: ExecutableJob) -> None:
    if context.suspended is not None:
        raise SuspensionSwallowed(definition.name, context.suspended.step)
