"""Every error of the package, drawn as a tree.

::

    DurableJobsError
    ├── DeclarationInvalid            X_JOB_DECLARATION_INVALID
    │   └── QueueNotDeclared
    ├── JobNameTaken                  X_JOB_DUPLICATE
    ├── SettingInvalid                X_SETTING_INVALID
    ├── DurationInvalid               X_DURATION_INVALID
    ├── NumberInvalid                 X_NUMBER_INVALID
    ├── ChoiceInvalid                 X_CHOICE_INVALID
    ├── PayloadInvalid                X_PAYLOAD_INVALID
    ├── PayloadTypeUnsupported        X_PAYLOAD_TYPE_UNSUPPORTED
    ├── EnqueueRefused
    │   ├── InputInvalid              X_JOB_INPUT_INVALID
    │   ├── PayloadTooLarge           X_PAYLOAD_TOO_LARGE
    │   ├── OptionInvalid             X_JOB_OPTION_INVALID
    │   ├── JobDuplicate              X_JOB_DUPLICATE
    │   ├── KeyContended              X_JOB_KEY_CONTENDED
    │   └── TransactionNotCovered     X_OUTBOX_NO_TX
    ├── EventRefused                  X_EVENT_REFUSED
    ├── RunFault
    │   ├── JobTimeout                X_JOB_TIMEOUT
    │   │   └── StepTimeout
    │   ├── LeaseLost                 X_JOB_LEASE_LOST
    │   ├── Aborted                   X_ABORTED
    │   ├── Draining                  X_DRAINING
    │   ├── JobUnknown                X_JOB_UNKNOWN
    │   ├── ResultUnserializable      X_JOB_RESULT_UNSERIALIZABLE
    │   ├── StepDuplicate             X_STEP_DUPLICATE
    │   ├── StepOutputUnserializable  X_STEP_OUTPUT_UNSERIALIZABLE
    │   ├── StepRefused               X_STEP_REFUSED
    │   ├── EffectsElsewhere          X_STEP_EFFECTS_ELSEWHERE
    │   ├── ChildFailed               X_STEP_CHILD_FAILED
    │   ├── EventInvalid              X_JOB_EVENT_INVALID
    │   ├── VersionChanged            X_JOB_VERSION_CHANGED
    │   ├── SuspensionSwallowed       X_JOB_SUSPENSION_SWALLOWED
    │   └── OnSettledFailed           X_JOB_ON_SETTLED_FAILED
    ├── OperationRefused
    │   ├── JobNotFound               X_JOB_NOT_FOUND
    │   ├── JobNotCancellable         X_JOB_NOT_CANCELLABLE
    │   ├── JobNotRequeueable         X_JOB_NOT_REQUEUEABLE
    │   ├── StepNotFound              X_STEP_NOT_FOUND
    │   ├── JobNotPromotable          X_JOB_NOT_PROMOTABLE
    │   ├── JobNotRemovable           X_JOB_NOT_REMOVABLE
    │   ├── PageInvalid               X_JOB_PAGE_INVALID
    │   └── BulkTooLarge              X_JOB_BULK_TOO_LARGE
    └── StoreFault
        ├── StoreUnavailable          X_DRIVER_UNAVAILABLE
        ├── ClaimQueuesEmpty          X_JOB_CLAIM_QUEUES_EMPTY
        └── StateUnknown              X_JOB_ROW_STATUS_UNKNOWN

Across a process or a job's boundary only ``code`` survives, so match on it
there. A refusal names the thing and the remedy and never echoes a value: a
wrong value is often a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar


class DurableJobsError(Exception):
    """An error of this package: what happened, to what, and what to do.

    Attributes:
        code: Stable name, also when only text survives (``X_JOB_TIMEOUT``).
        cause: One sentence that names the subject and the reason.
        fix: What to change or which command to run; may be empty.
    """

    code: ClassVar[str] = "X_DURABLE_JOBS"

    def __init__(self, cause: str, fix: str = "") -> None:
        self.cause = cause
        self.fix = fix
        super().__init__(f"{cause} {fix}".rstrip())

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take data, not sentences; a copy is rebuilt from its state.
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


def _rebuild(
    cls: type[DurableJobsError], args: tuple[Any, ...], state: dict[str, Any]
) -> DurableJobsError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


# -- declaration and settings ------------------------------------------------------------------


class DeclarationInvalid(DurableJobsError):
    """A declaration that no worker could honour."""

    code = "X_JOB_DECLARATION_INVALID"

    def __init__(self, job: str, reason: str, fix: str = "") -> None:
        self.job = job
        super().__init__(f"Job '{job}' {reason}", fix)


class QueueNotDeclared(DeclarationInvalid):
    """A queue that no worker is told to serve."""

    def __init__(self, job: str, queue: str, declared: Iterable[str]) -> None:
        self.queue = queue
        known = ", ".join(f"'{name}'" for name in sorted(declared))
        super().__init__(
            job,
            f"names queue '{queue}', which is not declared.",
            f"Declared queues: {known}. "
            f"Add '{queue}' to DURABLE_JOBS[\"QUEUES\"] or change the job.",
        )


class JobNameTaken(DurableJobsError):
    """Two declarations under one name or alias."""

    code = "X_JOB_DUPLICATE"

    def __init__(self, name: str, holder: str, newcomer: str) -> None:
        self.name = name
        super().__init__(
            f"Job name '{name}' is declared twice: by {holder} and by {newcomer}.",
            'Give one of them another name with @job(name="...").',
        )


class SettingInvalid(DurableJobsError):
    """A value in ``DURABLE_JOBS`` that cannot be used."""

    code = "X_SETTING_INVALID"

    def __init__(self, key: str, reason: str, fix: str = "") -> None:
        self.key = key
        super().__init__(f'DURABLE_JOBS["{key}"] {reason}', fix)


class DurationInvalid(DurableJobsError, ValueError):
    """A value that is not a length of time."""

    code = "X_DURATION_INVALID"

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        super().__init__(
            f"{subject} {reason}",
            'Give a timedelta, a number of seconds, or text such as "30s", "5m" or "1h30m".',
        )


# -- enqueue -----------------------------------------------------------------------------------


class EnqueueRefused(DurableJobsError):
    """Nothing was stored; the caller's transaction is as it was."""


