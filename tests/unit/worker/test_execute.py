"""Every way in which a body can end, and what its attempt ends as."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from django_durable_jobs import JobContext, Retry, job
from django_durable_jobs.exceptions import JobTimeout, LeaseLost
from django_durable_jobs.jobs import get_job
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.settle.failure import MAX_MESSAGE
from django_durable_jobs.signals import job_started
from django_durable_jobs.testing.conformance import given
from django_durable_jobs.worker.execute import Executed, execute

Body = Callable[[JobContext], Any]
AGAIN = Retry(attempts=3, delay="1s", jitter="none")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Endless(BaseException):
    """What a library may bring along that is no Exception."""


@pytest.fixture
def run(store):
    """Declare a body, claim a job of it, execute it, and settle what it ended as."""

    def run(body: Body, *, signal: CancelSignal | None = None, **options: Any) -> Executed:
        @job(name="shop.pay", retry=AGAIN, **options)
        def pay(ctx: JobContext) -> Any:
            return body(ctx)

        pay.enqueue()
        (claimed,) = given.claim(store)
        definition = get_job("shop.pay")
        assert definition is not None
        attempt = signal or CancelSignal(claimed.identity.job_id)
        executed = execute(claimed, definition, store=store, user_store=store, signal=attempt)
        assert attempt.is_set, "What the body left running could still write."
        if executed.settlement is not None and not executed.has_landed:
            assert store.settle([executed.settlement]) == [True]
        return executed

    return run


def raising(error: BaseException) -> Body:
    def body(ctx: JobContext) -> None:
        raise error

    return body


def state_of(executed: Executed) -> str | None:
    return None if executed.settlement is None else executed.settlement.state


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        Endless(),
        Unprintable(),
        ValueError("x" * 3_000_000),
        ValueError("nul \0 and surrogate \udc80"),
        ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
        BaseExceptionGroup("mixed", [ValueError("a"), KeyboardInterrupt()]),
        RecursionError("deep"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_body_raises_ends_its_attempt_alone(run, error, atomic):
    executed = run(raising(error), atomic=atomic)

    assert state_of(executed) == "ready"
    assert executed.error is error
    failure = executed.settlement.failure
    assert len(failure.message) <= MAX_MESSAGE
    assert "\0" not in failure.message
    failure.message.encode()


@pytest.mark.parametrize("atomic", [False, True])
def test_a_body_that_calls_exit_is_an_attempt_that_failed(run, atomic):
    executed = run(lambda ctx: sys.exit(0), atomic=atomic)

    assert state_of(executed) == "ready"
    assert executed.settlement.failure.error_class == "SystemExit"


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize(
    "value", [object(), {1, 2}, float("nan"), "\0", "\udc80", {"deep": object()}, lambda: None]
)
def test_a_result_without_a_json_form_is_an_attempt_that_failed(run, value, atomic):
    executed = run(lambda ctx: value, atomic=atomic)

    assert (state_of(executed), executed.has_landed) == ("ready", False)
    assert executed.settlement.failure.code == "X_JOB_RESULT_UNSERIALIZABLE"


def test_a_body_that_returns_is_done(run):
    executed = run(lambda ctx: {"paid": True})

    assert (state_of(executed), executed.settlement.result) == ("done", '{"paid":true}')


def sleep(ctx: JobContext, name: str = "nap") -> None:
    ctx.step.sleep(name, "1h")


def swallow_exceptions(ctx: JobContext) -> None:
    try:
        sleep(ctx)
    except Exception:
        raise AssertionError("A suspension is no error.") from None


def in_a_group(ctx: JobContext) -> None:
    errors: list[BaseException] = []
    for name in ("one", "two"):
        try:
            sleep(ctx, name)
        except BaseException as error:
            errors.append(error)
    raise BaseExceptionGroup("both wait", errors)


def in_nested_groups(ctx: JobContext) -> None:
    try:
        in_a_group(ctx)
    except BaseExceptionGroup as group:
        raise BaseExceptionGroup("outer", [group]) from None


@pytest.mark.parametrize("body", [sleep, swallow_exceptions, in_a_group, in_nested_groups])
def test_a_body_that_waits_is_parked_and_its_attempt_given_back(run, body):
    executed = run(body)

    assert state_of(executed) == "suspended"
    assert executed.settlement.give_back
    assert executed.error is None


def swallow_everything(ctx: JobContext) -> str:
    try:
        sleep(ctx)
    except BaseException:
        return "slept badly"
    return "slept well"


def swallow_and_return_in_finally(ctx: JobContext) -> str:
    try:
        sleep(ctx)
    finally:
        return "over"  # noqa: B012 -- the very mistake that is tested


@pytest.mark.parametrize("body", [swallow_everything, swallow_and_return_in_finally])
def test_a_body_that_swallows_its_suspension_never_completes(run, body):
    executed = run(body)

    assert state_of(executed) == "dead"
    assert executed.settlement.failure.code == "X_JOB_SUSPENSION_SWALLOWED"


def beside_an_error(ctx: JobContext) -> None:
    try:
        sleep(ctx)
    except BaseException as error:
        raise BaseExceptionGroup("mixed", [error, ValueError("lost")]) from None


def test_an_error_beside_a_suspension_is_not_hidden_by_it(run):
    assert state_of(run(beside_an_error)) == "ready"


def test_a_body_that_turns_its_suspension_into_an_error_has_failed(run):
    def body(ctx: JobContext) -> None:
        try:
            sleep(ctx)
        except BaseException as error:
            raise ValueError("could not sleep") from error

    assert state_of(run(body)) == "ready"


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("ending", [lambda: "late", lambda: sys.exit(1)])
def test_nothing_is_settled_once_the_lease_is_lost(run, ending, atomic):
    def body(ctx: JobContext) -> Any:
        ctx.signal.cancel(LeaseLost(ctx.job_id, "go on with it"))
        return ending()

    executed = run(body, atomic=atomic)
    assert (executed.settlement, executed.has_landed) == (None, False)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_body_that_returns_after_its_timeout_has_timed_out(run, atomic):
    def body(ctx: JobContext) -> str:
        ctx.signal.cancel(JobTimeout("shop.pay", 1.0))
        return "after all"

    executed = run(body, atomic=atomic)
    assert (state_of(executed), executed.has_landed) == ("ready", False)
    assert executed.settlement.failure.code == "X_JOB_TIMEOUT"


def test_a_receiver_that_calls_exit_harms_no_run(run):
    def leave(**facts: Any) -> None:
        sys.exit(3)

    job_started.connect(leave)
    try:
        executed = run(lambda ctx: "paid")
    finally:
        job_started.disconnect(leave)
    assert state_of(executed) == "done"


def test_an_input_that_no_longer_fits_fails_for_good(store):
    @job(name="shop.pay", retry=AGAIN)
    def pay(order: int) -> None:
        pass

    given.enqueue(store, input='{"order": "seven"}')
    (claimed,) = given.claim(store)
    executed = execute(
        claimed, pay, store=store, user_store=store, signal=CancelSignal(claimed.identity.job_id)
    )
    assert state_of(executed) == "dead"
