"""A requeue from a step takes back that step and what came after it, and nothing else."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import JobDuplicate, JobNotRequeueable, StepNotFound
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import AttemptRow, ClaimIdentity, NewStep, StepRow

from .given import (
    BOOM,
    Clock,
    claim,
    claim_id,
    claimed,
    enqueue,
    everything,
    publish,
    put_wait,
    settle,
    shown,
)


def put(store: JobStore, identity: ClaimIdentity, *names: str, first: int = 1) -> list[StepRow]:
    return [
        store.put_step(identity, NewStep(name, seq, "done", output=f'{{"step": "{name}"}}'))
        for seq, name in enumerate(names, first)
    ]


def given_up(store: JobStore, *names: str, **options: Any) -> UUID:
    """A dead job with these finished steps."""
    identity = claimed(store, **options)
    put(store, identity, *names)
    assert settle(store, identity, states.DEAD, failure=BOOM)
    return identity.job_id


def names_of(steps: list[StepRow]) -> list[str]:
    return [step.name for step in steps]


def copies_of(attempt: AttemptRow) -> list[dict[str, Any]]:
    assert attempt.steps is not None
    copies: list[dict[str, Any]] = json.loads(attempt.steps)
    return copies


class TestRequeueFromAStep:
    @pytest.mark.parametrize(
        ("from_step", "left"),
        [("reserve", []), ("charge", ["reserve"]), ("ship", ["reserve", "charge"])],
    )
    def test_that_step_and_those_reached_after_it_are_taken_back(
        self, store: JobStore, from_step: str, left: list[str]
    ) -> None:
        job_id = given_up(store, "reserve", "charge", "ship")
        before = store.load_steps(job_id)
        now = store.now()

        answer = store.requeue(job_id, from_step=from_step)

        assert answer == shown(store, job_id)
        assert (answer.state, answer.attempt, answer.generation) == (states.READY, 0, 1)
        assert now <= answer.run_at <= store.now()
        assert store.load_steps(job_id) == [step for step in before if step.name in left]

    def test_what_came_after_it_is_told_by_its_place_and_not_by_its_time(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        for seq, name in [(3, "ship"), (1, "reserve"), (2, "charge")]:
            put(store, identity, name, first=seq)
            clock.advance(seconds=1)
        settle(store, identity, states.DEAD, failure=BOOM)

        store.requeue(identity.job_id, from_step="charge")

        assert names_of(store.load_steps(identity.job_id)) == ["reserve"]

    def test_a_plain_requeue_takes_nothing_back(self, store: JobStore) -> None:
        job_id = given_up(store, "reserve", "charge")
        before = store.load_steps(job_id)

        answer = store.requeue(job_id)

        assert answer.generation == 0
        assert store.load_steps(job_id) == before
        assert [attempt.steps for attempt in store.attempts(job_id)] == [None]

    def test_copies_stay_with_the_attempt_in_their_order(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        put(store, identity, "reserve", "charge")
        wait = put_wait(store, identity, seq=3, correlation_key="7", wait=timedelta(hours=1))
        clock.advance(seconds=5)
        settle(store, identity, states.DEAD, failure=BOOM)

        store.requeue(identity.job_id, from_step="charge")

        [attempt] = store.attempts(identity.job_id)
        assert (attempt.outcome, attempt.message) == (states.DEAD, BOOM.message)
        charge, approval = copies_of(attempt)
        assert set(charge) == {
            "name",
            "seq",
            "status",
            "output",
            "event",
            "key",
            "wake_at",
            "started_at",
            "finished_at",
            "attempt",
        }
        assert (charge["name"], charge["seq"], charge["status"]) == ("charge", 2, "done")
        assert (charge["output"], charge["attempt"]) == ({"step": "charge"}, 1)
        assert (charge["event"], charge["key"], charge["wake_at"]) == ("", None, None)
        assert (approval["name"], approval["status"]) == ("approval", "waiting")
        assert (approval["event"], approval["key"]) == ("approved", "7")
        assert datetime.fromisoformat(approval["wake_at"]) == wait.wake_at
        assert datetime.fromisoformat(approval["started_at"]) == wait.started_at
        assert (approval["output"], approval["finished_at"]) == (None, None)

    def test_an_output_is_copied_to_the_last_digit(self, store: JobStore) -> None:
        identity = claimed(store)
        text = '{"amount": 0.1000000000000000000001, "id": 9007199254740993}'
        store.put_step(identity, NewStep("charge", 1, "done", output=text))
        settle(store, identity, states.DEAD, failure=BOOM)

        store.requeue(identity.job_id, from_step="charge")

        [attempt] = store.attempts(identity.job_id)
        assert attempt.steps is not None
        assert "0.1000000000000000000001" in attempt.steps
        assert "9007199254740993" in attempt.steps

    def test_a_claim_without_an_attempt_in_the_history_gets_one_for_the_copies(
        self, store: JobStore
    ) -> None:
        identity = claimed(store)
        put(store, identity, "reserve", "charge")
        settle(store, identity, states.DONE, result="1")

        store.requeue(identity.job_id, from_step="charge")

        [attempt] = store.attempts(identity.job_id)
        assert (attempt.claim, attempt.attempt) == (identity.claim, 1)
        assert (attempt.outcome, attempt.worker_id) == ("requeued", identity.worker_id)
        assert (attempt.code, attempt.error_class, attempt.message) == ("", "", "")
        assert attempt.started_at is not None
        assert [copy["name"] for copy in copies_of(attempt)] == ["charge"]

    def test_what_is_taken_back_again_is_added_to_the_same_attempt(self, store: JobStore) -> None:
        job_id = given_up(store, "reserve", "charge", "ship")
        store.requeue(job_id, from_step="ship")
        store.cancel(job_id, reason="")

        answer = store.requeue(job_id, from_step="charge")

        assert answer.generation == 2
        [attempt] = store.attempts(job_id)
        assert [copy["name"] for copy in copies_of(attempt)] == ["ship", "charge"]

    def test_what_another_attempt_stored_is_added_to_that_one(self, store: JobStore) -> None:
        job_id = given_up(store, "reserve", "charge")
        store.requeue(job_id, from_step="charge")
        identity = claim_id(store, job_id)
        put(store, identity, "charge", "ship", first=2)
        settle(store, identity, states.DEAD, failure=BOOM)

        store.requeue(job_id, from_step="charge")

        assert [
            [copy["name"] for copy in copies_of(attempt)] for attempt in store.attempts(job_id)
        ] == [["charge", "ship"], ["charge"]]

    @pytest.mark.parametrize("names", [(), ("reserve", "charge")])
    def test_an_unknown_step_is_refused_with_the_stored_ones_and_changes_nothing(
        self, store: JobStore, names: tuple[str, ...]
    ) -> None:
        job_id = given_up(store, *names)
        before = everything(store, job_id)

        with pytest.raises(StepNotFound) as refusal:
            store.requeue(job_id, from_step="refund", max_attempts=9)

        assert (refusal.value.job_id, refusal.value.step) == (str(job_id), "refund")
        assert refusal.value.fix == (
            f"Its stored steps: {_listed(names)}. One that failed stored nothing: a requeue "
            "without a step runs it again."
        )
        assert everything(store, job_id) == before

    def test_of_a_live_job_nothing_is_taken_back(self, store: JobStore) -> None:
        identity = claimed(store)
        put(store, identity, "reserve")
        before = everything(store, identity.job_id)

        for from_step in ("reserve", "no such step"):
            with pytest.raises(JobNotRequeueable):
                store.requeue(identity.job_id, from_step=from_step)

        assert everything(store, identity.job_id) == before

    def test_of_a_job_whose_key_is_held_nothing_is_taken_back(self, store: JobStore) -> None:
        job_id = given_up(store, "reserve", idempotency_key="order:7")
        enqueue(store, idempotency_key="order:7", delay=timedelta(hours=1))
        before = everything(store, job_id)

        with pytest.raises(JobDuplicate):
            store.requeue(job_id, from_step="reserve")

        assert everything(store, job_id) == before

    def test_the_steps_of_other_jobs_stay(self, store: JobStore) -> None:
        other = given_up(store, "reserve", "charge")
        job_id = given_up(store, "reserve", "charge")
        before = everything(store, other)

        store.requeue(job_id, from_step="reserve")

        assert everything(store, other) == before

    def test_a_sleep_that_stays_keeps_its_instants(self, store: JobStore, clock: Clock) -> None:
        identity = claimed(store)
        sleep = store.put_step(
            identity, NewStep("cool off", 1, "sleeping", wait=timedelta(hours=1))
        )
        put(store, identity, "charge", first=2)
        settle(store, identity, states.SUSPENDED, run_at=sleep.wake_at, give_back=True)
        store.cancel(identity.job_id, reason="")
        clock.advance(minutes=10)

        store.requeue(identity.job_id, from_step="charge")

        assert store.load_steps(identity.job_id) == [sleep]
        again = claim_id(store, identity.job_id)
        assert (
            store.put_step(again, NewStep("cool off", 1, "sleeping", wait=timedelta(hours=1)))
        ) == sleep

    def test_a_wait_that_was_taken_back_is_woken_no_more_and_begins_anew(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        put_wait(store, identity)
        settle(store, identity, states.DEAD, failure=BOOM)
        publish(store)
        store.requeue(identity.job_id, from_step="approval")

        again = claim_id(store, identity.job_id)
        wait = put_wait(store, again)
        settle(store, again, states.SUSPENDED, give_back=True, waits=True)

        # It was published before this wait began.
        assert store.find_event(wait) is None
        assert not shown(store, identity.job_id).is_armed
        publish(store)
        assert shown(store, identity.job_id).is_armed

    def test_the_claim_of_the_requeued_job_knows_its_generation(self, store: JobStore) -> None:
        job_id = given_up(store, "reserve")
        store.requeue(job_id, from_step="reserve")

        [job] = claim(store)

        assert (job.identity.job_id, job.generation) == (job_id, 1)

    def test_a_requeue_inside_a_transaction_comes_and_goes_with_it(self, store: JobStore) -> None:
        if not store.features.transactional:
            pytest.skip("The driver has no transactions.")
        job_id = given_up(store, "reserve", "charge")
        before = everything(store, job_id)

        with pytest.raises(ZeroDivisionError), store.atomic():
            store.requeue(job_id, from_step="charge")
            raise ZeroDivisionError

        assert everything(store, job_id) == before


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
