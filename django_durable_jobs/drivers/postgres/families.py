"""Children: what became of them, and the wakes of the parents that wait for them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Any, Final
from uuid import UUID

from django_durable_jobs.clock import shift
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.store.rows import ChildRow, Wake

from .rowmaps import child_row, looked_at
from .session import Session

# Whoever has locked a parked run has mostly done so in passing. A look may not wait for a user's
# transaction, and the last resort comes to those that it leaves.
_PAUSES: Final = (0.01, 0.03, 0.06)


class Families(Session):
    """The verbs of parents and children."""

    def children(self, family_id: UUID, count: int) -> list[ChildRow]:
        if count < 1:
            return []
        last = UUID(int=family_id.int + count - 1)
        rows = self.executor.fetch("children", {"first": family_id, "last": last})
        return [child_row(row) for row in rows]

    def wake_parents(self, job_ids: Collection[UUID]) -> int:
        queues = self._wake_parents(job_ids)
        self._wake_queues(queues)
        return len(queues)

    def _wake_parents(self, job_ids: Collection[UUID]) -> list[str]:
        """Do so, and answer the queue of each that was woken."""
        return self._wake_unlocked("wake_parents", job_ids) if job_ids else []

    def _wake_unlocked(self, statement: str, job_ids: Collection[UUID]) -> list[str]:
        """Run a waking statement, again for rows that were locked; the queue of each woken.

        Pauses a tenth of a second in all, and only while a row stays locked: who lets go of
        it without a change, such as a renewal in passing, looks for nobody.
        """
        queues: list[str] = []
        for pause in (*_PAUSES, None):
            rows = self.executor.fetch(statement, {"shift": shift(), **looked_at(job_ids)})
            queues += [row[0] for row in rows if row[0] is not None]
            if pause is None or all(row[0] is not None for row in rows):
                break
            time.sleep(pause)
        return queues

    def _wake_missed_parents(self, limit: int) -> int:
        if limit < 1:
            return 0
        rows = self.executor.fetch("wake_missed_parents", {"shift": shift(), "limit": limit})
        self._wake_queues([row[0] for row in rows])
        return len(rows)

    def _follow_ends(self, ends: Iterable[tuple[Any, ...]]) -> StoreUnavailable | None:
        """After the commit: look once more for the parents of ended children, tell the workers.

        Call it in the transaction of the statement that ended them, so that it is forgotten
        with a savepoint that is rolled back.

        Args:
            ends: Of each row that the statement answered: the parent of the child that
                ended, or None, the parent's step, and the queues that got work by that.

        Returns:
            Why the look failed, if it was made at once and failed: what ended has ended all
            the same, but perhaps nobody else looks.
        """
        parents: dict[UUID, set[str]] = {}
        queues: set[str] = set()
        for parent_id, step, woken in ends:
            if parent_id is not None:
                parents.setdefault(parent_id, set()).add(step)
            queues.update(woken)
        return self._look_after_commit(parents, queues)

    def _look_after_commit(
        self, parents: Collection[UUID], queues: Collection[str] = ()
    ) -> StoreUnavailable | None:
        """Wake those of *parents* without a child, and the workers; see ``_follow_ends``."""
        faults: list[StoreUnavailable] = []

        def look() -> None:
            try:
                self._wake_queues([*queues, *self._wake_parents(parents)])
            except StoreUnavailable as error:
                faults.append(error)
                raise

        if parents or queues:
            self.on_commit(look)
        return faults[0] if faults else None

    def _wake_queues(self, queues: Collection[str]) -> None:
        self.wake([Wake(queue) for queue in sorted(set(queues))])
