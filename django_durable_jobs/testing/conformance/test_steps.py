from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from django_durable_jobs import states
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import NewStep

from .given import Clock, claim_id, claimed, publish, put_wait, settle


class TestSteps:
    def test_a_checkpoint_is_there_when_its_write_returns(self, store: JobStore) -> None:
        identity = claimed(store)
        before = store.now()

        step = store.put_step(identity, NewStep("charge", 1, "done", output='{"paid": true}'))

        assert (step.name, step.seq, step.status, step.attempt) == ("charge", 1, "done", 1)
        assert step.output is not None
        assert json.loads(step.output) == {"paid": True}
        assert step.finished_at is not None
        assert before <= step.started_at <= step.finished_at <= store.now()
        assert store.load_steps(identity.job_id) == [step]

    def test_a_step_that_took_a_while_started_so_long_before_it_finished(
        self, store: JobStore
    ) -> None:
        took = timedelta(seconds=7, milliseconds=250)

        step = store.put_step(claimed(store), NewStep("charge", 1, "done", output="1", took=took))

        assert step.finished_at is not None
        assert step.finished_at - step.started_at == took

    def test_an_output_of_nothing_is_not_the_lack_of_an_output(self, store: JobStore) -> None:
        identity = claimed(store)

        step = store.put_step(identity, NewStep("charge", 1, "done", output="null"))

        assert step.output == "null"

    def test_steps_are_told_in_their_order(self, store: JobStore) -> None:
        identity = claimed(store)
        for seq, name in enumerate(["zeta", "alpha", "mid"], start=1):
            store.put_step(identity, NewStep(name, seq, "done", output="1"))

        assert [step.name for step in store.load_steps(identity.job_id)] == ["zeta", "alpha", "mid"]

    def test_a_job_without_steps_or_unknown_has_none(self, store: JobStore) -> None:
        assert store.load_steps(claimed(store).job_id) == []
        assert store.load_steps(new_id()) == []

    def test_steps_of_the_same_name_belong_to_their_jobs(self, store: JobStore) -> None:
        first, second = claimed(store), claimed(store)
        store.put_step(first, NewStep("charge", 1, "done", output="1"))
        store.put_step(second, NewStep("charge", 1, "done", output="2"))

        assert [step.output for step in store.load_steps(first.job_id)] == ["1"]
        assert [step.output for step in store.load_steps(second.job_id)] == ["2"]

    def test_a_finished_step_put_again_answers_what_is_stored(
        self, store: JobStore, clock: Clock
    ) -> None:
        """The write may have been retried after its answer was lost."""
        identity = claimed(store)
        stored = store.put_step(identity, NewStep("charge", 1, "done", output="1"))
        clock.advance(seconds=5)

        again = store.put_step(identity, NewStep("charge", 2, "done", output="2"))

        assert again == stored
        assert store.load_steps(identity.job_id) == [stored]

    def test_a_finished_step_is_never_made_to_wait_again(self, store: JobStore) -> None:
        identity = claimed(store)
        stored = store.put_step(identity, NewStep("pause", 1, "done", output="1"))

        store.put_step(identity, NewStep("pause", 1, "sleeping", wait=timedelta(hours=1)))

        assert store.load_steps(identity.job_id) == [stored]

    def test_a_sleep_ends_by_the_stores_clock_and_a_replay_does_not_extend_it(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        sleep = NewStep("cool off", 1, "sleeping", wait=timedelta(hours=1))
        first = store.put_step(identity, sleep)
        clock.advance(minutes=30)

        again = store.put_step(identity, sleep)

        assert first.wake_at == first.started_at + timedelta(hours=1)
        assert (again.wake_at, again.started_at) == (first.wake_at, first.started_at)
        assert first.finished_at is None

    def test_an_instant_wins_over_a_length(self, store: JobStore) -> None:
        identity = claimed(store)
        later = store.now() + timedelta(days=2)

        step = store.put_step(
            identity, NewStep("cool off", 1, "sleeping", wait=timedelta(0), until=later)
        )

        assert step.wake_at == later

    def test_a_wait_without_a_timeout_never_wakes_by_itself(self, store: JobStore) -> None:
        step = put_wait(store, claimed(store), correlation_key="7")

        assert (step.status, step.event, step.correlation_key) == ("waiting", "approved", "7")
        assert (step.wake_at, step.output, step.finished_at) == (None, None, None)

    def test_a_replayed_wait_keeps_where_it_began(self, store: JobStore, clock: Clock) -> None:
        identity = claimed(store)
        first = put_wait(store, identity, wait=timedelta(days=3))
        clock.advance(hours=1)
        publish(store, "something else")

        again = put_wait(store, identity, wait=timedelta(days=3))

        assert (again.started_at, again.wake_at, again.mark) == (
            first.started_at,
            first.wake_at,
            first.mark,
        )

    @pytest.mark.parametrize("status", ["done", "timed_out"])
    def test_an_open_wait_is_finished_in_place(
        self, store: JobStore, clock: Clock, status: str
    ) -> None:
        identity = claimed(store)
        opened = put_wait(store, identity, wait=timedelta(minutes=5))
        clock.advance(minutes=6)

        step = store.put_step(
            identity,
            NewStep("approval", 1, "done", output="1", event="approved")
            if status == "done"
            else NewStep("approval", 1, "timed_out", event="approved"),
        )

        assert (step.status, step.started_at) == (status, opened.started_at)
        assert step.output == ("1" if status == "done" else None)
        assert step.finished_at is not None
        assert step.finished_at >= opened.started_at + timedelta(minutes=5)
        assert store.load_steps(identity.job_id) == [step]

    def test_a_call_is_told_with_its_family_and_keeps_it(
        self, store: JobStore, clock: Clock
    ) -> None:
        identity = claimed(store)
        family_id = new_id()
        calling = NewStep(
            "ship", 1, "calling", family_id=family_id, children=50, children_at_once=4
        )
        opened = store.put_step(identity, calling)
        clock.advance(minutes=5)

        again = store.put_step(identity, replace(calling, children=51, family_id=new_id()))

        assert (opened.status, opened.is_open, opened.wake_at) == ("calling", True, None)
        assert (opened.family_id, opened.children, opened.children_at_once) == (family_id, 50, 4)
        assert again == opened
        assert store.load_steps(identity.job_id) == [opened]

    @pytest.mark.parametrize("status", ["done", "failed"])
    def test_a_call_ends_in_place_with_what_became_of_it(
        self, store: JobStore, clock: Clock, status: Any
    ) -> None:
        identity = claimed(store)
        opened = store.put_step(
            identity, NewStep("ship", 1, "calling", family_id=new_id(), children=1)
        )
        clock.advance(minutes=5)

        ended = store.put_step(identity, NewStep("ship", 1, status, output="1"))

        assert ended == replace(opened, status=status, output="1", finished_at=ended.finished_at)
        assert ended.finished_at is not None
        assert ended.finished_at >= opened.started_at + timedelta(minutes=5)
        assert store.put_step(identity, NewStep("ship", 1, "done", output="2")) == ended

    def test_a_replay_of_an_open_step_by_a_later_attempt_changes_nothing(
        self, store: JobStore
    ) -> None:
        identity = claimed(store)
        opened = put_wait(store, identity)
        settle(store, identity, states.READY)
        again = claim_id(store, identity.job_id)

        assert put_wait(store, again) == opened
        ended = store.put_step(again, NewStep("approval", 1, "timed_out", event="approved"))

        assert (opened.attempt, ended.attempt) == (1, 2)

    def test_an_outcome_of_a_wait_is_not_decided_again(self, store: JobStore) -> None:
        identity = claimed(store)
        put_wait(store, identity)
        store.put_step(identity, NewStep("approval", 1, "timed_out", event="approved"))

        again = store.put_step(identity, NewStep("approval", 1, "done", output="1"))

        assert again.status == "timed_out"

    def test_the_next_claim_goes_on_from_the_steps_of_the_last(self, store: JobStore) -> None:
        identity = claimed(store)
        stored = store.put_step(identity, NewStep("charge", 1, "done", output="1"))
        settle(store, identity, states.READY)
        again = claim_id(store, identity.job_id)

        second = store.put_step(again, NewStep("ship", 2, "done", output="2"))

        assert store.load_steps(identity.job_id) == [stored, second]
        assert (stored.attempt, second.attempt) == (1, 2)

    def test_a_checkpoint_in_a_transaction_is_there_after_its_commit(self, store: JobStore) -> None:
        identity = claimed(store)

        with store.atomic():
            step = store.put_step(identity, NewStep("charge", 1, "done", output="1"))
            store.hold(identity)
            assert store.load_steps(identity.job_id) == [step]

        assert store.load_steps(identity.job_id) == [step]

    def test_long_and_foreign_step_names_are_kept_as_given(self, store: JobStore) -> None:
        identity = claimed(store)
        names = ["prüfen", "line 7: 'a' \"b\" \\ %s", "x" * 500]
        for seq, name in enumerate(names, start=1):
            store.put_step(identity, NewStep(name, seq, "done", output="1"))

        assert [step.name for step in store.load_steps(identity.job_id)] == names
