"""The end of a running attempt, and what it may write until then; each write is fenced."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django_durable_jobs import clock, states
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.store.asked import check_ends
from django_durable_jobs.store.rows import ClaimIdentity, Settlement

from .records import NEVER, JobRecord
from .wait import Waiting

_FINAL: Final = (states.DONE, states.DEAD, states.FAILED)


class Settling(Waiting):
    def settle(self, settlements: Sequence[Settlement], *, wait: bool = True) -> list[bool | None]:
        check_ends(settlements)
        with self._lock:
            now = clock.now()
            return [self._settle(settlement, now) for settlement in settlements]

    def record_progress(self, identity: ClaimIdentity, progress: str) -> bool:
        with self._lock:
            record = self._held(identity)
            if record is None:
                return False
            record.progress = progress
            return True

    def record_version(self, identity: ClaimIdentity, code_version: str) -> bool:
        with self._lock:
            record = self._held(identity)
            if record is None:
                return False
            record.code_version = code_version
            return True

    def hold(self, identity: ClaimIdentity) -> None:
        with self._lock:
            if self._held(identity) is None:
                raise LeaseLost(identity.job_id, "commit")
            if self._blocks.stack:
                self._blocks.stack[-1].fences.append(identity)

    def _settle(self, settlement: Settlement, now: datetime) -> bool:
        record = self._held(settlement.identity)
        if record is None:
            return False
        if settlement.failure is not None and settlement.state != states.DONE:
            self._remember_failure(record, settlement, now)
        if settlement.give_back:
            record.attempt = max(record.attempt - 1, 0)
        # Two waits, for a name and for a version, and each begins anew after the other.
        if not settlement.unknown_name and not settlement.awaited_version:
            record.unknown_since = None
        elif record.unknown_since is None or settlement.awaited_version != record.awaited_version:
            record.unknown_since = now
        if settlement.state == states.DONE:
            record.last_error = record.error_code = record.error_class = ""
        if settlement.code_version is not None:
            record.code_version = settlement.code_version
        record.awaited_version = settlement.awaited_version
        if settlement.replay_warning is not None:
            record.replay_warning = settlement.replay_warning
        record.result = settlement.result
        record.stop_reason = settlement.stop_reason
        if settlement.state in _FINAL:
            self._finish(record, settlement.state, now)
        else:
            self._park(record, settlement, now)
        self._blocks.release(settlement.identity)
        return True

    def _remember_failure(self, record: JobRecord, settlement: Settlement, now: datetime) -> None:
        failure = settlement.failure
        if failure is None:
            return
        self._remember_attempt(
            record,
            settlement.state,
            now,
            message=failure.message,
            code=failure.code,
            error_class=failure.error_class,
            traceback=failure.traceback,
        )
        record.last_error = failure.message
        record.error_code = failure.code
        record.error_class = failure.error_class

    def _park(self, record: JobRecord, settlement: Settlement, now: datetime) -> None:
        """Put the row back among the waiting ones."""
        record.state = settlement.state
        record.lease_expires_at = None
        record.become_due(_due_at(settlement, now), now)
        if settlement.waits:
            # An event may have come between the body's last look and this park.
            self._wake_if_answered(record, now, names=settlement.steps)
        if settlement.calls:
            # Or the last child may have ended.
            self._wake_if_childless(record.id, now, settlement.steps)


def _due_at(settlement: Settlement, now: datetime) -> datetime:
    if settlement.run_at is not None:
        return settlement.run_at
    if settlement.delay is not None:
        return now + settlement.delay
    # A run parked with neither waits for an event or a child alone.
    return NEVER if settlement.state == states.SUSPENDED else now
