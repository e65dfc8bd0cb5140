"""A transaction that goes on after it locked a job holds up that job's outcome and no other."""

from __future__ import annotations

import threading

import pytest

from django_durable_jobs import states
from django_durable_jobs.store.rows import Settlement
from django_durable_jobs.testing.conformance.given import claim, claimed, enqueue, shown
from django_durable_jobs.worker.settling import Outcome, Settler

from .stepping import PATIENCE, REAL

pytestmark = REAL


class Answer:
    """What the settler told a slot."""

    def __init__(self) -> None:
        self.landed: Settlement | None = None
        self.is_given = threading.Event()

    def __call__(self, landed: Settlement | None) -> None:
        self.landed = landed
        self.is_given.set()


@pytest.fixture
def settler(worker):
    settler = Settler(worker, lambda *_: None)
    settler.start()
    yield settler
    assert settler.finish(PATIENCE)


def test_a_settle_that_need_not_wait_names_the_jobs_that_are_locked(worker, rival):
    one, other = claimed(worker), claimed(worker)
    settlements = [Settlement(identity, states.DONE, result="1") for identity in (one, other)]

    with rival.atomic():
        rival.cancel(one.job_id, reason="by hand")
        assert worker.settle(settlements, wait=False) == [None, True]

    assert worker.settle(settlements, wait=False) == [False, False]


@pytest.mark.parametrize(
    ("act", "fate"),
    [
        (lambda rival, identity: rival.cancel(identity.job_id, reason=""), states.CANCELLED),
        (lambda rival, identity: rival.record_progress(identity, "1"), states.DONE),
    ],
    ids=["cancelled", "let go"],
)
def test_outcomes_do_not_wait_for_a_transaction_that_has_locked_the_job_of_another(
    worker, rival, settler, act, fate
):
    """A request that cancels a job and then talks to a slow service stopped a whole worker."""
    for _ in range(2):
        enqueue(worker)
    one, other = claim(worker)
    answers = {job: Answer() for job in (one, other)}

    with rival.atomic():
        act(rival, one.identity)
        for job, answer in answers.items():
            done = Settlement(job.identity, states.DONE, result="1")
            settler.hand_in(Outcome(job, done, answer=answer))
        assert answers[other].is_given.wait(PATIENCE)
        assert not answers[one].is_given.is_set()
        assert settler.backlog == 1
    assert answers[one].is_given.wait(PATIENCE)

    assert shown(worker, other.identity.job_id).state == states.DONE
    assert shown(worker, one.identity.job_id).state == fate
    assert (answers[one].landed is not None) == (fate == states.DONE)
    assert settler.backlog == 0
