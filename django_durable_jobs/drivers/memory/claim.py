"""Claims, leases and rescue."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

from django_durable_jobs import clock, states
from django_durable_jobs.exceptions import ClaimQueuesEmpty
from django_durable_jobs.policies.bounds import finite_count
from django_durable_jobs.store.asked import LEASE_LAPSED, WORKERS_LOST, wanted_of
from django_durable_jobs.store.rows import (
    BuriedJob,
    ClaimedJob,
    ClaimIdentity,
    Probe,
    QueueDemand,
    Renewal,
    Rescued,
    WorkerBeat,
)

from .families import Families
from .records import NEVER, JobRecord


class Claiming(Families):
    def claim(
        self,
        worker_id: str,
        demands: Sequence[QueueDemand],
        *,
        lease: timedelta,
        limit: int | None = None,
    ) -> list[ClaimedJob]:
        wanted, left = wanted_of(demands, limit)
        with self._lock:
            now = clock.now()
            claimed: list[ClaimedJob] = []
            for queue, count in wanted.items():
                chosen = self._choose(queue, min(count, left))
                left -= len(chosen)
                claimed += [record.take(worker_id, now, lease) for record in chosen]
            return claimed

    def arm(self, *, limit: int) -> int:
        with self._lock:
            now = clock.now()
            due = sorted(
                (
                    record
                    for record in self._live.values()
                    if record.is_waiting() and not record.is_armed and record.run_at <= now
                ),
                key=_oldest_due_first,
            )[:limit]
            for record in due:
                record.is_armed = True
            return len(due)

    def rescue(
        self,
        worker_id: str,
        queues: Collection[str],
        *,
        limit: int,
        lease: timedelta,
        drop_exhausted: Collection[str],
    ) -> Rescued:
        if not queues:
            raise ClaimQueuesEmpty
        limit = finite_count(limit, minimum=0, subject="A rescue's limit")
        with self._lock:
            now = clock.now()
            lapsed = sorted(
                (
                    record
                    for record in self._live.values()
                    if record.has_lapsed(now)
                    and record.new.queue in queues
                    and record.new.queue not in self._paused
                ),
                key=lambda record: record.id,
            )[:limit]
            claimed: list[ClaimedJob] = []
            buried: list[BuriedJob] = []
            for record in lapsed:
                if record.attempt >= record.max_attempts:
                    is_dropped = record.new.name in drop_exhausted
                    self._bury(record, states.FAILED if is_dropped else states.DEAD, now)
                    buried.append(record.buried())
                else:
                    self._remember_attempt(record, "lapsed", now, message=LEASE_LAPSED)
                    claimed.append(record.take(worker_id, now, lease))
            return Rescued(tuple(claimed), tuple(buried))

    def renew(
        self, claims: Collection[ClaimIdentity], *, lease: timedelta, beats: Sequence[WorkerBeat]
    ) -> Renewal:
        with self._lock:
            until = clock.now() + lease
            held: set[ClaimIdentity] = set()
            for claim in claims:
                record = self._held(claim)
                if record is not None:
                    record.lease_expires_at = until
                    held.add(claim)
            for beat in beats:
                self._workers[beat.worker_id] = beat
            return Renewal(frozenset(held), frozenset(claims) - held)

    def lapse(self, claims: Collection[ClaimIdentity]) -> int:
        with self._lock:
            now = clock.now()
            held = [record for claim in claims if (record := self._held(claim)) is not None]
            for record in held:
                record.lease_expires_at = now
            return len(held)

    def forget_workers(self, worker_ids: Collection[str]) -> None:
        with self._lock:
            for worker_id in worker_ids:
                self._workers.pop(worker_id, None)

    def probe(self, queues: Collection[str]) -> Probe:
        if not queues:
            raise ClaimQueuesEmpty
        with self._lock:
            now = clock.now()
            served = [
                record
                for record in self._live.values()
                if record.new.queue in queues and record.new.queue not in self._paused
            ]
            waiting = [record for record in served if record.is_waiting()]
            later = [
                record.run_at
                for record in waiting
                if not record.is_armed and now < record.run_at < NEVER
            ]
            leases = [
                record.lease_expires_at for record in served if record.lease_expires_at is not None
            ]
            return Probe(
                queues=frozenset(record.new.queue for record in waiting if record.run_at <= now),
                due_in=(min(later) - now).total_seconds() if later else None,
                lapse_in=(min(leases) - now).total_seconds() if leases else None,
            )

    def _choose(self, queue: str, count: int) -> list[JobRecord]:
        """The rows that a claim of *count* gets, in the order in which they should start."""
        if queue in self._paused or not count:
            return []
        armed = sorted(
            (
                record
                for record in self._live.values()
                if record.is_armed and record.new.queue == queue
            ),
            key=lambda record: (-record.new.priority, _lane(record), *_oldest_due_first(record)),
        )
        chosen: list[JobRecord] = []
        for priority, rivals in groupby(armed, key=lambda record: record.new.priority):
            lanes = [list(lane) for _, lane in groupby(rivals, key=_lane)]
            turn = self._turns.get((queue, priority))
            # The lanes behind the last one served come first, or those in front of it
            # would be served by every claim and the others by none.
            lanes.sort(
                key=lambda lane: (turn is not None and _lane(lane[0]) <= turn, _lane(lane[0]))
            )
            chosen += _in_turn(lanes, count - len(chosen))
            self._turns[queue, priority] = _lane(chosen[-1])
            if len(chosen) == count:
                break
        return chosen

    def _bury(self, record: JobRecord, state: str, now: datetime) -> None:
        """Settle a lapsed final attempt."""
        message = states.LEASE_LAPSED_FINAL_ATTEMPT
        self._remember_attempt(record, state, now, message=message)
        record.last_error = message
        record.error_code = record.error_class = ""
        record.stop_reason = WORKERS_LOST
        self._finish(record, state, now)


def _in_turn(lanes: list[list[JobRecord]], count: int) -> Iterator[JobRecord]:
    """Up to *count* rows, from each lane an equal share at a time."""
    left = count
    while lanes and left > 0:
        share = math.ceil(left / len(lanes))
        rest: list[list[JobRecord]] = []
        for lane in lanes:
            taken = lane[: min(share, left)]
            yield from taken
            left -= len(taken)
            if len(taken) < len(lane):
                rest.append(lane[len(taken) :])
        lanes = rest


def _lane(record: JobRecord) -> tuple[str, str]:
    return (record.new.tenant_id, record.new.concurrency_key)


def _oldest_due_first(record: JobRecord) -> tuple[datetime, UUID]:
    return (record.run_at, record.id)
