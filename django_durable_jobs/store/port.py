"""The one port behind which the store lives.

Every driver passes ``django_durable_jobs.testing.conformance``. All times that are
compared across processes are the store's own clock; every write to a running job is
fenced on (running, worker, claim number) inside the statement that writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from .rows import (
    AttemptRow,
    ChildRow,
    ClaimedJob,
    ClaimIdentity,
    ConflictPolicy,
    EventRow,
    Inserted,
    JobFilter,
    JobRow,
    NewJob,
    NewStep,
    Probe,
    QueueDemand,
    QueueStats,
    Renewal,
    Rescued,
    Settlement,
    StepRow,
    Wake,
    WorkerBeat,
)


@dataclass(frozen=True, slots=True)
class Features:
    """What a driver can do beyond the required verbs.

    Attributes:
        shared: Several processes see the same jobs.
        transactional: ``insert`` joins the caller's database transaction.
        listens: ``listen`` answers a listener.
    """

    shared: bool
    transactional: bool
    listens: bool


class Listener(Protocol):
    """A session that hears wakes. Used by one thread."""

    def receive(self, timeout: float) -> list[Wake]:
        """Wait up to *timeout* seconds; answer what was heard, perhaps nothing.

        Raises:
            StoreUnavailable: The session broke; open another.
        """
        ...

    def prove(self, timeout: float) -> bool:
        """Send a wake to itself and answer whether it came back within *timeout* seconds.

        Wakes heard meanwhile are kept for the next ``receive``.
        """
        ...

    def close(self) -> None: ...


class JobStore(Protocol):
    """What must be remembered, and the only ways to change it."""

    features: Features

    def for_worker(self) -> JobStore:
        """The same store on connections of its own, safe to share among threads.

        What the caller's transaction does has no effect on it, and it has none on that
        transaction.
        """
        ...

    def close(self) -> None:
        """Give back every connection of its own."""
        ...

    # -- the caller's transaction

    def atomic(self) -> AbstractContextManager[None]:
        """The user's database transaction; rolls back on any exception."""
        ...

    def in_atomic_block(self) -> bool:
        """Whether the calling thread is inside a transaction of the user's.

        The block that a ``TestCase`` wraps around each test does not count.
        """
        ...

    def on_commit(self, act: Callable[[], object]) -> None:
        """Run *act* after the outermost commit, never after a rollback; at once outside one.

        An error of *act* is logged and does not reach the caller.
        """
        ...

    # -- enqueue

    def insert(self, jobs: Sequence[NewJob], *, on_conflict: ConflictPolicy) -> list[Inserted]:
        """Insert *jobs* in the caller's transaction, all or none; one answer each, in order.

        At most one live job holds a key (name, tenant, idempotency key). A job whose key
        is held is answered with its holder, or refused.

        Raises:
            JobDuplicate: A live job holds a key and *on_conflict* is ``raise``.
            KeyContended: Another open transaction holds the key; the caller's transaction
                stays usable.
            StoreUnavailable: The store could not be reached.
        """
        ...

    def wake(self, wakes: Sequence[Wake]) -> None:
        """Tell listening workers that these queues got work. An optimisation, never a promise."""
        ...

    # -- claim

    def claim(
        self,
        worker_id: str,
        demands: Sequence[QueueDemand],
        *,
        lease: timedelta,
        limit: int | None = None,
    ) -> list[ClaimedJob]:
        """Take due jobs and hold each under a lease; moves ``attempt`` and ``claims`` by one.

        Higher priority first; then lanes (tenant, key) in turn; within a lane the oldest
        due first, ties by id. Paused queues answer nothing. Concurrent callers neither
        wait for one another nor receive the same job. *limit* bounds the sum over all
        queues, served in the order of *demands*.

        Raises:
            ClaimQueuesEmpty: *demands* is empty.
            ValueError: A count is not a whole number of at least 0.
        """
        ...

    def arm(self, *, limit: int) -> int:
        """Make up to *limit* waiting jobs claimable whose time has come; how many it was."""
        ...

    def rescue(
        self,
        worker_id: str,
        queues: Collection[str],
        *,
        limit: int,
        lease: timedelta,
        drop_exhausted: Collection[str],
    ) -> Rescued:
        """Take again, or bury, running jobs whose lease lapsed.

        A job on its final attempt is settled here: ``failed`` when its name is in
        *drop_exhausted*, else ``dead``. It is reported by the call that buried it and
        by no other.
        """
        ...

    def renew(
        self, claims: Collection[ClaimIdentity], *, lease: timedelta, beats: Sequence[WorkerBeat]
    ) -> Renewal:
        """Extend the leases of *claims*, and record the workers' signs of life."""
        ...

    def lapse(self, claims: Collection[ClaimIdentity]) -> int:
        """End the leases of *claims* now, because their worker is known to be dead."""
        ...

    def forget_workers(self, worker_ids: Collection[str]) -> None:
        """Drop the registry rows of workers that stopped."""
        ...

    def probe(self, queues: Collection[str]) -> Probe:
        """Ask what waits in *queues*, and when next something falls due or lapses."""
        ...

    def listen(self) -> Listener | None:
        """A session that hears wakes; None when the driver has none.

        Raises:
            StoreUnavailable: The store could not be reached.
        """
        ...

    # -- the running attempt, each fenced

    def settle(self, settlements: Sequence[Settlement], *, wait: bool = True) -> list[bool | None]:
        """End attempts, one fenced transition each; whether each landed, in order.

        One that did not land changed nothing: the claim no longer holds the job. A job
        that ends makes its parent due when it was the last child, and a held sibling when
        there is one, in the same statement; whoever parked at that moment is looked for
        once more after the commit.

        Args:
            wait: False answers None for a job that another transaction has locked, which
                changed nothing yet: ask again. The others do not wait for it.
        """
        ...

    def record_progress(self, identity: ClaimIdentity, progress: str) -> bool:
        """Store a progress value (JSON text); whether it landed."""
        ...

    def record_version(self, identity: ClaimIdentity, code_version: str) -> bool:
        """Store which version of its code runs the job; whether it landed."""
        ...

    def hold(self, identity: ClaimIdentity) -> None:
        """Lock the claim's row until the caller's transaction ends.

        Call it last before COMMIT, so that the row is not locked while a body works.

        Raises:
            LeaseLost: The claim no longer holds the job.
        """
        ...

    # -- steps and events

    def load_steps(self, job_id: UUID) -> list[StepRow]:
        """The stored steps of a job, in order."""
        ...

    def put_step(self, identity: ClaimIdentity, step: NewStep) -> StepRow:
        """Write a checkpoint under the fence and answer it as stored.

        A waiting or sleeping step keeps the instants and the mark of its first write.

        Raises:
            LeaseLost: The claim no longer holds the job; nothing was written.
        """
        ...

    def publish(
        self,
        event_id: UUID,
        name: str,
        payload: str,
        *,
        key: str | None,
        ttl: timedelta,
        job_id: UUID | None = None,
    ) -> None:
        """Store an event in the caller's transaction and wake the jobs that wait for it.

        They are woken in the same transaction and once more after it committed.

        Args:
            job_id: Only this job may take it. Without a key, any of its waits for the name.
        """
        ...

    def find_event(self, wait: StepRow) -> EventRow | None:
        """The oldest live event that *wait* may take.

        One committed after the wait began, of any of its filters, that its cursor does not
        refuse. Oldest by the pair of publishing time and id.
        """
        ...

    def children(self, family_id: UUID, count: int) -> list[ChildRow]:
        """The children of one step in their order; those that were removed are missing."""
        ...

    def wake_parents(self, job_ids: Collection[UUID]) -> int:
        """Make those parked *job_ids* due of which a step has no live child left.

        Args:
            job_ids: In a mapping, each with the steps to look at; else all of its open ones.
        """
        ...

    def wake_waiters(self, job_ids: Collection[UUID]) -> int:
        """Make those parked *job_ids* due whose open wait has a matching event.

        Args:
            job_ids: In a mapping, each with the steps to look at; else all of its open ones.
        """
        ...

    def wake_missed(self, *, limit: int) -> int:
        """Make up to *limit* parked jobs due whose event is there or whose children ended.

        The last resort for a wake that was lost with its process; how many it was. Held
        children that nobody is left to make due are made due as well.
        """
        ...

    def set_waits_aside(self, *, limit: int) -> int:
        """Spare publishers up to *limit* open waits of finished jobs; how many it was.

        No event ends the wait of a job that has ended, so none need read it. A requeue
        takes the wait up again as it was.
        """
        ...

    def purge_events(self, *, limit: int) -> int:
        """Delete up to *limit* expired events, oldest first; how many it was."""
        ...

    def now(self) -> datetime:
        """The store's clock."""
        ...

    # -- operations

    def show(self, job_id: UUID) -> JobRow | None: ...

    def list_jobs(
        self, where: JobFilter, *, limit: int, after: UUID | None, before: UUID | None
    ) -> list[JobRow]:
        """One page, newest first; *after* pages to older rows, *before* to newer ones."""
        ...

    def attempts(self, job_id: UUID) -> list[AttemptRow]:
        """The tries that did not end ``done``, or whose steps were taken back; newest first."""
        ...

    def requeue(
        self, job_id: UUID, *, max_attempts: int | None = None, from_step: str | None = None
    ) -> JobRow:
        """Move a finished job to ``ready``, due now, with attempt 0 and its steps kept.

        Args:
            from_step: Take back this step and those reached after it, in the same statement;
                copies stay in the history of attempts.

        Raises:
            JobNotFound: No job has this id.
            JobNotRequeueable: The job is live.
            JobDuplicate: A live job holds its key.
            StepNotFound: It has not stored *from_step*.
        """
        ...

    def cancel(self, job_id: UUID, *, reason: str) -> str | None:
        """Move a live job to ``cancelled``; the state it was in, or None if not live."""
        ...

    def promote(self, job_id: UUID) -> JobRow:
        """Make a waiting job due now.

        Raises:
            JobNotFound: No job has this id.
            JobNotPromotable: It does not wait for its time.
        """
        ...

    def remove(self, job_id: UUID) -> None:
        """Delete a job that is not running, with its steps and attempts.

        Raises:
            JobNotFound: No job has this id.
            JobNotRemovable: It is running.
        """
        ...

    def pause_queue(self, queue: str, *, by: str, reason: str) -> None:
        """Stop claims from *queue* at every worker's next claim."""
        ...

    def resume_queue(self, queue: str) -> None:
        """Undo ``pause_queue`` and wake the queue."""
        ...

    def stats(self) -> list[QueueStats]:
        """Depth of every queue that holds an unfinished or dead job."""
        ...

    def version_waits(self) -> dict[tuple[str, str], int]:
        """How many runs wait for a worker with that version, by job name and version."""
        ...
