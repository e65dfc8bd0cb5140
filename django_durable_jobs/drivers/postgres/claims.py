"""Taking and keeping claims."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, Final

from django_durable_jobs.clock import shift
from django_durable_jobs.exceptions import ClaimQueuesEmpty
from django_durable_jobs.policies.bounds import finite_count
from django_durable_jobs.states import LEASE_LAPSED_FINAL_ATTEMPT, RUNNING
from django_durable_jobs.store.asked import LEASE_LAPSED, WORKERS_LOST, wanted_of
from django_durable_jobs.store.rows import (
    ClaimedJob,
    ClaimIdentity,
    Probe,
    QueueDemand,
    Renewal,
    Rescued,
    WorkerBeat,
)

from .executor import Executor
from .families import Families
from .rowmaps import buried_job, claimed_job, identities

logger = logging.getLogger("django_durable_jobs.store")

LANES_AT_MOST: Final = 32
"""Lanes that one claim visits in a queue; the next claim goes on behind them."""

_PASSES_AT_MOST: Final = 4
"""Statements of one claim once it has as many jobs as one walk visits lanes."""


Lane = tuple[int, str, str]


class Claims(Families):
    """The claim's verbs."""

    def __init__(self, executor: Executor | None = None) -> None:
        super().__init__(executor)
        self._cursors: dict[str, Lane] = {}

    def claim(
        self,
        worker_id: str,
        demands: Sequence[QueueDemand],
        *,
        lease: timedelta,
        limit: int | None = None,
    ) -> list[ClaimedJob]:
        wanted, left = wanted_of(demands, limit)
        claimed: list[ClaimedJob] = []
        passes = 0
        while True:
            wanted = {queue: count for queue, count in wanted.items() if count}
            # A claim of few jobs has left nothing behind: its caller waits for a wake then.
            is_long = passes >= _PASSES_AT_MOST and len(claimed) >= LANES_AT_MOST
            if not wanted or not left or is_long:
                break
            try:
                rows = self._claim_once(worker_id, wanted, lease, left)
            except Exception:
                if not claimed:
                    raise
                # Those are this worker's and nobody else knows of them: unreturned they would
                # lie until their leases lapse, an attempt spent for nothing.
                logger.warning("jobs.claim.cut_short", exc_info=True)
                break
            passes += 1
            left -= len(rows)
            claimed.extend(claimed_job(row, worker_id) for row in rows)
            wanted = {
                queue: self._go_on(
                    queue, count, [row for row in rows if row[3] == queue], is_cut=not left
                )
                for queue, count in wanted.items()
            }
        return claimed

    def _claim_once(
        self, worker_id: str, wanted: dict[str, int], lease: timedelta, limit: int
    ) -> list[tuple[Any, ...]]:
        cursors = [self._cursors.get(queue, (None, None, None)) for queue in wanted]
        return self.executor.fetch(
            "claim",
            {
                "shift": shift(),
                "worker_id": worker_id,
                "lease": lease,
                "lanes": LANES_AT_MOST,
                "limit": limit,
                "queues": list(wanted),
                "counts": list(wanted.values()),
                "cursor_ranks": [cursor[0] for cursor in cursors],
                "cursor_tenants": [cursor[1] for cursor in cursors],
                "cursor_keys": [cursor[2] for cursor in cursors],
            },
        )

    def _go_on(self, queue: str, wanted: int, rows: list[tuple[Any, ...]], *, is_cut: bool) -> int:
        """Move the queue's cursor; answer how many jobs another pass should ask for.

        Args:
            is_cut: The claim has all it may take, so the walk may have stopped anywhere.
        """
        if is_cut and not rows:
            # Not its turn: the next one goes on where the last one stopped.
            return 0
        missing = wanted - len(rows)
        # In the order of the walk, which is the database's order of text and not Python's.
        walked = sorted((row for row in rows if row[18]), key=lambda row: int(row[19]))
        began_inside = self._cursors.pop(queue, None) is not None
        if missing and not is_cut and (began_inside or walked):
            # Lanes in front of the cursor, or more in the lanes that shared a turn.
            return missing
        if walked:
            rank, tenant_id, key = walked[-1][15:18]
            self._cursors[queue] = (rank, tenant_id, key)
        return 0

    def arm(self, *, limit: int) -> int:
        return len(self.executor.fetch("arm", {"shift": shift(), "limit": limit}))

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
        rows = self.executor.fetch(
            "rescue",
            {
                "shift": shift(),
                "worker_id": worker_id,
                "queues": list(queues),
                "limit": finite_count(limit, minimum=0, subject="A rescue's limit"),
                "lease": lease,
                "drop_exhausted": list(drop_exhausted),
                "final_error": LEASE_LAPSED_FINAL_ATTEMPT,
                "lapse_error": LEASE_LAPSED,
                "stop_reason": WORKERS_LOST,
            },
        )
        self._follow_ends(row[17:20] for row in rows)
        return Rescued(
            claimed=tuple(claimed_job(row, worker_id) for row in rows if row[15] == RUNNING),
            buried=tuple(buried_job(row) for row in rows if row[15] != RUNNING),
        )

    def renew(
        self, claims: Collection[ClaimIdentity], *, lease: timedelta, beats: Sequence[WorkerBeat]
    ) -> Renewal:
        rows = self.executor.fetch(
            "renew",
            {
                "shift": shift(),
                "lease": lease,
                **identities(claims),
                "worker_ids": [beat.worker_id for beat in beats],
                "hosts": [beat.host for beat in beats],
                "pids": [beat.pid for beat in beats],
                "worker_queues": ["\x1f".join(beat.queues) for beat in beats],
                "slots": [beat.slots for beat in beats],
                "versions": [beat.version for beat in beats],
            },
        )
        return Renewal(
            held=frozenset(ClaimIdentity(row[0], row[2], row[1]) for row in rows if row[3]),
            lost=frozenset(
                ClaimIdentity(row[0], row[2], row[1]) for row in rows if row[4] and not row[3]
            ),
        )

    def lapse(self, claims: Collection[ClaimIdentity]) -> int:
        if not claims:
            return 0
        return len(self.executor.fetch("lapse", {"shift": shift(), **identities(claims)}))

    def forget_workers(self, worker_ids: Collection[str]) -> None:
        self.executor.fetch("forget_workers", {"worker_ids": list(worker_ids)})

    def probe(self, queues: Collection[str]) -> Probe:
        if not queues:
            raise ClaimQueuesEmpty
        ((ready, due_in, lapse_in),) = self.executor.fetch(
            "probe", {"shift": shift(), "queues": list(queues)}
        )
        return Probe(queues=frozenset(ready), due_in=due_in, lapse_in=lapse_in)
