"""What becomes of outcomes when the store refuses, is away, or does not answer."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import pytest

from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.exceptions import StoreUnavailable
from django_durable_jobs.signals import job_settled
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimedJob, Settlement
from django_durable_jobs.testing.conformance import given
from django_durable_jobs.worker.channel import Channel
from django_durable_jobs.worker.reporting import Reporter
from django_durable_jobs.worker.settling import Outcome, Released, Settler

PATIENCE = 20


class Unruly(MemoryStore):
    """A store whose ``settle`` first does what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[Sequence[Settlement]], None] = lambda settlements: None
        self.after: Callable[[Sequence[Settlement]], None] = lambda settlements: None
        self.calls = 0

    def settle(self, settlements: Sequence[Settlement], *, wait: bool = True) -> list[bool | None]:
        self.calls += 1
        self.before(settlements)
        landed = super().settle(settlements, wait=wait)
        self.after(settlements)
        return landed


@pytest.fixture
def unruly() -> Unruly:
    return Unruly()


def nothing(outcomes: Sequence[Outcome], landed: Sequence[Settlement | None]) -> None:
    pass


@contextmanager
def settling(store: JobStore, released: Released = nothing) -> Iterator[Settler]:
    settler = Settler(store, released)
    settler.start()
    yield settler
    assert settler.finish(PATIENCE)


def jobs(store: JobStore, count: int) -> list[ClaimedJob]:
    for _ in range(count):
        given.enqueue(store)
    return given.claim(store, count)


def done(job: ClaimedJob, result: str = '"ok"') -> Settlement:
    return Settlement(job.identity, "done", result=result)


class Answers:
    """Collects what the settler answers."""

    def __init__(self, expected: int) -> None:
        self.given: dict[ClaimedJob, Settlement | None] = {}
        self._left = threading.Semaphore(0)
        self._expected = expected

    def outcome(self, job: ClaimedJob, settlement: Settlement) -> Outcome:
        def answer(landed: Settlement | None) -> None:
            self.given[job] = landed
            self._left.release()

        return Outcome(job, settlement, answer=answer)

    def wait(self) -> None:
        for _ in range(self._expected):
            assert self._left.acquire(timeout=PATIENCE), "An outcome was never answered."


def test_one_bad_outcome_in_a_batch_holds_up_no_other(unruly):
    def refuse_bad(settlements):
        if any(settlement.result == '"bad"' for settlement in settlements):
            raise ValueError("invalid input")

    unruly.before = refuse_bad
    claimed = jobs(unruly, 9)
    answers = Answers(9)
    settler = Settler(unruly, nothing)
    for place, job in enumerate(claimed):
        settler.hand_in(answers.outcome(job, done(job, '"bad"' if place == 4 else '"ok"')))
    settler.start()
    answers.wait()
    assert settler.finish(PATIENCE)

    states = [given.shown(unruly, job.identity.job_id).state for job in claimed]
    assert states == ["done"] * 4 + ["dead"] + ["done"] * 4


def test_a_refused_outcome_is_answered_with_what_was_stored_instead(unruly):
    """Else the hook would be told of a success that is no success."""

    def refuse_results(settlements):
        if any(settlement.result is not None for settlement in settlements):
            raise ValueError("invalid input")

    unruly.before = refuse_results
    (job,) = jobs(unruly, 1)
    answers = Answers(1)
    with settling(unruly) as settler:
        settler.hand_in(answers.outcome(job, done(job)))
        answers.wait()

    landed = answers.given[job]
    assert landed is not None
    assert landed.state == "dead"
    assert landed.failure is not None
    assert landed.failure.message == "invalid input"


def test_a_store_that_refuses_everything_is_asked_a_bounded_number_of_times(unruly):
    def refuse(settlements):
        raise ValueError("read-only")

    unruly.before = refuse
    claimed = jobs(unruly, 4)
    answers = Answers(4)
    settler = Settler(unruly, nothing)
    for job in claimed:
        settler.hand_in(answers.outcome(job, done(job)))
    settler.start()
    answers.wait()
    assert settler.finish(PATIENCE)

    assert set(answers.given.values()) == {None}
    # Once together, twice in halves, and for each alone: its outcome, and that it was refused.
    assert unruly.calls == 1 + 2 + 4 * 2


def test_an_outcome_whose_answer_was_lost_is_known_to_have_landed(unruly):
    lost: list[str] = []

    def lose_the_first_answer(settlements):
        if not lost:
            lost.append("answer")
            raise StoreUnavailable("The connection broke.")

    unruly.after = lose_the_first_answer
    (job,) = jobs(unruly, 1)
    answers = Answers(1)
    with settling(unruly) as settler:
        settler.hand_in(answers.outcome(job, done(job)))
        answers.wait()

    assert answers.given[job] == done(job)
    assert unruly.calls == 2