class InputInvalid(EnqueueRefused, ValueError):
    """Input that does not fit the job's signature.

    Attributes:
        problems: Pairs of path (``order_id``, ``lines[3].price``) and message,
            without the values.
    """

    code = "X_JOB_INPUT_INVALID"

    def __init__(self, job: str, problems: Sequence[tuple[str, str]]) -> None:
        self.job = job
        self.problems = tuple(problems)
        lines = "".join(f"\n  {path}: {message}" for path, message in self.problems)
        super().__init__(f"Input of job '{job}' was refused:{lines}")


class PayloadTooLarge(EnqueueRefused, ValueError):
    """A payload above ``DURABLE_JOBS["MAX_PAYLOAD"]``, or the results of a ``map`` above theirs."""

    code = "X_PAYLOAD_TOO_LARGE"

    def __init__(self, subject: str, size: int, limit: int, fix: str = "") -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"{subject} takes {size:,} bytes as JSON; the limit is {limit:,}.",
            fix
            or 'Store the data elsewhere and pass its key, or raise DURABLE_JOBS["MAX_PAYLOAD"].',
        )


class OptionInvalid(EnqueueRefused, ValueError):
    """An option of ``.using()`` that cannot be honoured."""

    code = "X_JOB_OPTION_INVALID"

    def __init__(self, job: str, option: str, reason: str, fix: str = "") -> None:
        self.job = job
        self.option = option
        super().__init__(f"Job '{job}': option {option} {reason}", fix)


class JobDuplicate(EnqueueRefused):
    """A live job holds the idempotency key.

    Attributes:
        holder: Id of the live job, as text.
    """

    code = "X_JOB_DUPLICATE"

    def __init__(self, job: str, holder: str) -> None:
        self.job = job
        self.holder = holder
        super().__init__(
            f"A live job of '{job}' already holds this idempotency key: {holder}.",
            "Wait for it to finish, cancel it, or enqueue with on_conflict='existing'.",
        )


class KeyContended(EnqueueRefused):
    """Another open transaction holds the same idempotency key.

    The caller's transaction stays usable: only the savepoint of the enqueue was rolled back.
    """

    code = "X_JOB_KEY_CONTENDED"

    def __init__(self, job: str, waited_seconds: float) -> None:
        self.job = job
        super().__init__(
            f"Another open transaction is enqueueing job '{job}' under the same idempotency key; "
            f"gave up after {waited_seconds:g} s.",
            "Enqueue keyed jobs last in a transaction, and try again.",
        )


class TransactionNotCovered(EnqueueRefused):
    """The open transaction is on a database which the jobs cannot join."""

    code = "X_OUTBOX_NO_TX"


# -- events ------------------------------------------------------------------------------------


