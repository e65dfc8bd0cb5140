"""Which version of a job's code ran it last, and which it waits for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimedJob

from .given import Clock, claim, claim_id, claimed, enqueue, settle, shown


class TestVersions:
    def test_a_job_keeps_the_version_of_the_code_that_enqueued_it(self, store: JobStore) -> None:
        job_id = enqueue(store, code_version="1")

        assert shown(store, job_id).code_version == "1"
        [job] = claim(store)
        assert (job.code_version, job.awaited_version) == ("1", "")

    def test_then_that_of_the_code_whose_attempt_was_settled_last(self, store: JobStore) -> None:
        identity = claimed(store, code_version="1")

        settle(store, identity, states.READY, code_version="2", replay_warning="It differs.")
        first = shown(store, identity.job_id)
        settle(store, claim_id(store, identity.job_id), states.READY, give_back=True)
        second = shown(store, identity.job_id)

        for row in (first, second):
            assert (row.code_version, row.replay_warning) == ("2", "It differs.")


class TestVersionWaits:
    def test_runs_that_wait_are_counted_by_name_and_version(self, store: JobStore) -> None:
        for name, version in [("shop.pay", "1"), ("shop.pay", "1"), ("shop.pay", "2")]:
            _hand_on(store, version, name=name)
        _hand_on(store, "1", name="shop.ship")
        enqueue(store)

        assert store.version_waits() == {
            ("shop.pay", "1"): 2,
            ("shop.pay", "2"): 1,
            ("shop.ship", "1"): 1,
        }

    def test_one_that_runs_or_has_ended_waits_no_more(self, store: JobStore, clock: Clock) -> None:
        running, cancelled = _hand_on(store, "1"), _hand_on(store, "1")
        store.cancel(cancelled, reason="")
        clock.advance(seconds=31)

        identity = claim_id(store, running)
        assert store.version_waits() == {}

        settle(store, identity, states.SUSPENDED, code_version="1", delay=timedelta(hours=1))
        assert store.version_waits() == {}
        assert shown(store, running).awaited_version == ""

    def test_a_requeued_job_waits_for_no_version_yet(self, store: JobStore) -> None:
        job_id = _hand_on(store, "1")
        store.cancel(job_id, reason="")

        assert store.requeue(job_id).awaited_version == ""
        assert store.version_waits() == {}

    def test_the_row_remembers_since_when_it_waits_for_this_version(
        self, store: JobStore, clock: Clock
    ) -> None:
        job_id = _hand_on(store, "1")
        first = _claim_again(store, job_id, clock)
        settle(store, first.identity, states.READY, give_back=True, awaited_version="1")
        second = _claim_again(store, job_id, clock)
        assert (first.awaited_version, second.awaited_version) == ("1", "1")
        assert first.unknown_since == second.unknown_since is not None

        settle(store, second.identity, states.READY, give_back=True, awaited_version="2")
        third = _claim_again(store, job_id, clock)
        assert third.unknown_since is not None
        assert third.unknown_since > second.claimed_at

        settle(store, third.identity, states.READY, give_back=True)
        fourth = _claim_again(store, job_id, clock)
        assert (fourth.awaited_version, fourth.unknown_since) == ("", None)

    def test_a_wait_for_a_version_does_not_count_as_an_unknown_name(
        self, store: JobStore, clock: Clock
    ) -> None:
        """Or a job would be given up as unknown that was known until now."""
        job_id = _hand_on(store, "1")
        first = _claim_again(store, job_id, clock)

        settle(store, first.identity, states.READY, give_back=True, unknown_name=True)
        second = _claim_again(store, job_id, clock)

        assert second.awaited_version == ""
        assert second.unknown_since is not None
        assert second.unknown_since > first.claimed_at


def _hand_on(store: JobStore, version: str, **options: Any) -> UUID:
    identity = claimed(store, **options)
    assert settle(
        store,
        identity,
        states.READY,
        delay=timedelta(seconds=30),
        give_back=True,
        awaited_version=version,
    )
    return identity.job_id


def _claim_again(store: JobStore, job_id: UUID, clock: Clock) -> ClaimedJob:
    clock.advance(seconds=31)
    [job] = claim(store)
    assert job.identity.job_id == job_id
    return job
