"""Land outcomes in batches, off the slots' way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.lifecycle.backoff import Backoff
from django_durable_jobs.settle import describe_failure
from django_durable_jobs.states import DEAD
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import ClaimedJob, Settlement

logger = logging.getLogger("django_durable_jobs.worker")

BATCH_AT_MOST: Final = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """An attempt to be settled.

    Attributes:
        settlement: None when the claim is lost: nothing is written, only let go.
        has_landed: It was written in the body's own transaction; it is only let go.
        answer: Called with whether it landed, on the settler's thread; must not block.
    """

    claimed: ClaimedJob
    settlement: Settlement | None
    has_landed: bool = False
    answer: Callable[[bool], None] | None = None


class Settler:
    """One thread that settles what the slots hand in, many in a statement.

    While a statement runs, the next batch gathers; so a batch is as large as the load and
    a lone outcome waits for nothing.
    """

    def __init__(
        self,
        store: JobStore,
        released: Callable[[Sequence[Outcome], Sequence[bool]], None],
    ) -> None:
        self._store = store
        self._released = released
        self._waiting: SimpleQueue[Outcome | None] = SimpleQueue()
        self._backoff = Backoff(first=0.1, longest=5)
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="settler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hand_in(self, outcome: Outcome) -> None:
        self._waiting.put(outcome)

    @property
    def backlog(self) -> int:
        """Outcomes not begun yet."""
        return self._waiting.qsize()

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
            if not batch:
                continue
            try:
                self._settle(batch)
            except Exception:
                # Every job of this worker ends through this thread.
                logger.exception("jobs.settler.failed")

    def _next_batch(self) -> tuple[list[Outcome], bool]:
        batch: list[Outcome] = []
        item = self._waiting.get()
        while item is not None:
            batch.append(item)
            if len(batch) >= BATCH_AT_MOST:
                return batch, False
            try:
                item = self._waiting.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _settle(self, batch: list[Outcome]) -> None:
        verdicts = [outcome.has_landed for outcome in batch]
        to_write = [
            (place, outcome.settlement)
            for place, outcome in enumerate(batch)
            if outcome.settlement is not None and not outcome.has_landed
        ]
        landed = self._land([settlement for _, settlement in to_write])
        for (place, _), has_landed in zip(to_write, landed, strict=True):
            verdicts[place] = has_landed
        try:
            self._released(batch, verdicts)
        finally:
            for outcome, verdict in zip(batch, verdicts, strict=True):
                if outcome.answer is not None:
                    outcome.answer(verdict)

    def _land(self, settlements: list[Settlement]) -> list[bool]:
        """Settle, however often the database has to be asked."""
        if not settlements:
            return []
        is_repeated = False
        while True:
            try:
                landed = self._store.settle(settlements)
            except StoreUnavailable as error:
                if self._backoff.is_fresh:
                    logger.warning("jobs.settle.waiting: %s", error)
                is_repeated = True
                if self._give_up.wait(self._backoff.wait()):
                    return [False] * len(settlements)
            except Exception as error:
                return self._land_apart(settlements, error)
            else:
                self._backoff.reset()
                if is_repeated:
                    self._look_after_parks(settlements)
                return landed

    def _look_after_parks(self, settlements: list[Settlement]) -> None:
        # The answer that was lost may have been to a park that did land.
        parked = [settlement.identity.job_id for settlement in settlements if settlement.waits]
        if parked:
            self._store.wake_waiters(parked)

    def _land_apart(self, settlements: list[Settlement], error: Exception) -> list[bool]:
        """Split a batch that the database refused, so that one bad row holds up no other."""
        if len(settlements) > 1:
            middle = len(settlements) // 2
            return self._land(settlements[:middle]) + self._land(settlements[middle:])
        (settlement,) = settlements
        identity = settlement.identity
        logger.error(
            "jobs.settle.refused: the database refused the outcome of job %s.",
            identity.job_id,
            exc_info=error,
        )
        failure = describe_failure(error, job_name="")
        refused = Settlement(
            identity, DEAD, failure=failure, stop_reason="its outcome could not be stored"
        )
        if settlement == refused:
            return [False]
        return self._land([refused])
