"""Land outcomes in batches, off the slots' way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Final
from uuid import UUID

from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.lifecycle.backoff import Backoff
from django_durable_jobs.settle import describe_failure
from django_durable_jobs.states import DEAD
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import ClaimedJob, JobRow, Settlement

logger = logging.getLogger("django_durable_jobs.worker")

BATCH_AT_MOST: Final = 500
LOCKED_PAUSE: Final = 0.2
"""Seconds until a job is asked for again that another transaction has locked."""

_REFUSED: Final = "its outcome could not be stored"


@dataclass(frozen=True, slots=True)
class Outcome:
    """An attempt to be settled.

    Attributes:
        settlement: None when the claim is lost: nothing is written, only let go.
        has_landed: It was written in the body's own transaction; it is only let go.
        answer: Called once with the settlement that landed, None if none did, on the
            settler's thread; must not block.
    """

    claimed: ClaimedJob
    settlement: Settlement | None
    has_landed: bool = False
    answer: Callable[[Settlement | None], None] | None = None


class _Locked:
    """In place of what landed: another transaction has the job, so that is not known yet."""


_LOCKED: Final = _Locked()
_Landed = Settlement | None | _Locked

Released = Callable[[Sequence[Outcome], Sequence[Settlement | None]], None]
"""Told which outcomes are done with, and for each the settlement that landed."""


class Settler:
    """One thread that settles what the slots hand in, many in a statement.

    While a statement runs, the next batch gathers; so a batch is as large as the load and
    a lone outcome waits for nothing. Whatever happens to a batch, each of its outcomes is
    released and answered: a slot may be waiting for it. One whose job is locked by somebody's
    transaction goes into the next batch, and holds up none of the others.
    """

    def __init__(self, store: JobStore, released: Released) -> None:
        self._store = store
        self._released = released
        self._waiting: SimpleQueue[Outcome | None] = SimpleQueue()
        self._locked: list[Outcome] = []
        # Of a locked one too an earlier try may yet take effect: it may be what locks it.
        self._is_repeated = False
        self._unsettled = 0
        self._lock = threading.Lock()
        self._backoff = Backoff(first=0.1, longest=5)
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="settler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hand_in(self, outcome: Outcome) -> None:
        with self._lock:
            self._unsettled += 1
        self._waiting.put(outcome)

    @property
    def backlog(self) -> int:
        """Outcomes handed in whose fate is not known yet."""
        with self._lock:
            return self._unsettled

    def finish(self, timeout: float) -> bool:
        """Settle what was handed in and end; whether that came within *timeout* seconds."""
        self._waiting.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._give_up.set()
            return False
        return True

    def _serve(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = self._next_batch()
            if batch:
                self._settle(batch, waits=is_last)

    def _next_batch(self) -> tuple[list[Outcome], bool]:
        batch, self._locked = self._locked, []
        try:
            item = self._waiting.get(timeout=LOCKED_PAUSE if batch else None)
        except Empty:
            return batch, False
        while item is not None:
            batch.append(item)
            if len(batch) >= BATCH_AT_MOST:
                return batch, False
            try:
                item = self._waiting.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _settle(self, batch: list[Outcome], *, waits: bool) -> None:
        results: list[_Landed] = [
            outcome.settlement if outcome.has_landed else None for outcome in batch
        ]
        to_write = [
            place
            for place, outcome in enumerate(batch)
            if outcome.settlement is not None and not outcome.has_landed
        ]
        try:
            outcomes = [batch[place] for place in to_write]
            answers = self._land(outcomes, is_repeated=self._is_repeated, waits=waits)
            for place, result in zip(to_write, answers, strict=True):
                results[place] = result
        except BaseException:
            # Every job of this worker ends through this thread; these leases lapse.
            logger.exception("jobs.settler.failed")
        self._locked = [
            outcome
            for outcome, result in zip(batch, results, strict=True)
            if isinstance(result, _Locked)
        ]
        self._is_repeated = self._is_repeated and bool(self._locked)
        known = [
            (outcome, result)
            for outcome, result in zip(batch, results, strict=True)
            if not isinstance(result, _Locked)
        ]
        batch, landed = [outcome for outcome, _ in known], [result for _, result in known]
        if not batch:
            return
        with self._lock:
            self._unsettled -= len(batch)
        try:
            self._released(batch, landed)
        except BaseException:
            logger.exception("jobs.settler.failed")
        for outcome, settlement in zip(batch, landed, strict=True):
            if outcome.answer is not None:
                outcome.answer(settlement)

    def _land(self, outcomes: list[Outcome], *, is_repeated: bool, waits: bool) -> list[_Landed]:
        """Settle, however often the database has to be asked.

        Args:
            is_repeated: An earlier try was not answered, and may have taken effect.
            waits: Wait for jobs that are locked.
        """
        settlements = [outcome.settlement for outcome in outcomes if outcome.settlement]
        while settlements:
            try:
                landed = self._store.settle(settlements, wait=waits)
                if is_repeated:
                    landed = self._landed_earlier(settlements, landed)
            except StoreUnavailable as error:
                if self._backoff.is_fresh:
                    logger.warning("jobs.settle.waiting: %s", error)
                is_repeated = self._is_repeated = True
                if self._give_up.wait(self._backoff.wait()):
                    return [None] * len(settlements)
            except Exception as error:
                return self._land_apart(outcomes, error, is_repeated=is_repeated, waits=waits)
            else:
                self._backoff.reset()
                return [
                    _LOCKED if has_landed is None else settlement if has_landed else None
                    for settlement, has_landed in zip(settlements, landed, strict=True)
                ]
        return []

    def _landed_earlier(
        self, settlements: list[Settlement], landed: list[bool | None]
    ) -> list[bool | None]:
        """Find those that landed by a try whose answer was lost."""
        rows = [
            self._store.show(settlement.identity.job_id) if has_landed is False else None
            for settlement, has_landed in zip(settlements, landed, strict=True)
        ]
        landed = [
            has_landed if row is None else _is_settled_by(settlement, row)
            for settlement, has_landed, row in zip(settlements, landed, rows, strict=True)
        ]
        parked = {
            settlement.identity.job_id: settlement.steps
            for settlement, has_landed in zip(settlements, landed, strict=True)
            if has_landed and settlement.waits
        }
        if parked:
            # An event that was published meanwhile was looked for by nobody.
            self._store.wake_waiters(parked)
        parents: dict[UUID, set[str]] = {}
        for settlement, has_landed, row in zip(settlements, landed, rows, strict=True):
            if not has_landed or row is None:
                continue
            if settlement.calls:
                parents.setdefault(row.id, set()).update(settlement.steps)
            if row.parent_id is not None:
                parents.setdefault(row.parent_id, set()).add(row.parent_step)
        if parents:
            # Nor were children that ended at the same time.
            self._store.wake_parents(parents)
        return landed

    def _land_apart(
        self, outcomes: list[Outcome], error: Exception, *, is_repeated: bool, waits: bool
    ) -> list[_Landed]:
        """Split a batch that the database refused, so that one bad row holds up no other."""
        if len(outcomes) > 1:
            middle = len(outcomes) // 2
            return [
                *self._land(outcomes[:middle], is_repeated=is_repeated, waits=waits),
                *self._land(outcomes[middle:], is_repeated=is_repeated, waits=waits),
            ]
        (outcome,) = outcomes
        logger.error(
            "jobs.settle.refused: the database refused the outcome of job %s (%s).",
            outcome.claimed.identity.job_id,
            outcome.claimed.name,
            exc_info=error,
        )
        if outcome.settlement is None or outcome.settlement.stop_reason == _REFUSED:
            # Not even that it was refused can be stored: the lease lapses.
            return [None]
        refused = Settlement(
            outcome.claimed.identity,
            DEAD,
            failure=describe_failure(error, job_name=outcome.claimed.name),
            stop_reason=_REFUSED,
        )
        return self._land(
            [replace(outcome, settlement=refused)], is_repeated=is_repeated, waits=waits
        )


def _is_settled_by(settlement: Settlement, row: JobRow) -> bool:
    """Whether *row* is as *settlement* left it: no later claim, and no other's verdict."""
    identity = settlement.identity
    return (
        row.claims == identity.claim
        and row.worker_id == identity.worker_id
        and row.state == settlement.state
        and row.stop_reason == settlement.stop_reason
    )
