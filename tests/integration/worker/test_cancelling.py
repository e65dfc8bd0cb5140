"""Cancelling crosses whatever else happens to a job, and one of the two has happened."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from django_durable_jobs import JobContext, Retry, clock, job
from django_durable_jobs.models import Job, JobStep
from django_durable_jobs.testing import run_jobs
from tests.integration.declared import REAL
from tests.integration.worker.supervised import Supervisor, work_until_idle_beside

pytestmark = REAL

PATIENCE = 20
TIMES = 60


class Crossing:
    """Lets the end of a body and its cancelling begin at the same moment, many times."""

    def __init__(self) -> None:
        self.ready: dict[Any, threading.Event] = {}
        self.attempts: dict[Any, int] = {}
        self._lock = threading.Lock()
        self._meets = threading.Barrier(2)

    def meet(self, ctx: JobContext) -> None:
        with self._lock:
            again = ctx.job_id in self.attempts
            self.attempts[ctx.job_id] = ctx.attempt
        if not again:
            self._meets.wait(PATIENCE)

    def cancel(self, result: Any, supervisor: Supervisor) -> bool:
        self._meets.wait(PATIENCE)
        answer: bool = result.cancel()
        supervisor.lose(result.id)
        return answer


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_that_ends_while_it_is_cancelled_is_one_of_the_two_for_good(fails):
    crossing = Crossing()

    @job(name="crossing.body", retry=Retry(attempts=2, delay=0, jitter="none"))
    def body(ctx: JobContext) -> None:
        crossing.meet(ctx)
        if fails and ctx.attempt == 1:
            raise ValueError("no")

    # One after another: each is met by the canceller in its turn.
    results = [body.enqueue() for _ in range(TIMES)]
    answers: dict[Any, bool] = {}

    def act(supervisor: Supervisor) -> None:
        for result in results:
            answers[result.id] = crossing.cancel(result, supervisor)

    work_until_idle_beside(act, slots=1)

    states = dict(Job.objects.values_list("pk", "state"))
    assert len(answers) == TIMES
    for job_id, was_cancelled in answers.items():
        assert states[job_id] == ("cancelled" if was_cancelled else "done")
        if was_cancelled and not fails:
            assert crossing.attempts[job_id] == 1
    # Nothing of it is left to be run.
    assert run_jobs() == []
    assert dict(Job.objects.values_list("pk", "state")) == states


def test_a_job_that_waits_for_its_next_attempt_is_cancelled_at_once_and_never_tried_again():
    tried: list[int] = []

    @job(name="crossing.retry", retry=Retry(attempts=3, delay="1h", jitter="none"))
    def body(ctx: JobContext) -> None:
        tried.append(ctx.attempt)
        raise ValueError("no")

    result = body.enqueue()
    run_jobs()

    assert result.cancel()
    assert not result.cancel()
    clock.move(timedelta(hours=2))
    assert run_jobs() == []
    assert (Job.objects.get(pk=result.id).state, tried) == ("cancelled", [1])


def test_a_sleeping_run_is_cancelled_at_once_and_takes_no_further_step():
    ran: list[str] = []

    @job(name="crossing.sleep")
    def body(ctx: JobContext) -> None:
        ctx.step.run("before", ran.append, "before")
        ctx.step.sleep("pause", "1h")
        ctx.step.run("after", ran.append, "after")

    result = body.enqueue()
    run_jobs()
    assert Job.objects.get(pk=result.id).state == "suspended"

    assert result.cancel()
    assert Job.objects.get(pk=result.id).state == "cancelled"
    clock.move(timedelta(hours=2))
    assert run_jobs() == []
    assert ran == ["before"]
    assert not JobStep.objects.filter(name="after").exists()


def test_a_job_that_is_cancelled_between_claim_and_body_is_told_as_soon_as_it_begins():
    told = threading.Event()

    @job(name="crossing.told")
    def body(ctx: JobContext) -> None:
        assert result.cancel()
        heard.set()
        assert ctx.signal.wait(PATIENCE)
        told.set()
        ctx.check()

    heard = threading.Event()
    result = body.enqueue()

    def act(supervisor: Supervisor) -> None:
        assert heard.wait(PATIENCE)
        supervisor.lose(result.id)

    work_until_idle_beside(act, slots=1)

    assert told.is_set()
    assert Job.objects.get(pk=result.id).state == "cancelled"
