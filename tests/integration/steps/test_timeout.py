"""A step with a timeout is told to stop, and is not stored when it ends too late."""

from __future__ import annotations

import pytest

from django_durable_jobs import clock as process_clock
from django_durable_jobs.exceptions import Aborted, Draining, JobTimeout, StepTimeout


@pytest.fixture
def monotonic(monkeypatch):
    """The process's clock for durations, moved by hand."""

    class Monotonic:
        now = 1000.0

        def __call__(self):
            return self.now

    moved = Monotonic()
    monkeypatch.setattr(process_clock, "monotonic", moved)
    return moved


def test_a_step_that_ends_in_time_is_stored(bench):
    job_id = bench.enqueue()
    attempt = bench.attempt(lambda ctx: ctx.step.options(timeout="5m").run("charge", lambda: 7))

    assert attempt.value == 7
    assert bench.steps(job_id)["charge"].output == "7"


def test_a_function_that_asks_is_told_when_its_time_is_up(bench):
    job_id = bench.enqueue()

    def charge(ctx):
        assert ctx.signal.wait(30), "was never told"
        assert ctx.cancelled
        ctx.check()

    attempt = bench.attempt(lambda ctx: ctx.step.options(timeout=0.01).run("charge", charge, ctx))

    assert isinstance(attempt.error, StepTimeout)
    assert isinstance(attempt.error.__cause__, Aborted)
    assert str(attempt.error) == (
        "Step 'charge' of job 'shop.pay' ran longer than its timeout of 0.01 s. Raise the step's "
        "timeout, or let the function end early by calling ctx.check()."
    )
    assert bench.steps(job_id) == {}
    assert bench.row(job_id).error_code == "X_JOB_TIMEOUT"
    assert bench.row(job_id).state == "ready"


def test_a_function_that_returns_late_has_timed_out(bench):
    job_id = bench.enqueue()
    attempt = bench.attempt(
        lambda ctx: ctx.step.options(timeout=0.01).run("charge", lambda: ctx.signal.wait(30))
    )

    assert isinstance(attempt.error, StepTimeout)
    assert bench.steps(job_id) == {}


def test_a_function_that_kept_the_timer_from_running_has_timed_out_too(bench, monotonic):
    job_id = bench.enqueue()

    def hold():
        monotonic.now += 60

    attempt = bench.attempt(lambda ctx: ctx.step.options(timeout="1m").run("charge", hold))

    assert isinstance(attempt.error, StepTimeout)
    assert bench.steps(job_id) == {}


def test_an_atomic_step_that_ends_late_is_rolled_back(bench):
    job_id = bench.enqueue()
    attempt = bench.attempt(
        lambda ctx: ctx.step.options(timeout=0.01).atomic("charge", lambda: ctx.signal.wait(30))
    )

    assert isinstance(attempt.error, JobTimeout)
    assert bench.steps(job_id) == {}


def test_the_run_goes_on_when_the_body_catches_the_timeout(bench):
    job_id = bench.enqueue()

    def body(ctx):
        try:
            ctx.step.options(timeout=0.01).run("ask", lambda: ctx.signal.wait(30))
        except StepTimeout:
            assert not ctx.cancelled
            return ctx.step.run("fall back", lambda: "guess")

    assert bench.attempt(body).value == "guess"
    assert set(bench.steps(job_id)) == {"fall back"}


def test_the_cancelling_of_the_attempt_reaches_a_timed_step(bench):
    bench.enqueue()

    def charge(ctx, attempt_signal):
        attempt_signal.cancel(Draining())
        ctx.check()

    def body(ctx):
        ctx.step.options(timeout="5m").run("charge", charge, ctx, ctx.signal)

    attempt = bench.attempt(body)

    assert isinstance(attempt.error, Aborted)
    assert attempt.settlement.state == "ready"
    assert attempt.settlement.give_back


def test_a_replayed_step_does_not_time_out(bench, monotonic):
    bench.enqueue()

    def body(ctx):
        answer = ctx.step.options(timeout="1m").run("charge", lambda: 7)
        if ctx.attempt == 1:
            raise ValueError("crash")
        return answer

    bench.attempt(body)
    monotonic.now += 3600

    assert bench.attempt(body).value == 7