def test_an_outcome_whose_answer_was_lost_is_not_taken_for_that_of_a_later_claim(unruly):
    def die_meanwhile(settlements):
        # The first try did not take effect; meanwhile another worker has ended the job.
        unruly.before = lambda settlements: None
        unruly.lapse([job.identity])
        (taken,) = unruly.rescue(
            "other", ["default"], limit=1, lease=given.LEASE, drop_exhausted=()
        ).claimed
        MemoryStore.settle(unruly, [done(taken, '"theirs"')])
        raise StoreUnavailable("The connection broke.")

    unruly.before = die_meanwhile
    (job,) = jobs(unruly, 1)
    answers = Answers(1)
    with settling(unruly) as settler:
        settler.hand_in(answers.outcome(job, done(job)))
        answers.wait()

    assert answers.given[job] is None
    assert given.shown(unruly, job.identity.job_id).result == '"theirs"'


def test_a_park_whose_answer_was_lost_still_looks_for_its_event(unruly):
    def lose_the_answer(settlements):
        unruly.after = lambda settlements: None
        given.publish(unruly)
        raise StoreUnavailable("The connection broke.")

    (job,) = jobs(unruly, 1)
    given.put_wait(unruly, job.identity)
    unruly.after = lose_the_answer
    parked = Settlement(job.identity, "suspended", give_back=True, waits=True)
    answers = Answers(1)
    with settling(unruly) as settler:
        settler.hand_in(answers.outcome(job, parked))
        answers.wait()

    assert answers.given[job] == parked
    assert [again.identity.job_id for again in given.claim(unruly)] == [job.identity.job_id]


def test_outcomes_are_answered_whatever_befalls_the_batch(unruly):
    """A slot with a hook waits for the answer; without one it would wait for ever."""

    def fail(outcomes, landed):
        raise RuntimeError("the report failed")

    claimed = jobs(unruly, 3)
    answers = Answers(3)
    with settling(unruly, fail) as settler:
        for job in claimed:
            settler.hand_in(answers.outcome(job, done(job)))
        answers.wait()

    assert all(answers.given.values())


def test_a_receiver_that_calls_exit_does_not_end_the_settling(unruly, channels):
    ours, _ = channels
    reporter = Reporter(ours, lease=given.LEASE, kill_grace=timedelta(0))
    told: list[str] = []

    def leave(**facts):
        told.append(facts["state"])
        sys.exit(3)

    job_settled.connect(leave)
    try:
        for job in jobs(unruly, 2):
            answers = Answers(1)
            with settling(unruly, reporter.release) as settler:
                settler.hand_in(answers.outcome(job, done(job)))
                answers.wait()
    finally:
        job_settled.disconnect(leave)

    assert told == ["done", "done"]


def test_an_outcome_that_did_not_land_sends_no_signal(unruly, channels):
    ours, _ = channels
    reporter = Reporter(ours, lease=given.LEASE, kill_grace=timedelta(0))
    (job,) = jobs(unruly, 1)
    unruly.cancel(job.identity.job_id, reason="by hand")
    told: list[str] = []

    def note(**facts):
        told.append(facts["state"])

    job_settled.connect(note)
    answers = Answers(1)
    try:
        with settling(unruly, reporter.release) as settler:
            settler.hand_in(answers.outcome(job, done(job)))
            answers.wait()
    finally:
        job_settled.disconnect(note)

    assert answers.given[job] is None
    assert told == []


def test_the_backlog_counts_an_outcome_until_its_fate_is_known(unruly):
    begun, go_on = threading.Event(), threading.Event()

    def hold(settlements):
        begun.set()
        assert go_on.wait(PATIENCE)

    unruly.before = hold
    (job,) = jobs(unruly, 1)
    with settling(unruly) as settler:
        settler.hand_in(Outcome(job, done(job)))
        assert begun.wait(PATIENCE)
        assert settler.backlog == 1
        go_on.set()
    assert settler.backlog == 0


def test_an_end_without_a_database_comes_in_time_and_answers_the_slots(unruly):
    def away(settlements):
        raise StoreUnavailable("The server is down.")

    unruly.before = away
    (job,) = jobs(unruly, 1)
    answers = Answers(1)
    settler = Settler(unruly, nothing)
    settler.start()
    settler.hand_in(answers.outcome(job, done(job)))

    assert not settler.finish(0.05)
    answers.wait()
    assert answers.given[job] is None


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = socket.socketpair()
    ends = Channel(ours), Channel(theirs)
    yield ends
    for end in ends:
        end.close()
