"""What an attempt settles of the version of its code, and when a body must not begin."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from django_durable_jobs import JobContext, Retry, job
from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.exceptions import JobTimeout, StoreUnavailable
from django_durable_jobs.jobs import JobDefinition
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.settle import describe_failure
from django_durable_jobs.signals import job_started
from django_durable_jobs.store.rows import ClaimedJob, Settlement, StepRow
from django_durable_jobs.testing.conformance import given
from django_durable_jobs.worker.attempts import Attempts
from django_durable_jobs.worker.crew import Run
from django_durable_jobs.worker.deadlines import Deadlines
from django_durable_jobs.worker.execute import Executed, execute
from django_durable_jobs.worker.settling import Settler

RETRY = Retry(attempts=3, delay=0, jitter="none")
Body = Callable[[JobContext], Any]


class CountingStore(MemoryStore):
    """Counts how often steps were read, and answers none while it is down."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.is_down = False

    def load_steps(self, job_id: UUID) -> list[StepRow]:
        self.reads += 1
        if self.is_down:
            raise StoreUnavailable("The database is away.")
        return super().load_steps(job_id)


@pytest.fixture
def counting() -> CountingStore:
    return CountingStore()


def declared(body: Body, **options: Any) -> JobDefinition[..., Any]:
    with scratch_registry():

        @job(name="shop.pay", retry=RETRY, **options)
        def pay(ctx: JobContext) -> Any:
            return body(ctx)

    return pay


def run(
    store: MemoryStore,
    claimed: ClaimedJob,
    definition: JobDefinition[..., Any],
    signal: CancelSignal | None = None,
) -> Executed:
    return execute(
        claimed,
        definition,
        store=store,
        user_store=store,
        signal=signal or CancelSignal(claimed.identity.job_id),
    )


def begun(store: MemoryStore, *, version: str = "1") -> ClaimedJob:
    """The second claim of a run that stored one step under *version*."""
    given.enqueue(store, code_version=version, input="{}")
    [first] = given.claim(store)

    def one_step(ctx: JobContext) -> None:
        ctx.step.run("reserve", int)
        raise ConnectionError("once")

    executed = run(store, first, declared(one_step, version=version))
    assert executed.settlement is not None
    assert store.settle([executed.settlement]) == [True]
    [claimed] = given.claim(store)
    assert claimed.code_version == version
    return claimed


def settled(executed: Executed) -> Settlement:
    assert executed.settlement is not None
    return executed.settlement


def refuses(ctx: JobContext) -> None:
    raise AssertionError("The body must not begin.")


@pytest.mark.parametrize(("rule", "state"), [("fail", "dead"), ("wait", "ready")])
def test_a_run_that_is_kept_out_runs_nothing_and_tells_no_receiver(counting, rule, state):
    started: list[Any] = []

    def hear(**facts: Any) -> None:
        started.append(facts)

    claimed = begun(counting)
    job_started.connect(hear)
    try:
        executed = run(counting, claimed, declared(refuses, version="2", on_version_change=rule))
    finally:
        job_started.disconnect(hear)

    assert settled(executed).state == state
    # This code ran nothing, so the run stays the other version's.
    assert settled(executed).code_version is None
    assert started == []


@pytest.mark.parametrize("rule", ["continue", "fail", "wait"])
def test_the_steps_of_a_run_are_read_once_at_most(counting, rule):
    claimed = begun(counting)
    counting.reads = 0

    for version in ("1", "2"):
        run(
            counting,
            claimed,
            declared(
                lambda ctx: ctx.step.run("reserve", int), version=version, on_version_change=rule
            ),
        )

    assert counting.reads == 2


def test_of_a_first_attempt_no_steps_are_read(counting):
    given.enqueue(counting, code_version="1", input="{}")
    [claimed] = given.claim(counting)

    executed = run(
        counting,
        claimed,
        declared(lambda ctx: "paid", version="2", on_version_change="fail"),
    )

    assert (settled(executed).state, settled(executed).code_version) == ("done", "2")
    assert counting.reads == 0


@pytest.mark.parametrize("rule", ["fail", "wait"])
def test_a_body_does_not_begin_while_the_store_cannot_say_what_the_run_has_stored(counting, rule):
    claimed = begun(counting)
    counting.is_down = True

    executed = run(counting, claimed, declared(refuses, version="2", on_version_change=rule))

    settlement = settled(executed)
    assert (settlement.state, settlement.code_version) == ("ready", None)
    assert settlement.failure is not None
    assert settlement.failure.code == "X_DRIVER_UNAVAILABLE"


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize(
    ("body", "state"),
    [(lambda ctx: "paid", "done"), (lambda ctx: 1 / 0, "ready")],
    ids=["returned", "raised"],
)
def test_an_attempt_that_ran_is_settled_with_the_version_that_ran_it(counting, body, state, atomic):
    given.enqueue(counting, code_version="1", input="{}")
    [claimed] = given.claim(counting)

    executed = run(counting, claimed, declared(body, version="2", atomic=atomic))

    assert (settled(executed).state, settled(executed).code_version) == (state, "2")


def test_so_is_one_that_parks_or_times_out(counting):
    given.enqueue(counting, code_version="1", input="{}")
    [claimed] = given.claim(counting)
    signal = CancelSignal(claimed.identity.job_id)
    signal.cancel(JobTimeout("shop.pay", 1.0))

    parked = run(counting, claimed, declared(lambda ctx: ctx.step.sleep("nap", "1h"), version="2"))
    late = run(counting, claimed, declared(lambda ctx: ctx.check(), version="2"), signal)

    assert (settled(parked).state, settled(parked).code_version) == ("suspended", "2")
    assert (settled(late).state, settled(late).code_version) == ("ready", "2")


def test_a_changed_version_is_described_with_both(counting):
    executed = run(
        counting,
        begun(counting, version=""),
        declared(refuses, version="2", on_version_change="fail"),
    )

    assert executed.error is not None
    failure = describe_failure(executed.error, job_name="shop.pay")
    assert failure.code == "X_JOB_VERSION_CHANGED"
    assert failure.message == (
        "Job 'shop.pay' was begun by code without a version, and this is version '2'. Requeue it "
        "where the old version runs, or requeue it from its first step."
    )


@pytest.mark.parametrize(
    "end",
    [
        lambda attempts, run: attempts.give_back(run),
        lambda attempts, run: attempts.abandon(run),
    ],
    ids=["given back by a drain", "abandoned after its timeout"],
)
def test_so_is_one_that_somebody_else_ends(counting, end):
    """Its body may have stored steps, and those are of this version."""
    given.enqueue(counting, code_version="1", input="{}")
    [claimed] = given.claim(counting)

    @job(name="shop.pay", version="2")
    def pay() -> None:
        pass

    settler = Settler(counting, lambda outcomes, landed: None)
    deadlines = Deadlines(grace=timedelta(seconds=1), abandoned=lambda run: None)
    attempts = Attempts(
        store=counting,
        user_store=counting,
        settler=settler,
        deadlines=deadlines,
        is_draining=lambda: False,
    )
    run = Run(claimed, CancelSignal(claimed.identity.job_id))
    run.start_once()
    run.signal.cancel(JobTimeout("shop.pay", 1.0))
    settler.start()

    end(attempts, run)

    assert settler.finish(20)
    assert given.shown(counting, claimed.identity.job_id).code_version == "2"