class EventRefused(DurableJobsError, ValueError):
    """An event that could not be stored as given; nothing was."""

    code = "X_EVENT_REFUSED"

    def __init__(self, argument: str, reason: str) -> None:
        self.argument = argument
        super().__init__(f"The event was not published: its {argument} {reason}.")


# -- the run -----------------------------------------------------------------------------------


class RunFault(DurableJobsError):
    """Something that ended an attempt, seen by the worker and not raised by the body itself."""


class JobTimeout(RunFault):
    """The attempt outlived its timeout."""

    code = "X_JOB_TIMEOUT"

    def __init__(self, job: str, seconds: float) -> None:
        self.job = job
        super().__init__(
            f"Job '{job}' ran longer than its timeout of {seconds:g} s.",
            "Raise the job's timeout or split the work into steps.",
        )


class StepTimeout(JobTimeout):
    """A step outlived the timeout of its own; its output was not stored."""

    def __init__(self, job: str, step: str, seconds: float) -> None:
        self.job = job
        self.step = step
        DurableJobsError.__init__(
            self,
            f"Step '{step}' of job '{job}' ran longer than its timeout of {seconds:g} s.",
            "Raise the step's timeout, or let the function end early by calling ctx.check().",
        )


class LeaseLost(RunFault):
    """This claim no longer holds the row: cancelled, or lapsed and claimed again.

    Nothing was written. The attempt is already settled by somebody else.
    """

    code = "X_JOB_LEASE_LOST"

    def __init__(self, job_id: object, act: str) -> None:
        self.job_id = str(job_id)
        super().__init__(
            f"Could not {act}: this worker no longer holds job {job_id}; "
            "it was cancelled, or its lease lapsed and another claim took it."
        )


class Aborted(RunFault):
    """A durable verb called by an attempt that was cancelled."""

    code = "X_ABORTED"

    def __init__(self, job_id: object, reason: str) -> None:
        self.job_id = str(job_id)
        self.reason = reason
        super().__init__(f"The attempt at job {job_id} was cancelled ({reason}).")


class Draining(RunFault):
    """The worker is shutting down."""

    code = "X_DRAINING"

    def __init__(self) -> None:
        super().__init__("The worker is shutting down; the job runs again elsewhere.")


class JobUnknown(RunFault):
    """A stored job name that this process, or no worker for a whole day, knows."""

    code = "X_JOB_UNKNOWN"

    def __init__(self, name: str, waited_seconds: float | None = None) -> None:
        self.name = name
        if waited_seconds is None:
            super().__init__(
                f"No job named '{name}' is declared in this process.",
                "Import the module that declares it, or list the name in aliases=[...].",
            )
        else:
            super().__init__(
                f"No worker knew a job named '{name}' for {waited_seconds / 3600:.4g} h.",
                "Deploy code that declares it (or lists it in aliases=[...]) and requeue the job.",
            )


class ResultUnserializable(RunFault):
    """A body's return value that has no exact JSON form."""

    code = "X_JOB_RESULT_UNSERIALIZABLE"

    def __init__(self, job: str, problem: str) -> None:
        self.job = job
        super().__init__(
            f"The result of job '{job}' cannot be stored: {problem}.",
            "Return JSON values, or annotate the return type.",
        )


class StepDuplicate(RunFault):
    """One step name used twice in one execution of the body."""

    code = "X_STEP_DUPLICATE"

    def __init__(self, step: str) -> None:
        self.step = step
        super().__init__(
            f"Step '{step}' was already used in this run; a step's name is its replay key.",
            "Give each step its own name, for example with the item's id in it.",
        )


class StepOutputUnserializable(RunFault):
    """A step's output that has no exact JSON form."""

    code = "X_STEP_OUTPUT_UNSERIALIZABLE"

    def __init__(self, step: str, problem: str) -> None:
        self.step = step
        super().__init__(
            f"The output of step '{step}' cannot be stored: {problem}.",
            "Return JSON values, or annotate the function's return type.",
        )


class StepRefused(RunFault):
    """A durable verb where it could not keep its promise."""

    code = "X_STEP_REFUSED"

    def __init__(self, step: str, reason: str, fix: str = "") -> None:
        self.step = step
        super().__init__(f"Step '{step}' {reason}", fix)


class EffectsElsewhere(RunFault):
    """A write to another database inside a block whose effects happen exactly once."""

    code = "X_STEP_EFFECTS_ELSEWHERE"

    def __init__(self, what: str, alias: str, jobs_alias: str) -> None:
        self.alias = alias
        super().__init__(
            f"{what} wrote to the database '{alias}': its transaction is on that of the jobs, "
            f"'{jobs_alias}', and cannot hold both. The write did not take place.",
            "Write there outside of it, such as in a step of its own, or keep the jobs on that "
            "database.",
        )


