"""``ctx``: what a body is told about its run, and what it may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from asgiref.sync import sync_to_async

from django_durable_jobs import clock
from django_durable_jobs.exceptions import StepRefused
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.registry import get_store
from django_durable_jobs.store.rows import ClaimedJob, ClaimIdentity

from .asynchronous import AsyncSteps
from .effects import only_on_jobs_database
from .execution import Execution, RunBranches, one_after_another
from .progress import Progress
from .sequence import Ending
from .suspension import Suspension
from .values import Steps


class RunContext:
    """What the contexts of sync and of async bodies have in common."""

    def __init__(
        self,
        claimed: ClaimedJob,
        *,
        store: JobStore,
        user_store: JobStore,
        signal: CancelSignal,
        atomic_job: bool = False,
        recorded: bool = True,
        run_branches: RunBranches = one_after_another,
    ) -> None:
        """Set the body of a claimed job about to run.

        Args:
            store: On connections of the worker's own.
            user_store: Joins the transactions of the thread that runs the body.
            signal: The attempt's; whoever made it ends it when the body has ended.
            atomic_job: The whole body is one transaction; steps are refused.
            recorded: False runs steps without storing them and refuses waits.
            run_branches: Runs the branches of ``gather`` that are plain functions.
        """
        self._claimed = claimed
        self._execution = Execution(
            claimed,
            store=store,
            user_store=user_store,
            signal=signal,
            atomic_job=atomic_job,
            recorded=recorded,
            run_branches=run_branches,
        )
        self._progress = Progress(self._execution)

    @classmethod
    def inline(
        cls, job_name: str, *, store: JobStore | None = None, atomic_job: bool = False
    ) -> Self:
        """The context of a body that is called and not claimed: nothing is recorded."""
        if store is None:
            store = get_store()
        job_id = new_id()
        now = clock.now()
        claimed = ClaimedJob(
            identity=ClaimIdentity(job_id=job_id, worker_id="", claim=0),
            name=job_name,
            queue="",
            input="{}",
            attempt=1,
            max_attempts=1,
            tenant_id="",
            enqueued_by="",
            trace_parent="",
            created_at=now,
            claimed_at=now,
            unknown_since=None,
        )
        return cls(
            claimed,
            store=store,
            user_store=store,
            signal=CancelSignal(job_id),
            atomic_job=atomic_job,
            recorded=False,
        )

    @property
    def job_id(self) -> UUID:
        return self._claimed.identity.job_id

    @property
    def name(self) -> str:
        return self._claimed.name

    @property
    def queue(self) -> str:
        return self._claimed.queue

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self._claimed.attempt

    @property
    def max_attempts(self) -> int:
        return self._claimed.max_attempts

    @property
    def tenant_id(self) -> str:
        """Whom the job runs for; "" for nobody."""
        return self._claimed.tenant_id

    @property
    def enqueued_by(self) -> str:
        return self._claimed.enqueued_by

    @property
    def created_at(self) -> datetime:
        """When it was enqueued, by the database's clock."""
        return self._claimed.created_at

    @property
    def signal(self) -> CancelSignal:
        """The order to stop: that of the timed step that runs, else the attempt's."""
        return self._execution.current_signal

    @property
    def cancelled(self) -> bool:
        """Whether the body should stop."""
        return self.signal.is_set

    @property
    def suspended(self) -> Suspension | None:
        """The suspension that a step raised; a body that returns after one swallowed it."""
        return self._execution.suspended

    @property
    def waiting_steps(self) -> tuple[str, ...]:
        """The steps in which this execution came to a wait; for the worker, when it parks."""
        return self._execution.waiting_steps

    @property
    def has_stored_steps(self) -> bool:
        """Whether earlier executions stored steps; for the worker, before the body runs."""
        return self._execution.has_stored_steps()

    def replay_warning(self, ending: Ending) -> str | None:
        """How this execution differs from the steps its run had stored; None if it does not.

        For the worker, when the body has ended.
        """
        return self._execution.sequence_warning(ending)

    def check(self) -> None:
        """Return if the body may go on; call it between pieces of long work.

        Raises:
            Aborted: The attempt, or the timed step that runs, was cancelled.
        """
        self._execution.check()

    def flush_progress(self) -> None:
        """Write the last progress if it was kept back; the worker's call when a body ends."""
        self._progress.flush()


class JobContext(RunContext):
    """One execution of the body of a job that is a plain function.

    A body whose first parameter is called ``ctx`` is passed one. Made by the worker.

    Attributes:
        step: The durable verbs.
    """

    def __init__(self, claimed: ClaimedJob, **options: Any) -> None:
        """See ``RunContext``."""
        super().__init__(claimed, **options)
        self.step = Steps(self._execution)

    def progress(self, value: Any) -> None:
        """Tell people how far the run has come; any JSON value.

        Written at most once a second, the last value at the end. A write that does not
        land is no error of the run.

        Raises:
            PayloadInvalid: The value has no exact JSON form.
            PayloadTooLarge: It is above ``DURABLE_JOBS["MAX_PAYLOAD"]``.
            Aborted: The attempt was cancelled.
        """
        self._execution.check()
        self._progress.report(value)

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """A transaction of the body's own, which commits only while the job is still held.

        Its effects may be repeated by a later attempt; for once, use ``ctx.step.atomic``.

        Raises:
            Aborted: The attempt was cancelled; rolled back.
            LeaseLost: Another claim holds the job; rolled back.
            StepRefused: Inside another transaction, such as that of an atomic step, or in a
                job that is atomic as a whole.
            EffectsElsewhere: A write to another database alias was tried.
        """
        execution = self._execution
        execution.check()
        if execution.atomic_job:
            raise StepRefused(
                "ctx.atomic()",
                f"was called in job '{self.name}', which is atomic as a whole.",
                "Leave it out: the body is in one transaction already.",
            )
        if execution.recorded and execution.user_store.in_atomic_block():
            raise StepRefused(
                "ctx.atomic()",
                "was called inside a transaction: it could not refuse to commit that.",
                "Make it the outermost block.",
            )
        with execution.user_store.atomic():
            with only_on_jobs_database("ctx.atomic()"):
                yield
            if execution.recorded:
                # Last before COMMIT, or the renewal of the lease would wait for the body.
                execution.hold()


class AsyncJobContext(RunContext):
    """One execution of the body of a job that is an ``async def`` function.

    A body whose first parameter is called ``ctx`` is passed one. Made by the worker.

    Attributes:
        step: The durable verbs, to be awaited.
    """

    def __init__(self, claimed: ClaimedJob, **options: Any) -> None:
        """See ``RunContext``."""
        super().__init__(claimed, **options)
        self.step = AsyncSteps(self._execution)

    async def progress(self, value: Any) -> None:
        """See ``JobContext.progress``."""
        self._execution.check()
        await sync_to_async(self._progress.report)(value)
