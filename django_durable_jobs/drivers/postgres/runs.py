"""The running attempt: its steps and its end, each write fenced."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django_durable_jobs.clock import shift
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.store.asked import check_ends
from django_durable_jobs.store.rows import (
    ClaimIdentity,
    NewStep,
    Settlement,
    StepRow,
)

from .events import Events
from .rowmaps import (
    cursor_parameters,
    filters_text,
    identities,
    identity_parameters,
    step_row,
)


class Runs(Events):
    """The verbs of a running attempt."""

    def settle(self, settlements: Sequence[Settlement], *, wait: bool = True) -> list[bool | None]:
        check_ends(settlements)
        answers = self._settle_unlocked(settlements)
        while wait and None in answers:
            locked = [place for place, landed in enumerate(answers) if landed is None]
            for place in locked:
                # Returns when the lock is free; whether the claim still holds is asked below.
                self.executor.fetch("hold", identity_parameters(settlements[place].identity))
            again = self._settle_unlocked([settlements[place] for place in locked])
            for place, landed in zip(locked, again, strict=True):
                answers[place] = landed
        return answers

    def _settle_unlocked(self, settlements: Sequence[Settlement]) -> list[bool | None]:
        """Settle those whose rows are free; None for each that somebody else has locked."""
        if not settlements:
            return []
        parameters = _settle_parameters(settlements)
        fault = None
        rows = self.executor.fetch("settle", {**parameters, "with_children": False})
        if rows[0][4]:
            rows = self.executor.fetch("settle_children", {**parameters, "with_children": True})
            fault = self._follow_ends(row[4:7] for row in rows)
        answers = {(row[0], row[1]): None if row[3] else row[2] for row in rows}
        landed = [
            answers[settlement.identity.job_id, settlement.identity.claim]
            for settlement in settlements
        ]
        parked = [
            settlement
            for settlement, has_landed in zip(settlements, landed, strict=True)
            if has_landed
        ]
        waiting = {each.identity.job_id: each.steps for each in parked if each.waits}
        if waiting:
            self.wake_waiters(waiting)
        calling = {each.identity.job_id: each.steps for each in parked if each.calls}
        if calling:
            fault = self._look_after_commit(calling) or fault
        if fault is not None:
            # Asked again, the caller finds that they landed, and has the look made again.
            raise fault
        return landed

    def record_progress(self, identity: ClaimIdentity, progress: str) -> bool:
        parameters = {**identity_parameters(identity), "progress": progress}
        return bool(self.executor.fetch("record_progress", parameters))

    def record_version(self, identity: ClaimIdentity, code_version: str) -> bool:
        parameters = {**identity_parameters(identity), "code_version": code_version}
        return bool(self.executor.fetch("record_version", parameters))

    def hold(self, identity: ClaimIdentity) -> None:
        if not self.executor.fetch("hold", identity_parameters(identity)):
            raise LeaseLost(identity.job_id, "commit")

    def load_steps(self, job_id: UUID) -> list[StepRow]:
        return [step_row(row) for row in self.executor.fetch("load_steps", {"job_id": job_id})]

    def put_step(self, identity: ClaimIdentity, step: NewStep) -> StepRow:
        rows = self.executor.fetch(
            "put_step",
            {
                "shift": shift(),
                **identity_parameters(identity),
                "name": step.name,
                "seq": step.seq,
                "status": step.status,
                "output": step.output,
                "event": step.event,
                "correlation_key": step.correlation_key,
                "wait": step.wait,
                "until": step.until,
                "took": step.took,
                "since_run": step.since_run,
                "alternatives": filters_text(step.alternatives),
                **cursor_parameters(step.cursor),
                "family_id": step.family_id,
                "children": step.children,
                "children_at_once": step.children_at_once,
            },
        )
        if not rows:
            raise LeaseLost(identity.job_id, f"store step '{step.name}'")
        return step_row(rows[0])

    def now(self) -> datetime:
        ((now,),) = self.executor.fetch("now", {"shift": shift()})
        assert isinstance(now, datetime)  # noqa: S101  narrows the row's Any
        return now


def _settle_parameters(settlements: Sequence[Settlement]) -> dict[str, Any]:
    failures = [settlement.failure for settlement in settlements]
    return {
        "shift": shift(),
        **identities([settlement.identity for settlement in settlements]),
        "states": [settlement.state for settlement in settlements],
        "delays": [settlement.delay for settlement in settlements],
        "run_ats": [settlement.run_at for settlement in settlements],
        "give_backs": [settlement.give_back for settlement in settlements],
        "results": [settlement.result for settlement in settlements],
        "stop_reasons": [settlement.stop_reason for settlement in settlements],
        "unknown_names": [settlement.unknown_name for settlement in settlements],
        "error_codes": [failure and failure.code for failure in failures],
        "error_classes": [failure and failure.error_class for failure in failures],
        "messages": [failure and failure.message for failure in failures],
        "tracebacks": [failure and failure.traceback for failure in failures],
        "fingerprints": [failure and failure.fingerprint for failure in failures],
        "code_versions": [settlement.code_version for settlement in settlements],
        "awaited_versions": [settlement.awaited_version for settlement in settlements],
        "replay_warnings": [settlement.replay_warning for settlement in settlements],
    }
