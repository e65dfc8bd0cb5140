"""What a slot does with a claimed job, from its first line to its announcement."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django_durable_jobs.jobs import get_job
from django_durable_jobs.settle import (
    announce_buried,
    announce_settled,
    settlement_of,
    settlement_of_unknown,
)
from django_durable_jobs.states import DEAD, FAILED, READY
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import BuriedJob, ClaimedJob, Settlement

from .connections import fresh_connections
from .crew import Run
from .deadlines import Deadlines
from .execute import ExecutableJob, Executed, execute
from .settling import Outcome, Settler

logger = logging.getLogger("django_durable_jobs.worker")


class Attempts:
    """Runs attempts for the crew, and ends them for whoever may.

    An attempt is ended once: by its slot, by its deadline, or by the drain, whichever asks
    first (``Run.settle_once``).
    """

    def __init__(
        self,
        *,
        store: JobStore,
        user_store: JobStore,
        settler: Settler,
        deadlines: Deadlines,
        is_draining: Callable[[], bool],
    ) -> None:
        self._store = store
        self._user_store = user_store
        self._settler = settler
        self._deadlines = deadlines
        self._is_draining = is_draining
        self._unknown: set[str] = set()

    def work(self, run: Run) -> None:
        """Run the job and hand in its outcome; hooks run here, in the slot."""
        try:
            self._work(run)
        except BaseException:
            # A fault of our own, since a body's errors end as outcomes. Let go of the claim:
            # its lease lapses and another worker takes the job.
            logger.exception("jobs.slot.failed: job %s", run.claimed.identity.job_id)
            if run.settle_once():
                self._settler.hand_in(Outcome(run.claimed, None))
        finally:
            self._deadlines.forget(run)

    def give_back(self, run: Run) -> None:
        """End it unspent: it is due again at once."""
        if run.settle_once():
            settlement = Settlement(run.claimed.identity, READY, give_back=True)
            self._settler.hand_in(Outcome(run.claimed, settlement))

    def abandon(self, run: Run) -> None:
        """End a timed-out attempt whose body ignores that it was cancelled."""
        definition = get_job(run.claimed.name)
        reason = run.signal.reason
        if definition is None or reason is None or not run.settle_once():
            return
        settlement = settlement_of(
            reason, claimed=run.claimed, definition=definition, reason=reason
        )
        self._settler.hand_in(Outcome(run.claimed, settlement))

    def announce_buried(self, buried: BuriedJob) -> None:
        """Log a job that was buried, and tell its hook."""
        logger.error(
            "jobs.claim.exhausted: job %s (%s) is %s after %d of %d attempts: %s",
            buried.id,
            buried.name,
            buried.state,
            buried.attempt,
            buried.max_attempts,
            buried.error,
        )
        definition = get_job(buried.name)
        if definition is not None:
            with fresh_connections():
                announce_buried(definition, buried)

    def _work(self, run: Run) -> None:
        claimed = run.claimed
        if self._is_draining():
            self.give_back(run)
            return
        definition = get_job(claimed.name)
        if definition is None:
            self._give_back_unknown(run)
            return
        if definition.timeout is not None:
            self._deadlines.watch(run, definition.timeout)
        run.has_started = True
        with fresh_connections():
            executed = execute(
                claimed,
                definition,
                store=self._store,
                user_store=self._user_store,
                signal=run.signal,
            )
            if run.settle_once():
                self._conclude(claimed, definition, executed)

    def _conclude(self, claimed: ClaimedJob, definition: ExecutableJob, executed: Executed) -> None:
        settlement = executed.settlement
        if executed.error is not None:
            _log_error(claimed, settlement, executed.error)
        if definition.on_settled is None or settlement is None:
            self._settler.hand_in(Outcome(claimed, settlement, executed.has_landed))
            return
        landed = self._hand_in_and_wait(claimed, settlement, executed.has_landed)
        if landed is not None:
            announce_settled(definition, claimed, landed)

    def _hand_in_and_wait(
        self, claimed: ClaimedJob, settlement: Settlement, has_landed: bool
    ) -> Settlement | None:
        answers: list[Settlement | None] = []
        answered = threading.Event()

        def answer(landed: Settlement | None) -> None:
            answers.append(landed)
            answered.set()

        self._settler.hand_in(Outcome(claimed, settlement, has_landed, answer))
        answered.wait()
        return answers[0]

    def _give_back_unknown(self, run: Run) -> None:
        name = run.claimed.name
        if name not in self._unknown:
            self._unknown.add(name)
            logger.error(
                "jobs.name.unknown: no job '%s' is declared here; its jobs are given back until "
                "a worker knows it. Deploy its code, or list the name in aliases=[...].",
                name,
            )
        if run.settle_once():
            self._settler.hand_in(Outcome(run.claimed, settlement_of_unknown(run.claimed)))


def _log_error(claimed: ClaimedJob, settlement: Settlement | None, error: BaseException) -> None:
    is_given_up = settlement is not None and settlement.state in (DEAD, FAILED)
    logger.log(
        logging.ERROR if is_given_up else logging.WARNING,
        "jobs.run.failed: job %s (%s), attempt %d of %d, is %s: %s: %s",
        claimed.identity.job_id,
        claimed.name,
        claimed.attempt,
        claimed.max_attempts,
        "not settled" if settlement is None else settlement.state,
        type(error).__name__,
        error,
        exc_info=error if is_given_up else None,
    )
