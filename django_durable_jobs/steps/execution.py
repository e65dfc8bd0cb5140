"""One execution of a body: what it may do, and the one way in which it writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django_durable_jobs import clock
from django_durable_jobs.exceptions import LeaseLost, StepDuplicate, StepRefused, StepTimeout
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.store.names import name_fault
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import ClaimedJob, NewStep, StepRow

from .line import Line, line_here
from .sequence import Ending, StepSequence
from .suspension import Suspension

RunBranches = Callable[[Sequence[Callable[[], None]], int], None]
"""Runs all of the callables, so many at once, and returns when each has returned."""


def one_after_another(branches: Sequence[Callable[[], None]], at_once: int) -> None:
    """Run the branches in the calling thread, for a body whose transaction is not committed."""
    for branch in branches:
        branch()


@dataclass(frozen=True, slots=True)
class Entered:
    """A step under way.

    Attributes:
        seq: Its place in this execution, from 1.
        stored: What an earlier execution stored of it.
    """

    name: str
    seq: int
    stored: StepRow | None
    line: Line


class Execution:
    """Behind ``JobContext`` and ``ctx.step``: the claim, the stores, the signal.

    Attributes:
        store: On connections of the worker's own, for what must not hang on the body's
            transactions.
        user_store: Joins the body's transactions on the calling thread.
        recorded: False for a body that is called inline and stores nothing.
        run_branches: How branches that are plain functions run side by side.
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
        run_branches: RunBranches = one_after_another,
    ) -> None:
        self.claimed = claimed
        self.store = store
        self.user_store = user_store
        self.signal = signal
        self.atomic_job = atomic_job
        self.recorded = recorded
        self.run_branches = run_branches
        self._body = Line(signal)
        self._lock = threading.Lock()
        self._used: set[str] = set()
        self._stored: dict[str, StepRow] | None = None
        self._sequence = StepSequence()
        self._waiting: list[str] = []

    @property
    def line(self) -> Line:
        """The line of the body that the caller runs in."""
        return line_here(self._body)

    @property
    def current_signal(self) -> CancelSignal:
        """That of the timed step that runs, else the attempt's."""
        return self.line.signal

    @property
    def suspended(self) -> Suspension | None:
        """The suspension of the body, once one was raised."""
        return self._body.suspended

    @property
    def waiting_steps(self) -> tuple[str, ...]:
        """The steps in which this execution came to a wait."""
        return tuple(self._waiting)

    def check(self) -> None:
        """Return if the body may go on.

        Raises:
            Suspension: It was parked and caught that.
            Aborted: The attempt, or the step that runs, was cancelled.
        """
        line: Line | None = self.line
        while line is not None:
            if line.suspended is not None:
                raise line.suspended
            line = line.parent
        self.current_signal.check()

    @contextmanager
    def step(self, name: str) -> Iterator[Entered]:
        """Run a block as the step *name*; see ``enter``."""
        entered = self.enter(name)
        try:
            yield entered
        finally:
            self.leave(entered)

    def enter(self, name: str) -> Entered:
        """Begin the step *name*; ``leave`` it however it ends.

        Raises:
            StepRefused: The name cannot be stored, a checkpoint could not be kept here, or
                another step of this line is under way.
            StepDuplicate: This execution used the name before.
        """
        self.check()
        line = self.line
        with self._lock:
            self._refuse(name, line)
            if name in self._used:
                raise StepDuplicate(name)
            # Before the name counts as used: the store may not answer, and a body may try again.
            loaded = self._load()
            self._used.add(name)
            seq = len(self._used)
            # Taken out, so that a long replay does not keep what it has answered.
            stored = loaded.pop(name, None)
            self._sequence.entered(name, stored is not None, branch=line.parent is not None)
            line.step = name
        return Entered(name, seq, stored, line)

    def leave(self, entered: Entered) -> None:
        """The step is not under way any more."""
        entered.line.step = None

    def put(self, step: NewStep, *, store: JobStore | None = None) -> StepRow:
        """Write a checkpoint: the only way in which an execution does.

        Raises:
            Aborted: The attempt was cancelled; nothing was written.
            LeaseLost: The claim no longer holds the job; nothing was written.
        """
        self.signal.check()
        with self._losing_the_lease_cancels():
            row = (store or self.store).put_step(self.claimed.identity, step)
        with self._lock:
            self._sequence.kept(step.name)
        return row

    def hold(self) -> None:
        """Make the body's transaction commit only if the claim still holds the job.

        Raises:
            Aborted: The attempt was cancelled.
            LeaseLost: The claim no longer holds the job.
        """
        self.signal.check()
        with self._losing_the_lease_cancels():
            self.user_store.hold(self.claimed.identity)

    def suspend(self, suspension: Suspension) -> Suspension:
        """What to raise to park this line; from now on every verb in it raises it."""
        line = self.line
        if line.step is not None:
            self._waiting.append(line.step)
        line.suspended = suspension
        return suspension

    def has_stored_steps(self) -> bool:
        """Whether earlier executions stored steps; ask before the first is entered."""
        with self._lock:
            return bool(self._load())

    def sequence_warning(self, ending: Ending) -> str | None:
        """How this execution differs from the steps its run had stored; None if it does not."""
        with self._lock:
            return self._sequence.difference(ending)

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
        line = self.line
        outer = line.signal
        deadline = clock.monotonic() + seconds
        with outer.narrowed() as part:
            timer = threading.Timer(seconds, part.cancel, (fault,))
            timer.daemon = True
            line.signal = part
            timer.start()
            try:
                yield
            except Exception as error:
                if part.reason is fault:
                    raise fault from error
                raise
            finally:
                timer.cancel()
                line.signal = outer
            # A function that held the interpreter all the time kept the timer waiting too.
            if part.reason is fault or clock.monotonic() >= deadline:
                raise fault

    def _refuse(self, name: str, line: Line) -> None:
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
        if line.step is not None:
            # Inside one, it would not be reached once that is stored; beside one, the order
            # of the two would be another at every run.
            raise StepRefused(
                name,
                f"was called while step '{line.step}' runs.",
                "Call plain functions inside a step; run steps side by side with "
                "ctx.step.gather().",
            )
        if self.recorded and self.user_store.in_atomic_block():
            raise StepRefused(
                name,
                "was called inside a transaction: it would be stored before that commits.",
                "Call it outside, or do the database work in ctx.step.atomic().",
            )

    def _load(self) -> dict[str, StepRow]:
        if self._stored is None:
            rows: list[StepRow] = []
            if self.recorded and self.claimed.may_have_steps:
                rows = self.store.load_steps(self.claimed.identity.job_id)
            self._stored = {row.name: row for row in rows}
            self._sequence.stored(rows)
        return self._stored

    @contextmanager
    def _losing_the_lease_cancels(self) -> Iterator[None]:
        try:
            yield
        except LeaseLost as error:
            self.signal.cancel(error)
            raise
