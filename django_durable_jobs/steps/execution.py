"""One execution of a body: what it may do, and the one way in which it writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django_durable_jobs import clock
from django_durable_jobs.exceptions import LeaseLost, StepDuplicate, StepRefused, StepTimeout
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.store.names import name_fault
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import ClaimedJob, NewStep, StepRow

from .suspension import Suspension


class Execution:
    """Behind ``JobContext`` and ``StepContext``: the claim, the stores, the signal.

    Attributes:
        store: On connections of the worker's own, for what must not hang on the body's
            transactions.
        user_store: Joins the body's transactions on the calling thread.
        recorded: False for a body that is called inline and stores nothing.
        suspended: The suspension that was raised, once one was.
        current_signal: That of the timed step that runs, else the attempt's.
    """

    def __init__(
        self,
        claimed: ClaimedJob,
        *,
        store: JobStore,
        user_store: JobStore,
        signal: CancelSignal,
        atomic_job: bool,
        recorded: bool,
    ) -> None:
        self.claimed = claimed
        self.store = store
        self.user_store = user_store
        self.signal = signal
        self.atomic_job = atomic_job
        self.recorded = recorded
        self.suspended: Suspension | None = None
        self.current_signal = signal
        self._lock = threading.Lock()
        self._used: set[str] = set()
        self._stored: dict[str, StepRow] | None = None

    def check(self) -> None:
        """Return if the body may go on.

        Raises:
            Suspension: It was parked and caught that.
            Aborted: The attempt, or the step that runs, was cancelled.
        """
        if self.suspended is not None:
            raise self.suspended
        self.current_signal.check()

    def enter(self, name: str) -> tuple[int, StepRow | None]:
        """Begin the step *name*: its place in this execution, and what is stored of it.

        Raises:
            StepRefused: The name cannot be stored, or a checkpoint could not be kept here.
            StepDuplicate: This execution used the name before.
        """
        self.check()
        fault = name_fault(name)
        if fault is not None:
            raise StepRefused(
                ascii(name)[1:-1][:40],
                f"cannot be used: its name {fault}.",
                "Give it a short text that is the same at every run.",
            )
        if self.atomic_job:
            raise StepRefused(
                name,
                f"was called in job '{self.claimed.name}', which is atomic as a whole.",
                "Call the function itself, or declare the job without atomic=True.",
            )
        if self.recorded and self.user_store.in_atomic_block():
            raise StepRefused(
                name,
                "was called inside a transaction: it would be stored before that commits.",
                "Call it outside, or do the database work in ctx.step.atomic().",
            )
        with self._lock:
            if name in self._used:
                raise StepDuplicate(name)
            self._used.add(name)
            seq = len(self._used)
            # Taken out, so that a long replay does not keep what it has answered.
            return seq, self._load().pop(name, None)

    def put(self, step: NewStep, *, store: JobStore | None = None) -> StepRow:
        """Write a checkpoint: the only way in which an execution does.

        Raises:
            Aborted: The attempt was cancelled; nothing was written.
            LeaseLost: The claim no longer holds the job; nothing was written.
        """
        self.signal.check()
        with self._losing_the_lease_cancels():
            return (store or self.store).put_step(self.claimed.identity, step)

    def hold(self) -> None:
        """Make the body's transaction commit only if the claim still holds the job.

        Raises:
            Aborted: The attempt was cancelled.
            LeaseLost: The claim no longer holds the job.
        """
        self.signal.check()
        with self._losing_the_lease_cancels():
            self.user_store.hold(self.claimed.identity)

    def suspension(self, step: str, *, run_at: datetime | None, waits: bool) -> Suspension:
        """What to raise to park the run; from now on every verb raises it."""
        self.suspended = Suspension(step, run_at=run_at, waits=waits)
        return self.suspended

    def is_past(self, instant: datetime) -> bool:
        """Whether *instant* has come by the store's clock."""
        # The time of the claim was taken from that clock and costs no statement.
        return instant <= self.claimed.claimed_at or instant <= self.store.now()

    @contextmanager
    def ceiling(self, step: str, limit: timedelta | None) -> Iterator[None]:
        """Run the block of a step under a timeout of its own.

        A function cannot be stopped from outside. Its part of the signal is set when the
        time is up, and when it ends after that, however it does, the step has timed out.

        Raises:
            StepTimeout: The block ended too late.
        """
        if limit is None:
            yield
            return
        seconds = limit.total_seconds()
        fault = StepTimeout(self.claimed.name, step, seconds)
        outer = self.current_signal
        deadline = clock.monotonic() + seconds
        with outer.narrowed() as part:
            timer = threading.Timer(seconds, part.cancel, (fault,))
            timer.daemon = True
            self.current_signal = part
            timer.start()
            try:
                yield
            except Exception as error:
                if part.reason is fault:
                    raise fault from error
                raise
            finally:
                timer.cancel()
                self.current_signal = outer
            # A function that held the interpreter all the time kept the timer waiting too.
            if part.reason is fault or clock.monotonic() >= deadline:
                raise fault

    def _load(self) -> dict[str, StepRow]:
        if self._stored is None:
            rows: list[StepRow] = []
            if self.recorded and self.claimed.may_have_steps:
                rows = self.store.load_steps(self.claimed.identity.job_id)
            self._stored = {row.name: row for row in rows}
        return self._stored

    @contextmanager
    def _losing_the_lease_cancels(self) -> Iterator[None]:
        try:
            yield
        except LeaseLost as error:
            self.signal.cancel(error)
            raise
