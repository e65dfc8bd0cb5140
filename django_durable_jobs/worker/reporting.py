"""Tell the supervisor what this worker holds, and the project what was settled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from django_durable_jobs.jobs import get_job
from django_durable_jobs.signals import job_settled
from django_durable_jobs.states import READY, SUSPENDED
from django_durable_jobs.store.rows import ClaimedJob, Settlement

from .channel import Channel, Holding, named, written
from .connections import fresh_connections
from .settling import Outcome

logger = logging.getLogger("django_durable_jobs.worker")


class Reporter:
    """The worker's side of the bookkeeping."""

    def __init__(self, channel: Channel, *, lease: timedelta, kill_grace: timedelta) -> None:
        self._channel = channel
        # On top of a timeout: a job may wait for its slot, and settling takes a while.
        self._slack = 2 * lease + kill_grace

    def hold(self, claimed: Sequence[ClaimedJob]) -> None:
        """Ask for the renewal of these claims; call it before any of their bodies starts."""
        self._channel.send("holding", claims=written(self._holding(job) for job in claimed))

    def release(self, outcomes: Sequence[Outcome], landed: Sequence[Settlement | None]) -> None:
        """These claims are held no more, whether their outcome landed or not."""
        self._channel.send(
            "released", claims=named(outcome.claimed.identity for outcome in outcomes)
        )
        due = [
            seconds
            for settlement in landed
            if settlement is not None and (seconds := due_in(settlement)) is not None
        ]
        if due:
            self._channel.send("due", seconds=min(due))
        for outcome, settlement in zip(outcomes, landed, strict=True):
            if outcome.settlement is not None and settlement is None:
                _warn(outcome.claimed)
        if job_settled.has_listeners():
            _tell(outcomes, landed)

    def _holding(self, claimed: ClaimedJob) -> Holding:
        definition = get_job(claimed.name)
        timeout = None if definition is None else definition.timeout
        limit = None if timeout is None else (timeout + self._slack).total_seconds()
        return Holding(claimed.identity.job_id, claimed.identity.claim, limit)


def due_in(settlement: Settlement) -> float | None:
    """Seconds until the job falls due again; 0 is now, or "look it up"; None is not by time."""
    if settlement.state not in (READY, SUSPENDED):
        return None
    if settlement.run_at is not None:
        return 0.0
    if settlement.delay is not None:
        return settlement.delay.total_seconds()
    return 0.0 if settlement.state == READY else None


def _warn(claimed: ClaimedJob) -> None:
    logger.warning(
        "jobs.settle.lost: the outcome of job %s (%s) was not stored; it was cancelled, or "
        "another claim has it.",
        claimed.identity.job_id,
        claimed.name,
    )


def _tell(outcomes: Sequence[Outcome], landed: Sequence[Settlement | None]) -> None:
    # Receivers run on the settler's thread, whose connections nobody else looks after.
    with fresh_connections():
        for outcome, settlement in zip(outcomes, landed, strict=True):
            if settlement is None:
                continue
            claimed = outcome.claimed
            try:
                job_settled.send_robust(
                    sender=Reporter,
                    job_name=claimed.name,
                    queue=claimed.queue,
                    job_id=claimed.identity.job_id,
                    attempt=claimed.attempt,
                    state=settlement.state,
                )
            except BaseException:
                # Django takes in what derives from Exception; sys.exit() does not.
                logger.exception(
                    "jobs.signal.failed: job_settled of job %s", claimed.identity.job_id
                )
