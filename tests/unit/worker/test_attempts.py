"""Who ends an attempt, once, and who is told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from django_durable_jobs import JobContext, Retry, job
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.store.rows import ClaimedJob
from django_durable_jobs.testing.conformance import given
from django_durable_jobs.worker.attempts import Attempts
from django_durable_jobs.worker.crew import Crew, Run
from django_durable_jobs.worker.deadlines import Deadlines
from django_durable_jobs.worker.settling import Settler
from tests.acceptance.conditions import until

PATIENCE = 20
NO_RETRY = Retry(attempts=1)


class Desk:
    """The parts of a worker between claim and settle, on the memory store."""

    def __init__(self, store, *, slots: int = 1) -> None:
        self.store = store
        self.is_draining = threading.Event()
        self.settler = Settler(store, lambda outcomes, landed: None)
        self.deadlines = Deadlines(
            grace=timedelta(seconds=0.05), abandoned=lambda run: self.attempts.abandon(run)
        )
        self.attempts = Attempts(
            store=store,
            user_store=store,
            settler=self.settler,
            deadlines=self.deadlines,
            is_draining=self.is_draining.is_set,
        )
        self.crew = Crew(
            slots,
            work=self.attempts.work,
            announce=self.attempts.announce_buried,
            freed=lambda: None,
        )
        for part in (self.settler, self.deadlines, self.crew):
            part.start()

    def hand_out(self, claimed: ClaimedJob) -> Run:
        run = Run(claimed, CancelSignal(claimed.identity.job_id))
        self.crew.hand_out([run])
        return run

    def claim(self, count: int = 10) -> list[Run]:
        return [self.hand_out(claimed) for claimed in given.claim(self.store, count)]

    def await_state(self, run: Run, state: str) -> None:
        job_id = run.claimed.identity.job_id
        until(lambda: given.shown(self.store, job_id).state == state, seconds=PATIENCE)

    def row(self, run: Run):
        return given.shown(self.store, run.claimed.identity.job_id)


class Gate:
    """Bodies that begin, and end when they are told."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self._begun = threading.Semaphore(0)
        self._open = threading.Event()

    def pass_through(self, who: Any) -> None:
        self.begun.append(who)
        self._begun.release()
        assert self._open.wait(PATIENCE)

    def await_one(self) -> None:
        assert self._begun.acquire(timeout=PATIENCE)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def desks(store) -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def make(**options: Any) -> Desk:
        made.append(Desk(store, **options))
        return made[-1]

    yield make
    for desk in made:
        assert desk.crew.wait_until_idle(PATIENCE)
        assert desk.settler.finish(PATIENCE)
        desk.attempts.finish(PATIENCE)


def test_the_body_of_a_claim_that_was_lost_before_its_slot_was_free_never_begins(desks, gate):
    """Another worker may be running it."""

    @job(name="shop.pay")
    def pay(place: int) -> None:
        gate.pass_through(place)

    pay.enqueue_many([{"place": 1}, {"place": 2}])
    desk = desks()
    _, second = desk.claim()
    gate.await_one()
    second.signal.cancel(LeaseLost(second.claimed.identity.job_id, "go on with it"))
    gate.open()

    assert desk.crew.wait_until_idle(PATIENCE)
    assert gate.begun == [1]
    assert desk.row(second).state == "running"


def test_a_claim_whose_body_has_not_begun_is_given_back_while_the_slots_are_busy(desks, gate):
    @job(name="shop.pay")
    def pay(place: int) -> None:
        gate.pass_through(place)

    pay.enqueue_many([{"place": 1}, {"place": 2}])
    desk = desks()
    first, second = desk.claim()
    gate.await_one()
    for run in desk.crew.runs():
        desk.attempts.give_back_unstarted(run)

    desk.await_state(second, "ready")
    assert (desk.row(second).attempt, desk.row(first).state) == (0, "running")
    gate.open()
    desk.await_state(first, "done")
    assert gate.begun == [1]


