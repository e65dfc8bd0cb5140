"""Store prepared rows where the caller's transaction decides over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import TransactionNotCovered
from django_durable_jobs.signals import job_enqueued
from django_durable_jobs.store import JobStore, get_detached_store, get_store
from django_durable_jobs.store.rows import ConflictPolicy, Inserted, NewJob, Wake

from .announce import Announcement, announcement_of_transaction

ANNOUNCED_AHEAD: Final = 30.0
"""Rows due within so many seconds are announced with their time.

As long as the longest pause between a worker's looks at the store, so that a job due
between two looks still starts on time.
"""


def send(
    jobs: Sequence[NewJob], *, on_conflict: ConflictPolicy, transactional: bool
) -> list[Inserted]:
    """Store *jobs*, all or none, and wake their queues after the commit.

    Inside a transaction on the jobs database they commit and roll back with it, savepoints
    included; outside one they are stored when this returns.

    Raises:
        TransactionNotCovered: The open transaction is on another database, which the
            jobs cannot join: they could run before it commits, or although it rolled back.
        JobDuplicate: A live job holds a key and *on_conflict* is ``raise``.
        KeyContended: Another open transaction holds the same key.
        StoreUnavailable: The store could not be reached.
    """
    if not jobs:
        return []
    store = get_store() if transactional else get_detached_store()
    if transactional:
        _refuse_uncovered(store, jobs[0].name)
    answers = store.insert(jobs, on_conflict=on_conflict)
    wakes = [
        Wake(answer.queue, answer.due_in)
        for answer in answers
        if answer.created and answer.due_in <= ANNOUNCED_AHEAD
    ]
    if wakes and not (transactional and _is_committed_by_hand(store)):
        announcement = announcement_of_transaction() if transactional else Announcement()
        store.on_commit(lambda: announcement.send(store, wakes))
    if job_enqueued.has_listeners():
        for job, answer in zip(jobs, answers, strict=True):
            if answer.created:
                job_enqueued.send_robust(
                    sender=send, job_name=job.name, queue=job.queue, job_id=answer.id
                )
    return answers


def _is_committed_by_hand(store: JobStore) -> bool:
    """Whether the caller turned autocommit off: then Django tells nobody of a commit.

    Polling finds the jobs; a wake before the commit would wake for nothing.
    """
    if not store.features.transactional or store.in_atomic_block():
        return False
    connection = connections[settings.DATABASE]
    return not connection.in_atomic_block and not connection.get_autocommit()


def _refuse_uncovered(store: JobStore, job: str) -> None:
    if not store.features.transactional or store.in_atomic_block():
        return
    for connection in connections.all(initialized_only=True):
        if connection.alias != settings.DATABASE and _is_in_transaction(connection):
            raise TransactionNotCovered(
                f"Job '{job}' was enqueued inside a transaction on the database "
                f"'{connection.alias}', which the jobs on '{settings.DATABASE}' cannot join: "
                "the job could run before that transaction commits.",
                "Enqueue after it (transaction.on_commit), or say that the job may run whatever "
                "becomes of it: .using(transactional=False).",
            )


def _is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    if connection.in_atomic_block:
        # The block that a TestCase wraps around each test is no transaction of the caller's.
        return any(
            not getattr(block, "_from_testcase", False) for block in connection.atomic_blocks
        )
    is_open = connection.connection is not None
    return is_open and not connection.autocommit and connection.settings_dict["AUTOCOMMIT"]
