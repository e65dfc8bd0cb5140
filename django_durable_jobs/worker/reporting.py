"""Tell the supervisor what this worker holds, and the project what was settled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from django_durable_jobs.jobs import get_job
from django_durable_jobs.signals import job_settled
from django_durable_jobs.states import READY, SUSPENDED
from django_durable_jobs.store.rows import ClaimedJob

from .channel import Channel, Holding, named, written
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

    def release(self, outcomes: Sequence[Outcome], landed: Sequence[bool]) -> None:
        """These claims are held no more, whether their outcome landed or not."""
        self._channel.send(
            "released", claims=named(outcome.claimed.identity for outcome in outcomes)
        )
        due = [
            seconds
            for outcome, has_landed in zip(outcomes, landed, strict=True)
            if has_landed and (seconds := _due_in(outcome)) is not None
        ]
        if due:
            self._channel.send("due", seconds=min(due))
        for outcome, has_landed in zip(outcomes, landed, strict=True):
            if outcome.settlement is not None:
                _tell(outcome, has_landed)

    def _holding(self, claimed: ClaimedJob) -> Holding:
        definition = get_job(claimed.name)
        timeout = None if definition is None else definition.timeout
        limit = None if timeout is None else (timeout + self._slack).total_seconds()
        return Holding(claimed.identity.job_id, claimed.identity.claim, limit)


def _due_in(outcome: Outcome) -> float | None:
    """When the job falls due again, as far as this worker set it; 0 is "look it up"."""
    settlement = outcome.settlement
    if settlement is None or settlement.state not in (READY, SUSPENDED):
        return None
    if settlement.run_at is not None:
        return 0.0
    return None if settlement.delay is None else settlement.delay.total_seconds()


def _tell(outcome: Outcome, has_landed: bool) -> None:
    claimed, settlement = outcome.claimed, outcome.settlement
    if settlement is None:
        return
    if not has_landed:
        logger.warning(
            "jobs.settle.lost: the outcome of job %s (%s) was not stored; it was cancelled, or "
            "another claim has it.",
            claimed.identity.job_id,
            claimed.name,
        )
    elif job_settled.has_listeners():
        job_settled.send_robust(
            sender=Reporter,
            job_name=claimed.name,
            queue=claimed.queue,
            job_id=claimed.identity.job_id,
            attempt=claimed.attempt,
            state=settlement.state,
        )