class ChildFailed(RunFault):
    """A child job that a step waited for was given up, cancelled or removed.

    Attributes:
        job, job_id: The child.
        index: Its place among the inputs of ``map``, from 0; None for ``call``.
        state: ``failed``, ``dead``, ``cancelled`` or ``removed``.
        child_code: Code of its last error, "" when that has none.
        error_class: Qualified class of its last error, as text.
        message: Message of its last error, or why it was stopped.
    """

    code = "X_STEP_CHILD_FAILED"

    def __init__(
        self,
        step: str,
        job: str,
        job_id: object,
        state: str,
        *,
        index: int | None = None,
        child_code: str = "",
        error_class: str = "",
        message: str = "",
    ) -> None:
        self.step = step
        self.job = job
        self.job_id = str(job_id)
        self.state = state
        self.index = index
        self.child_code = child_code
        self.error_class = error_class
        self.message = message
        place = "" if index is None else f" number {index}"
        sentence = ": ".join(
            part
            for part in (
                f"Step '{step}': its child{place} '{job}' ({job_id}) is {state}",
                error_class,
                message.rstrip(),
            )
            if part
        )
        super().__init__(
            # The message is another's, and ends as it likes.
            sentence if sentence.endswith((".", "!", "?")) else f"{sentence}.",
            "Mend the cause, then requeue this job from that step.",
        )


class EventInvalid(RunFault):
    """A stored event that does not fit the schema of the wait that found it."""

    code = "X_JOB_EVENT_INVALID"

    def __init__(
        self, step: str, event: str, event_id: object, problem: str, *, is_taken: bool = False
    ) -> None:
        self.step = step
        self.event = event
        self.event_id = str(event_id)
        self.problem = problem
        super().__init__(
            f"Event '{event}' ({event_id}) does not fit the schema of step '{step}': {problem}.",
            # Taken by an earlier run of the body, it is the step's answer for good.
            "An earlier schema took it: mend the schema, or requeue the job from that step."
            if is_taken
            else "Publish one that fits and requeue the job: the wait goes on behind this event.",
        )


class VersionChanged(RunFault):
    """A run with stored steps met code of another declared version, and may not go on in it."""

    code = "X_JOB_VERSION_CHANGED"

    def __init__(self, job: str, stored: str, declared: str) -> None:
        self.job = job
        self.stored = stored
        self.declared = declared
        begun = f"version '{stored}' of its code" if stored else "code without a version"
        super().__init__(
            f"Job '{job}' was begun by {begun}, and this is version '{declared}'.",
            "Requeue it where the old version runs, or requeue it from its first step.",
        )


class SuspensionSwallowed(RunFault):
    """A body went on after a step had suspended it."""

    code = "X_JOB_SUSPENSION_SWALLOWED"

    def __init__(self, job: str, step: str) -> None:
        self.job = job
        super().__init__(
            f"Job '{job}' went on after step '{step}' had suspended it.",
            "Let BaseException pass: do not catch it around ctx.step calls.",
        )


class OnSettledFailed(RunFault):
    """The job's ``on_settled`` hook raised on every try; the job's state is not changed by it."""

    code = "X_JOB_ON_SETTLED_FAILED"

    def __init__(self, job: str, job_id: object, tries: int) -> None:
        self.job = job
        super().__init__(f"on_settled of job '{job}' ({job_id}) raised on each of {tries} tries.")


# -- operations --------------------------------------------------------------------------------


class OperationRefused(DurableJobsError):
    """An operator's verb that does not apply; nothing was changed."""


class JobNotFound(OperationRefused):
    """No job has this id."""

    code = "X_JOB_NOT_FOUND"

    def __init__(self, job_id: object) -> None:
        self.job_id = str(job_id)
        super().__init__(f"There is no job {job_id}.")


class _WrongState(OperationRefused):
    verb: ClassVar[str]
    allowed: ClassVar[str]

    def __init__(self, job_id: object, state: str, fix: str = "") -> None:
        self.job_id = str(job_id)
        self.state = state
        super().__init__(
            f"Job {job_id} cannot be {self.verb}: it is {state} now, and only "
            f"{self.allowed} can be.",
            fix,
        )


class JobNotCancellable(_WrongState):
    """Cancel reached a job that is not live."""

    code = "X_JOB_NOT_CANCELLABLE"
    verb = "cancelled"
    allowed = "a ready, delayed, running or suspended job"


