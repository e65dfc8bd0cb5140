"""One job, one verb, one statement of the store."""

from __future__ import annotations

from uuid import UUID

from django_durable_jobs.exceptions import JobNotCancellable
from django_durable_jobs.store import JobStore, get_store
from django_durable_jobs.store.names import storable
from django_durable_jobs.store.rows import JobRow, Wake

GONE = "gone"
"""What a refusal calls the state of a job that is not there any more."""


def requeue(
    job_id: UUID, *, max_attempts: int | None = None, from_step: str | None = None
) -> JobRow:
    """Make a finished job due now, with attempt 0 and its finished steps kept.

    A sleep or a wait that is kept ends when it would have ended.

    Args:
        max_attempts: Allow this many attempts from now on; as before if omitted.
        from_step: Take back this step and those reached after it: they run again. What they
            had stored stays in the history of attempts.

    Raises:
        JobNotFound: No job has this id.
        JobNotRequeueable: The job is live; moving it would run it twice.
        JobDuplicate: A live job holds its idempotency key.
        StepNotFound: It has not stored the step *from_step*.
    """
    store = get_store()
    row = store.requeue(job_id, max_attempts=max_attempts, from_step=from_step)
    _announce(store, row)
    return row


def cancel(job_id: UUID, *, reason: str = "") -> str:
    """Move a live job to ``cancelled`` and answer the state it was in.

    A running body keeps running until it notices; from now on none of its durable
    writes lands.

    Raises:
        JobNotCancellable: The job is not live, or no job has this id.
    """
    store = get_store()
    was = store.cancel(job_id, reason=storable(reason))
    if was is None:
        row = store.show(job_id)
        raise JobNotCancellable(job_id, GONE if row is None else row.state)
    return was


def promote(job_id: UUID) -> JobRow:
    """Make a job due now that waits for its time: delayed, or ready for a later retry.

    Raises:
        JobNotFound: No job has this id.
        JobNotPromotable: It does not wait for its time.
    """
    store = get_store()
    row = store.promote(job_id)
    _announce(store, row)
    return row


def remove(job_id: UUID) -> None:
    """Delete a job that is not running, with its steps and its attempts.

    Raises:
        JobNotFound: No job has this id.
        JobNotRemovable: It is running; cancel it first.
    """
    get_store().remove(job_id)


def _announce(store: JobStore, row: JobRow) -> None:
    # After the commit: a worker woken earlier would not see the row yet.
    store.on_commit(lambda: store.wake([Wake(row.queue)]))
