"""Steps side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from django_durable_jobs.exceptions import StepRefused
from django_durable_jobs.policies.bounds import finite_count

from .execution import Execution
from .families import Families
from .line import Line, on_line
from .suspension import Suspension, merged, suspension_in

T = TypeVar("T")

AT_ONCE: Final = 8
"""Branches that run side by side unless told otherwise."""


class Outcome:
    """What became of one branch: a value, an error, or a suspension."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.value: Any = None
        self.error: BaseException | None = None

    @property
    def suspension(self) -> Suspension | None:
        """Of a branch that is parked, also of one that swallowed it."""
        if self.error is not None:
            return suspension_in(self.error)
        return self.line.suspended

    def run(self, branch: Callable[[], Any]) -> None:
        """Run a branch that is a plain function, and keep what became of it."""
        with on_line(self.line):
            try:
                self.value = branch()
            # Judged once the others have ended too.
            except BaseException as error:
                self.error = error


class Branches(Families):
    """Groups of steps."""

    def gather(
        self,
        *branches: Callable[[], T],
        concurrency: int = AT_ONCE,
        return_exceptions: bool = False,
    ) -> list[T]:
        """Run functions side by side, each with steps of its own; answer their values in order.

        Each branch runs in a thread with its own database connections, goes as far as it can,
        and stores its steps as it goes. When one has to wait or fails, the others are not
        cut short: the run is parked, or the first error is raised, once each has returned,
        raised or come to a wait. Parked, it comes back when the first wait is over, and
        every branch goes on from its stored steps.

        ::

            stock, invoice = ctx.step.gather(
                lambda: ctx.step.run("reserve", warehouse.reserve, order_id),
                lambda: ctx.step.run("invoice", billing.invoice, order_id),
            )

        Args:
            branches: Functions without arguments. Names of steps are unique in the whole run.
            concurrency: How many run at once.
            return_exceptions: Put an error in the place of its branch's value instead of
                raising the first one.

        Raises:
            Suspension: A branch waits, and none failed. Let it pass.
            StepRefused: A branch is not a function, or gather was called inside a step or a
                transaction.
            NumberInvalid: *concurrency* is not a whole number of at least 1.
        """
        at_once = finite_count(concurrency, minimum=1, subject="The concurrency of gather")
        for number, branch in enumerate(branches, 1):
            if not callable(branch):
                raise StepRefused(
                    "gather",
                    f"was given a value of type {type(branch).__name__} as branch {number}.",
                    "Pass functions: lambda: ctx.step.run(...).",
                )
        outcomes = begin_branches(self._execution, len(branches))
        self._execution.run_branches(
            [_runner(outcome, branch) for outcome, branch in zip(outcomes, branches, strict=True)],
            at_once,
        )
        return end_branches(self._execution, outcomes, return_exceptions=return_exceptions)


def begin_branches(execution: Execution, count: int) -> list[Outcome]:
    """A line for each branch of the calling line.

    Raises:
        StepRefused: A step of this line is under way, or a transaction is open.
        Suspension: The line is parked.
        Aborted: The attempt was cancelled.
    """
    execution.check()
    here = execution.line
    if here.step is not None:
        raise StepRefused(
            "gather", f"was called while step '{here.step}' runs.", "Call it outside of steps."
        )
    if execution.atomic_job or (execution.recorded and execution.user_store.in_atomic_block()):
        # A branch has a thread and connections of its own, and would see nothing of it.
        raise StepRefused(
            "gather",
            "was called inside a transaction, which its branches cannot join.",
            "Call it outside.",
        )
    return [Outcome(Line(here.signal, here)) for _ in range(count)]


def end_branches(
    execution: Execution, outcomes: Sequence[Outcome], *, return_exceptions: bool
) -> list[Any]:
    """The values of branches that have all ended, as the verb's caller gets them.

    Raises:
        Suspension: One is parked and no error is to be raised.
        BaseException: The first error, unless it stands in its value's place.
        Aborted: The attempt was cancelled, which stands in no value's place.
    """
    suspensions = [each.suspension for each in outcomes if each.suspension is not None]
    errors = [each.error for each in outcomes if each.error is not None and each.suspension is None]
    fatal = [error for error in errors if not isinstance(error, Exception)]
    if fatal:
        raise fatal[0]
    # Parking would hide an error until the wait is over.
    if errors and not return_exceptions:
        if len(errors) > 1:
            errors[0].add_note(f"{len(errors)} of {len(outcomes)} branches failed.")
        raise errors[0]
    # A branch that met the end of the attempt has no error of its own to answer.
    execution.signal.check()
    if suspensions:
        raise execution.suspend(merged(suspensions))
    return [each.value if each.error is None else each.error for each in outcomes]


def _runner(outcome: Outcome, branch: Callable[[], Any]) -> Callable[[], None]:
    return lambda: outcome.run(branch)
