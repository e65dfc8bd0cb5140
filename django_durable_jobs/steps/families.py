"""The steps that wait for other jobs: ``call`` for one, ``map`` for many."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, ParamSpec, Protocol, TypeVar
from uuid import UUID

from django_durable_jobs.exceptions import (
    ChildFailed,
    PayloadInvalid,
    PayloadTooLarge,
    StepRefused,
)
from django_durable_jobs.policies.bounds import finite_count
from django_durable_jobs.states import CANCELLED, DONE, FINISHED_STATES
from django_durable_jobs.store.ids import MAX_CHILDREN, family_id, sibling_id
from django_durable_jobs.store.rows import ChildRow, NewJob, NewStep, StepRow

from .execution import Entered
from .stored import other_verb, require_recorded
from .suspension import Suspension
from .waits import Waits

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

MAX_RESULTS: Final = 64 * 1024 * 1024
"""Bytes that the results of one ``map`` may have together."""

_REMOVED: Final = "removed"

# A call bounds its one child to itself, and a map is stored with a bound only where that is
# below its children: so each can tell a step that the other stored.
_OF_A_CALL: Final = 1


class CallableJob(Protocol[P, R_co]):
    """A declared job, or one with options, as ``call`` and ``map`` use it."""

    @property
    def name(self) -> str: ...

    def prepare_child(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """The row of a call, with no key of its own; stored by nobody yet."""
        ...

    def prepare_children(self, inputs: Iterable[Mapping[str, Any]]) -> list[NewJob]:
        """The same for many inputs; all are checked before any is answered."""
        ...

    def send_children(self, rows: Sequence[NewJob]) -> None:
        """Insert rows in the open transaction, and wake the workers when it commits."""
        ...

    def load_result(self, text: str) -> R_co: ...


class Families(Waits):
    """Calls of other jobs."""

    def call(self, name: str, job: CallableJob[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run another job and answer its result, however many crashes lie between.

        The child is enqueued once, in one transaction with this step's checkpoint; the run
        is parked and holds no slot until the child has finished. Its result is decoded after
        the return annotation of *job* and stored with this step. An idempotency key that
        *job* declares is not used: the child's id is made of this run and the step's name.

        Cancelling this job leaves the child alone.

        Raises:
            Suspension: The child has not finished. Let it pass.
            ChildFailed: It was given up, cancelled or removed. Later runs of the body raise
                the same; the job is not tried again for it.
            InputInvalid: The arguments do not fit the signature of *job*.
            PayloadInvalid: The result no longer fits the return annotation of *job*.
            OptionInvalid: *job* carries an option that a child cannot have.
            StepDuplicate: This run used the name before.
            StepRefused: Not a name, inside a transaction, inside or beside another step, or
                in a job called inline.
        """
        with self._execution.step(name) as step:
            require_recorded(self._execution, step)
            row = step.stored
            if row is None:
                self._start(step, job, [job.prepare_child(*args, **kwargs)], _OF_A_CALL)
                raise self._execution.suspend(Suspension(name, calls=True))
            if row.family_id is None or row.children_at_once != _OF_A_CALL or row.children != 1:
                raise other_verb(row)
            if row.status == "calling":
                row = self._end_call(step, row, row.family_id, job.name)
            output = row.output or "null"
            if row.status == "failed":
                raise _failure(name, json.loads(output), index=None)
            return _loaded(name, job, output)

    def map(
        self,
        name: str,
        job: CallableJob[..., R],
        inputs: Iterable[Mapping[str, Any]],
        /,
        *,
        concurrency: int | None = None,
        return_exceptions: bool = False,
    ) -> list[R]:
        """Run another job once for each of *inputs* and answer the results in their order.

        All children are enqueued at once, in one transaction with this step's checkpoint,
        and the run is parked until the last one has finished. *inputs* is read when the
        step is first reached only.

        Args:
            inputs: The keyword arguments of each call, as ``enqueue_many`` takes them.
            concurrency: How many of them may run side by side; all if omitted.
            return_exceptions: Put a ``ChildFailed`` in the place of a failed child's result
                instead of raising the first one.

        Raises:
            ChildFailed: A child was given up, cancelled or removed; raised when all have
                finished.
            PayloadTooLarge: The results together are above 64 MiB; return ids instead.
            NumberInvalid: *concurrency* is not a whole number of at least 1.
            And as ``call``.
        """
        at_once = None
        if concurrency is not None:
            at_once = finite_count(
                concurrency, minimum=1, subject=f"The concurrency of step '{name}'"
            )
        with self._execution.step(name) as step:
            require_recorded(self._execution, step)
            row = step.stored
            if row is None:
                rows = job.prepare_children(inputs)
                if rows:
                    self._start(step, job, rows, _bound(at_once, len(rows)))
                    raise self._execution.suspend(Suspension(name, calls=True))
                family = self._family(step)
                done = NewStep(name, step.seq, "done", output="[]", family_id=family, children=0)
                row = self._execution.put(done)
            if row.family_id is None or row.children_at_once == row.children == 1:
                raise other_verb(row)
            if row.status == "calling":
                row = self._end_map(step, row, row.family_id, job.name)
            return _results(name, job, row, return_exceptions=return_exceptions)

    def _family(self, step: Entered) -> UUID:
        claimed = self._execution.claimed
        return family_id(claimed.identity.job_id, step.name, claimed.generation)

    def _start(
        self,
        step: Entered,
        job: CallableJob[..., Any],
        rows: Sequence[NewJob],
        at_once: int | None,
    ) -> StepRow:
        if len(rows) > MAX_CHILDREN:
            raise StepRefused(
                step.name,
                f"has {len(rows):,} inputs; the most is {MAX_CHILDREN:,}.",
                "Let each child take several.",
            )
        is_bounded = at_once is not None and at_once < len(rows)
        if is_bounded and any(row.delay or row.run_at for row in rows):
            raise StepRefused(
                step.name,
                "bounds its children and gives them a time to start as well.",
                "Leave out the concurrency, or the delay.",
            )
        parent = self._execution.claimed
        family = self._family(step)
        children = [
            replace(
                row,
                id=sibling_id(family, index),
                parent_id=parent.identity.job_id,
                parent_step=step.name,
                family_id=family,
                is_held=at_once is not None and index >= at_once,
            )
            for index, row in enumerate(rows)
        ]
        calling = NewStep(
            name=step.name,
            seq=step.seq,
            status="calling",
            family_id=family,
            children=len(children),
            children_at_once=at_once,
        )
        with self._execution.user_store.atomic():
            job.send_children(children)
            return self._execution.put(calling, store=self._execution.user_store)

    def _end_call(self, step: Entered, row: StepRow, family: UUID, job: str) -> StepRow:
        child = self._finished(step, row, family).get(family)
        if child is not None and child.state == DONE:
            ended = replace(_calling(step, row), status="done", output=child.result)
        else:
            failure = _failure_of(child, job, family)
            ended = replace(_calling(step, row), status="failed", output=json.dumps(failure))
        return self._execution.put(ended)

    def _end_map(self, step: Entered, row: StepRow, family: UUID, job: str) -> StepRow:
        found = self._finished(step, row, family)
        outcomes: list[str] = []
        size = 0
        for index in range(row.children or 0):
            wanted = sibling_id(family, index)
            child = found.get(wanted)
            if child is not None and child.state == DONE:
                outcomes.append(f'{{"result": {child.result or "null"}}}')
            else:
                outcomes.append(json.dumps({"failure": _failure_of(child, job, wanted)}))
            size += len(outcomes[-1].encode())
        if size > MAX_RESULTS:
            raise PayloadTooLarge(
                f"The outcome of step '{step.name}'",
                size,
                MAX_RESULTS,
                "Store the data elsewhere and let the children return its keys.",
            )
        output = f"[{', '.join(outcomes)}]"
        return self._execution.put(replace(_calling(step, row), status="done", output=output))

    def _finished(self, step: Entered, row: StepRow, family: UUID) -> dict[UUID, ChildRow]:
        """The children by id once all have finished.

        Raises:
            Suspension: One has not.
        """
        children = self._execution.store.children(family, row.children or 0)
        if any(child.state not in FINISHED_STATES for child in children):
            raise self._execution.suspend(Suspension(step.name, calls=True))
        return {child.id: child for child in children}