class JobNotRequeueable(_WrongState):
    """Requeue reached a live job; moving it would run it twice."""

    code = "X_JOB_NOT_REQUEUEABLE"
    verb = "requeued"
    allowed = "a done, failed, dead or cancelled job"


class StepNotFound(OperationRefused):
    """A requeue from a step that the job has not stored."""

    code = "X_STEP_NOT_FOUND"

    def __init__(self, job_id: object, step: str, stored: Sequence[str]) -> None:
        self.job_id = str(job_id)
        self.step = step
        names = ", ".join(f"'{name}'" for name in stored) or "none"
        super().__init__(
            f"Job {job_id} has no stored step '{step}'.",
            f"Its stored steps: {names}. One that failed stored nothing: a requeue without a "
            "step runs it again.",
        )


class JobNotPromotable(_WrongState):
    """Promote reached a job that does not wait for its time."""

    code = "X_JOB_NOT_PROMOTABLE"
    verb = "promoted"
    allowed = "a delayed job, or a ready one whose time has not come,"


class JobNotRemovable(_WrongState):
    """Remove reached a running job."""

    code = "X_JOB_NOT_REMOVABLE"
    verb = "removed"
    allowed = "a job that is not running"


class PageInvalid(OperationRefused, ValueError):
    """A page size or cursor that the list did not offer."""

    code = "X_JOB_PAGE_INVALID"


class BulkTooLarge(OperationRefused, ValueError):
    """One call named more jobs than it may."""

    code = "X_JOB_BULK_TOO_LARGE"

    def __init__(self, count: int, limit: int) -> None:
        self.count = count
        self.limit = limit
        super().__init__(
            f"One call cannot act on {count:,} jobs; the limit is {limit:,}.",
            "Act on them in several calls.",
        )


# -- the store ---------------------------------------------------------------------------------


class StoreFault(DurableJobsError):
    """The store could not do what was asked of it."""


class StoreUnavailable(StoreFault):
    """The database could not be reached, or lacks the tables."""

    code = "X_DRIVER_UNAVAILABLE"


class ClaimQueuesEmpty(StoreFault, ValueError):
    """A claim that names no queue; it never means "all queues"."""

    code = "X_JOB_CLAIM_QUEUES_EMPTY"

    def __init__(self) -> None:
        super().__init__("A claim names no queue.", "Name at least one queue to claim from.")


class StateUnknown(StoreFault):
    """A stored state that this version does not know."""

    code = "X_JOB_ROW_STATUS_UNKNOWN"

    def __init__(self, job_id: object, state: str) -> None:
        self.job_id = str(job_id)
        self.state = state
        super().__init__(
            f"Job {job_id} has the unknown state '{state}'.",
            "A newer version of django-durable-jobs may have written it: deploy that version.",
        )


# -- payloads ----------------------------------------------------------------------------------


class PayloadInvalid(DurableJobsError, ValueError):
    """A value that has no exact JSON form, or stored text that no longer fits its type.

    Attributes:
        problems: Pairs of path and message, without the values.
        problem: The same as one line, for the sentence of another error.
    """

    code = "X_PAYLOAD_INVALID"

    def __init__(self, subject: str, problems: Sequence[tuple[str, str]], fix: str = "") -> None:
        self.subject = subject
        self.problems = tuple(problems)
        self.problem = "; ".join(f"{path} {message}" for path, message in self.problems)
        lines = "".join(f"\n  {path}: {message}" for path, message in self.problems)
        # A remedy behind the last line of a list would read as part of that line.
        reason = f" {self.problem}." if fix else lines
        super().__init__(f"{subject} was refused:{reason}", fix)


class PayloadTypeUnsupported(DurableJobsError, TypeError):
    """An annotation whose values have no JSON form."""

    code = "X_PAYLOAD_TYPE_UNSUPPORTED"

    def __init__(self, annotation: str, reason: str) -> None:
        self.annotation = annotation
        super().__init__(
            f"Values of type {annotation} cannot be stored: {reason}.",
            "Use JSON types, a dataclass or a Pydantic model.",
        )


# -- options -----------------------------------------------------------------------------------


class NumberInvalid(DurableJobsError, ValueError):
    """A number that is not finite, not whole where it must be, or out of bounds."""

    code = "X_NUMBER_INVALID"

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        super().__init__(f"{subject} {reason}.")


class ChoiceInvalid(DurableJobsError, ValueError):
    """A value that is none of those an option takes."""

    code = "X_CHOICE_INVALID"

    def __init__(self, subject: str, choices: Sequence[str]) -> None:
        self.subject = subject
        super().__init__(f"{subject} must be one of {', '.join(choices)}.")