def test_a_run_is_either_begun_or_given_back_unbegun(store):
    """Both at the same moment, many times: exactly one of them is told yes."""
    given.enqueue(store)
    (claimed,) = given.claim(store)
    for _ in range(300):
        run = Run(claimed, CancelSignal(claimed.identity.job_id))
        barrier = threading.Barrier(2)
        answers: list[bool] = []

        def ask(act: Callable[[], bool], barrier=barrier, answers=answers) -> None:
            barrier.wait()
            answers.append(act())

        threads = [
            threading.Thread(target=ask, args=[act])
            for act in (run.start_once, run.settle_unstarted)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [False, True]


def test_a_job_whose_last_attempt_is_abandoned_is_announced_once(desks, gate):
    told: list[tuple[str, str | None]] = []

    @job(
        name="shop.pay",
        retry=NO_RETRY,
        timeout="50ms",
        on_settled=lambda settled: told.append((settled.outcome, settled.code)),
    )
    def pay() -> None:
        gate.pass_through("deaf")

    pay.enqueue()
    desk = desks()
    (run,) = desk.claim()

    desk.await_state(run, "dead")
    until(lambda: told, seconds=PATIENCE)
    gate.open()
    assert desk.crew.wait_until_idle(PATIENCE)
    desk.attempts.finish(PATIENCE)
    assert told == [("dead-lettered", "X_JOB_TIMEOUT")]


def test_an_abandoned_body_keeps_its_slot_until_it_ends(desks, gate):
    @job(name="shop.pay", retry=NO_RETRY, timeout="50ms")
    def pay() -> None:
        gate.pass_through("deaf")

    pay.enqueue()
    desk = desks(slots=2)
    (run,) = desk.claim()
    desk.await_state(run, "dead")

    assert desk.crew.room() == 1
    gate.open()
    assert desk.crew.wait_until_idle(PATIENCE)
    assert desk.crew.room() >= 2
    assert desk.row(run).state == "dead"


def test_a_body_that_obeys_its_timeout_is_cancelled_before_its_attempt_fails(desks):
    seen: list[tuple[bool, str]] = []

    @job(name="shop.pay", retry=NO_RETRY, timeout="50ms")
    def pay(ctx: JobContext) -> None:
        assert ctx.signal.wait(PATIENCE)
        seen.append((ctx.cancelled, desk.row(run).state))
        ctx.check()

    pay.enqueue()
    desk = desks()
    (run,) = desk.claim()

    desk.await_state(run, "dead")
    assert seen == [(True, "running")]
    assert desk.row(run).error_code == "X_JOB_TIMEOUT"


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit, BaseException])
def test_a_hook_may_raise_anything_and_its_slot_goes_on(desks, error):
    told: list[str] = []

    def tell(settled: Any) -> None:
        told.append(settled.outcome)
        raise error

    @job(name="shop.pay", on_settled=tell)
    def pay() -> None:
        pass

    pay.enqueue()
    pay.enqueue()
    desk = desks()
    for run in desk.claim():
        desk.await_state(run, "done")

    assert desk.crew.wait_until_idle(PATIENCE)
    assert set(told) == {"completed"}
    assert len(told) >= 2


def test_a_settle_that_did_not_land_calls_no_hook(desks, gate):
    told: list[str] = []

    @job(name="shop.pay", on_settled=lambda settled: told.append(settled.outcome))
    def pay() -> None:
        gate.pass_through("cancelled meanwhile")

    result = pay.enqueue()
    desk = desks()
    desk.claim()
    gate.await_one()
    desk.store.cancel(result.id, reason="by hand")
    gate.open()

    assert desk.crew.wait_until_idle(PATIENCE)
    assert told == []


def test_what_a_body_sets_in_context_variables_the_next_does_not_see(desks):
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    seen: list[str] = []

    @job(name="shop.pay")
    def pay(who: str) -> None:
        seen.append(tenant.get())
        tenant.set(who)

    pay.enqueue_many([{"who": "ann"}, {"who": "bob"}])
    desk = desks()
    desk.claim()

    assert desk.crew.wait_until_idle(PATIENCE)
    assert seen == ["nobody", "nobody"]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "error", [Unprintable(), ValueError("x" * 5_000_000), ValueError("nul \0, surrogate \udc80")]
)
def test_an_error_of_any_text_is_logged_in_a_short_line(desks, caplog, error):
    @job(name="shop.pay", retry=Retry(attempts=2, delay="1h", jitter="none"))
    def pay() -> None:
        raise error

    pay.enqueue()
    desk = desks()
    with caplog.at_level(logging.WARNING, "django_durable_jobs"):
        (run,) = desk.claim()
        desk.await_state(run, "ready")
        assert desk.crew.wait_until_idle(PATIENCE)

    (record,) = [record for record in caplog.records if "jobs.run.failed" in record.message]
    assert len(record.getMessage()) < 3_000


def test_a_name_nobody_knows_is_said_once_and_its_jobs_given_back(desks, caplog):
    desk = desks()
    for _ in range(3):
        given.enqueue(desk.store, name="shop.gone")
    runs = desk.claim()
    for run in runs:
        desk.await_state(run, "ready")

    assert [desk.row(run).attempt for run in runs] == [0, 0, 0]
    said = [record for record in caplog.records if "jobs.name.unknown" in record.message]
    assert len(said) == 1
