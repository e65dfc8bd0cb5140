"""What a slot does with a claimed job, from its first line to its announcement."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from django_durable_jobs import clock
from django_durable_jobs.conf import settings
from django_durable_jobs.jobs import get_job
from django_durable_jobs.settle import (
    announce_buried,
    announce_settled,
    describe_failure,
    settlement_of,
    settlement_of_unknown,
)
from django_durable_jobs.states import DEAD, FAILED, READY
from django_durable_jobs.store.port import JobStore
from django_durable_jobs.store.rows import BuriedJob, ClaimedJob, Settlement

from .bodies import SlotBodies
from .connections import drop_connections, fresh_connections
from .crew import Run
from .deadlines import Deadlines
from .execute import ExecutableJob, Executed, execute
from .loop import BodyLoop
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
        self._other_versions: set[tuple[str, str]] = set()
        self._announcing: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self._loop = BodyLoop()

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
            if run.interruption.was_interrupted:
                # This thread ends, and a hook may have used it since.
                drop_connections()

    def give_back(self, run: Run) -> None:
        """End it unspent: it is due again at once."""
        if run.settle_once():
            definition = get_job(run.claimed.name)
            # Steps that its body stored are this version's.
            version = None if definition is None else definition.version
            self._hand_back(run, code_version=version)

    def give_back_unstarted(self, run: Run) -> None:
        """The same if its body was not begun; it never will be then."""
        if run.settle_unstarted():
            self._hand_back(run)

    def abandon(self, run: Run) -> None:
        """End a cancelled attempt whose body ignores that it was."""
        definition = get_job(run.claimed.name)
        reason = run.signal.reason
        if definition is None or reason is None or not run.settle_once():
            return
        claimed = run.claimed
        settlement = settlement_of(reason, claimed=claimed, definition=definition, reason=reason)
        if settlement is not None:
            settlement = replace(settlement, code_version=definition.version)
            _log_error(claimed, settlement, reason)
        self._settler.hand_in(
            Outcome(
                claimed,
                settlement,
                answer=lambda landed: self._announce_apart(definition, claimed, landed),
            )
        )

    def finish(self, timeout: float) -> bool:
        """Wait for what goes on outside of the slots; whether it ended within *timeout* seconds."""
        deadline = clock.monotonic() + timeout
        with self._lock:
            threads = list(self._announcing)
        for thread in threads:
            thread.join(max(deadline - clock.monotonic(), 0.0))
        is_over = self._loop.finish(max(deadline - clock.monotonic(), 0.0))
        return is_over and not any(thread.is_alive() for thread in threads)

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
            self.give_back_unstarted(run)
            return
        definition = get_job(claimed.name)
        if definition is None:
            self._give_back_unknown(run)
            return
        if not run.start_once():
            return
        if run.signal.is_set:
            # Lost while it waited for this slot: another worker may run it by now.
            if run.settle_once():
                self._settler.hand_in(Outcome(claimed, None))
            return
        self._deadlines.watch(run, definition.timeout)
        with fresh_connections():
            executed = execute(
                claimed,
                definition,
                store=self._store,
                user_store=self._user_store,
                signal=run.signal,
                bodies=SlotBodies(run, self._loop),
            )
            if run.interruption.was_interrupted:
                # In the middle of a statement perhaps, and a hook may come to need one.
                drop_connections()
            if run.settle_once():
                self._conclude(claimed, definition, executed)

    def _conclude(self, claimed: ClaimedJob, definition: ExecutableJob, executed: Executed) -> None:
        settlement = executed.settlement
        if settlement is not None and settlement.awaited_version:
            self._tell_waiting(claimed, definition, settlement.awaited_version)
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

    def _announce_apart(
        self, definition: ExecutableJob, claimed: ClaimedJob, landed: Settlement | None
    ) -> None:
        """Announce on a thread of its own: the slot is the body's, and settling goes on."""
        if definition.on_settled is None or landed is None or landed.state not in (DEAD, FAILED):
            return

        def announce() -> None:
            try:
                with fresh_connections():
                    announce_settled(definition, claimed, landed)
            finally:
                with self._lock:
                    self._announcing.discard(thread)

        name = f"announce-{claimed.identity.job_id}"
        thread = threading.Thread(target=announce, name=name, daemon=True)
        with self._lock:
            self._announcing.add(thread)
        thread.start()

    def _hand_back(self, run: Run, *, code_version: str | None = None) -> None:
        settlement = Settlement(
            run.claimed.identity, READY, give_back=True, code_version=code_version
        )
        self._settler.hand_in(Outcome(run.claimed, settlement))

    def _tell_waiting(self, claimed: ClaimedJob, definition: ExecutableJob, version: str) -> None:
        with self._lock:
            if (claimed.name, version) in self._other_versions:
                return
            self._other_versions.add((claimed.name, version))
        logger.warning(
            "jobs.version.waiting: runs of job '%s' were begun by version '%s' of its code and "
            "wait for a worker that has it; here it is version '%s'.",
            claimed.name,
            version,
            definition.version,
        )

    def _give_back_unknown(self, run: Run) -> None:
        name = run.claimed.name
        if name not in self._unknown:
            self._unknown.add(name)
            logger.error(
                "jobs.name.unknown: no job '%s' is declared here; its jobs are given back until "
                "a worker knows it. Declare it in the module '%s' of an installed app, or list "
                "the name in aliases=[...].",
                name,
                settings.JOBS_MODULE,
            )
        if run.settle_once():
            self._settler.hand_in(Outcome(run.claimed, settlement_of_unknown(run.claimed)))


def _log_error(claimed: ClaimedJob, settlement: Settlement | None, error: BaseException) -> None:
    is_given_up = settlement is not None and settlement.state in (DEAD, FAILED)
    failure = settlement.failure if settlement is not None else None
    if failure is None:
        # Bounded, and written even if the exception cannot be.
        failure = describe_failure(error, job_name=claimed.name)
    logger.log(
        logging.ERROR if is_given_up else logging.WARNING,
        "jobs.run.failed: job %s (%s), attempt %d of %d, is %s: %s: %s",
        claimed.identity.job_id,
        claimed.name,
        claimed.attempt,
        claimed.max_attempts,
        "not settled" if settlement is None else settlement.state,
        failure.error_class,
        failure.message,
        exc_info=error if is_given_up else None,
    )
