"""What the PostgreSQL driver keeps in its tables beyond what the port answers."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest
from django.db import connection

from django_durable_jobs import states
from django_durable_jobs.drivers.postgres import PostgresStore
from django_durable_jobs.exceptions import StateUnknown
from django_durable_jobs.models import Job, JobAttempt, JobPause, JobStep, JobWorker
from django_durable_jobs.store.rows import JobFilter, NewStep, WorkerBeat
from django_durable_jobs.testing.conformance.given import (
    BOOM,
    LEASE,
    claim,
    claimed,
    enqueue,
    publish,
    put_wait,
    settle,
)

pytestmark = pytest.mark.django_db

BEAT = WorkerBeat("worker-1", "host-a", 4711, ("default", "mail"), 8, "0.1")


@pytest.fixture
def store():
    with closing(PostgresStore()) as store:
        yield store


def test_the_jobs_table_leaves_room_for_renewals_and_is_vacuumed_by_count():
    """No model says so: a first migration that is made anew has to leave it to its own one."""
    with connection.cursor() as cursor:
        cursor.execute("select unnest(reloptions) from pg_class where oid = 'x_jobs'::regclass")
        options = {row[0] for row in cursor.fetchall()}

    assert options == {
        "fillfactor=80",
        "autovacuum_vacuum_scale_factor=0.02",
        "autovacuum_vacuum_threshold=1000",
        "autovacuum_analyze_scale_factor=0.05",
    }


def test_a_workers_sign_of_life_is_a_row_that_expires_with_its_lease(store, clock):
    store.renew([], lease=LEASE, beats=[BEAT])
    first = JobWorker.objects.get()
    clock.advance(seconds=20)

    store.renew([], lease=LEASE, beats=[BEAT])

    worker = JobWorker.objects.get()
    assert (worker.worker_id, worker.host, worker.pid) == ("worker-1", "host-a", 4711)
    assert (worker.queues, worker.slots, worker.version) == (["default", "mail"], 8, "0.1")
    assert worker.started_at == first.started_at
    assert worker.seen_at - first.seen_at >= timedelta(seconds=20)
    assert worker.expires_at == worker.seen_at + LEASE


def test_a_worker_without_queues_has_none(store):
    store.renew([], lease=LEASE, beats=[WorkerBeat("worker-2", "host-a", 1, (), 1, "0.1")])

    assert JobWorker.objects.get().queues == []


def test_a_worker_that_stopped_leaves_no_row(store):
    store.renew([], lease=LEASE, beats=[BEAT])

    store.forget_workers(["worker-1"])

    assert not JobWorker.objects.exists()


def test_a_removed_job_leaves_no_row_in_any_table(store):
    identity = claimed(store)
    store.put_step(identity, NewStep("charge", 1, "done", output="1"))
    settle(store, identity, states.DEAD, failure=BOOM)

    store.remove(identity.job_id)

    assert not JobStep.objects.exists()
    assert not JobAttempt.objects.exists()


def test_a_pause_says_by_whom_and_why(store):
    store.pause_queue("mail", by="ann", reason="The gateway is away.")

    pause = JobPause.objects.get()
    assert (pause.kind, pause.name) == ("queue", "mail")
    assert (pause.paused_by, pause.reason) == ("ann", "The gateway is away.")


def test_a_step_names_the_claim_that_wrote_it(store):
    identity = claimed(store)
    settle(store, identity, states.READY)
    identity = claim(store)[0].identity
    store.put_step(identity, NewStep("charge", 1, "done", output="1"))

    step = JobStep.objects.get()

    assert (step.claim, step.attempt) == (2, 2)


def test_attempts_given_back_never_fall_below_none(store):
    """Were a row's count ever wrong, a retry policy must still not meet a negative one."""
    identity = claimed(store)
    with connection.cursor() as cursor:
        cursor.execute("update x_jobs set attempt = 0")

    settle(store, identity, states.READY, give_back=True)

    assert Job.objects.get().attempt == 0


def test_a_stored_state_that_this_version_does_not_know_is_refused(store):
    """A newer version may have written it; acting on it would be a guess."""
    job_id = enqueue(store)
    with connection.cursor() as cursor:
        cursor.execute("alter table x_jobs drop constraint x_jobs_state_check")
        cursor.execute("update x_jobs set state = 'snoozed', is_armed = false")

    with pytest.raises(StateUnknown, match=f"Job {job_id} has the unknown state 'snoozed'"):
        store.show(job_id)
    with pytest.raises(StateUnknown):
        store.list_jobs(JobFilter(), limit=1, after=None, before=None)


def test_a_wait_in_a_tests_own_transaction_is_answered_by_an_event_of_the_same(store):
    """A ``TestCase`` commits nothing: there the order of stamps has to do."""
    wait = put_wait(store, claimed(store))

    with store.atomic():
        event_id = publish(store)

    found = store.find_event(wait)
    assert found is not None
    assert found.id == event_id


def test_a_run_that_parks_in_a_tests_own_transaction_finds_its_event(store):
    identity = claimed(store)
    put_wait(store, identity)
    publish(store)

    settle(store, identity, states.SUSPENDED, give_back=True, waits=True)

    assert claim(store)[0].identity.job_id == identity.job_id


def test_the_same_holds_when_another_session_commits_in_between(store):
    """Its commit moves every later snapshot past the test's own transaction."""
    identity = claimed(store)
    with closing(store.for_worker()) as stranger:
        stranger.renew([], lease=LEASE, beats=[BEAT])
        stranger.forget_workers([BEAT.worker_id])
    wait = put_wait(store, identity)
    event_id = publish(store)

    settle(store, identity, states.SUSPENDED, give_back=True, waits=True)

    found = store.find_event(wait)
    assert found is not None
    assert found.id == event_id
    assert [job.identity.job_id for job in claim(store)] == [identity.job_id]