def _bound(at_once: int | None, children: int) -> int | None:
    """A bound that holds anybody back, or None."""
    return at_once if at_once is not None and at_once < children else None


def _calling(step: Entered, row: StepRow) -> NewStep:
    return NewStep(
        name=step.name,
        seq=step.seq,
        status="calling",
        family_id=row.family_id,
        children=row.children,
        children_at_once=row.children_at_once,
    )


def _failure_of(child: ChildRow | None, job: str, child_id: UUID) -> dict[str, str]:
    if child is None:
        return {"job": job, "job_id": str(child_id), "state": _REMOVED}
    fields = {"job": child.name, "job_id": str(child.id), "state": child.state}
    if child.state != CANCELLED:
        fields |= {"code": child.code, "error_class": child.error_class}
    return {**fields, "message": child.message}


def _failure(step: str, fields: Mapping[str, str], *, index: int | None) -> ChildFailed:
    return ChildFailed(
        step,
        fields["job"],
        fields["job_id"],
        fields["state"],
        index=index,
        child_code=fields.get("code", ""),
        error_class=fields.get("error_class", ""),
        message=fields.get("message", ""),
    )


def _results(
    name: str, job: CallableJob[..., R], row: StepRow, *, return_exceptions: bool
) -> list[R]:
    outcomes = json.loads(row.output or "[]")
    failures = [
        _failure(name, outcome["failure"], index=index)
        for index, outcome in enumerate(outcomes)
        if "failure" in outcome
    ]
    if failures and not return_exceptions:
        if len(failures) > 1:
            failures[0].add_note(f"{len(failures)} of its {len(outcomes)} children failed.")
        raise failures[0]
    left = iter(failures)
    results: list[Any] = [
        next(left) if "failure" in outcome else _loaded(name, job, _text(outcome["result"]))
        for outcome in outcomes
    ]
    return results


def _loaded(step: str, job: CallableJob[..., R], text: str) -> R:
    try:
        return job.load_result(text)
    except PayloadInvalid as error:
        raise PayloadInvalid(
            error.subject,
            error.problems,
            f"Deploy code that reads it, or requeue the job from step '{step}' for a new child.",
        ) from None


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
