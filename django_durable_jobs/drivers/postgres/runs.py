"""The running attempt: its steps, its waits and its end, each write fenced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django_durable_jobs.clock import shift
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.store.asked import check_ends
from django_durable_jobs.store.rows import (
    ClaimIdentity,
    EventRow,
    NewStep,
    Settlement,
    StepRow,
    Wake,
)

from .rowmaps import event_row, identities, identity_parameters, step_row
from .session import Session

WOKEN_AT_MOST: Final = 1_000
"""Rows that one waking statement moves; it is repeated while it moves that many."""


class Runs(Session):
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
        failures = [settlement.failure for settlement in settlements]
        rows = self.executor.fetch(
            "settle",
            {
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
            },
        )
        answers = {(row[0], row[1]): None if row[3] else row[2] for row in rows}
        landed = [
            answers[settlement.identity.job_id, settlement.identity.claim]
            for settlement in settlements
        ]
        parked = [
            settlement.identity.job_id
            for settlement, has_landed in zip(settlements, landed, strict=True)
            if has_landed and settlement.waits
        ]
        if parked:
            self.wake_waiters(parked)
        return landed

    def record_progress(self, identity: ClaimIdentity, progress: str) -> bool:
        parameters = {**identity_parameters(identity), "progress": progress}
        return bool(self.executor.fetch("record_progress", parameters))

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
            },
        )
        if not rows:
            raise LeaseLost(identity.job_id, f"store step '{step.name}'")
        return step_row(rows[0])

    def publish(
        self, event_id: UUID, name: str, payload: str, *, key: str | None, ttl: timedelta
    ) -> None:
        woken: set[str] = set()
        with self.executor.transaction():
            # Inside, so that the look goes the way of the event when this rolls back.
            self.on_commit(lambda: self._wake_after_commit(name, key, woken))
            self.executor.fetch(
                "publish",
                {
                    "shift": shift(),
                    "id": event_id,
                    "name": name,
                    "payload": payload,
                    "key": key,
                    "ttl": ttl,
                },
            )
            woken |= self._wake_event("wake_event", name, key)

    def _wake_after_commit(self, name: str, key: str | None, woken: set[str]) -> None:
        woken = woken | self._wake_event("wake_event_again", name, key)
        self.wake([Wake(queue) for queue in sorted(woken)])

    def _wake_event(self, statement: str, name: str, key: str | None) -> set[str]:
        queues: set[str] = set()
        moved = WOKEN_AT_MOST
        while moved == WOKEN_AT_MOST:
            rows = self.executor.fetch(
                statement,
                {"shift": shift(), "name": name, "key": key, "limit": WOKEN_AT_MOST},
            )
            moved = len(rows)
            queues.update(row[0] for row in rows)
        return queues

    def find_event(self, wait: StepRow) -> EventRow | None:
        rows = self.executor.fetch(
            "find_event",
            {
                "shift": shift(),
                "name": wait.event,
                "key": wait.correlation_key,
                "mark": wait.mark,
                "since": wait.started_at,
            },
        )
        return event_row(rows[0]) if rows else None

    def wake_waiters(self, job_ids: Collection[UUID]) -> int:
        rows = self.executor.fetch("wake_waiters", {"shift": shift(), "ids": list(job_ids)})
        self.wake([Wake(queue) for queue in sorted({row[0] for row in rows})])
        return len(rows)

    def wake_missed(self, *, limit: int) -> int:
        rows = self.executor.fetch("wake_missed", {"shift": shift(), "limit": limit})
        self.wake([Wake(queue) for queue in sorted({row[0] for row in rows})])
        return len(rows)

    def now(self) -> datetime:
        ((now,),) = self.executor.fetch("now", {"shift": shift()})
        assert isinstance(now, datetime)  # noqa: S101  narrows the row's Any
        return now
