"""Branches run side by side: each goes as far as it can, and none loses another's result."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from django_durable_jobs import job
from django_durable_jobs.events import publish_event
from django_durable_jobs.exceptions import (
    Aborted,
    Draining,
    NumberInvalid,
    StepDuplicate,
    StepRefused,
    StepTimeout,
)
from django_durable_jobs.steps import JobContext, Suspension
from tests.integration.steps.bench import REAL, Meeting, in_threads


class Calls(list[str]):
    def __call__(self, name):
        self.append(name)
        return name


def test_values_come_in_the_order_of_the_branches(bench):
    bench.enqueue()
    meet = Meeting(3)

    def body(ctx):
        return ctx.step.gather(
            *(
                lambda number=number: ctx.step.run(f"step {number}", meet, number)
                for number in (1, 2, 3)
            )
        )

    # The meeting ends only if all three are in their steps at one moment.
    assert bench.attempt(body, run_branches=in_threads).value == [1, 2, 3]


def test_no_more_branches_than_the_bound_run_at_once(bench):
    bench.enqueue()
    lock, running, most = threading.Lock(), [0], [0]
    meet = Meeting(2)

    def work(number):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        meet()
        with lock:
            running[0] -= 1
        return number

    def body(ctx):
        return ctx.step.gather(
            *(lambda number=number: ctx.step.run(str(number), work, number) for number in range(6)),
            concurrency=2,
        )

    assert bench.attempt(body, run_branches=in_threads).value == list(range(6))
    assert most == [2]


def two_of_which_one_sleeps(ctx, calls, nap="1h"):
    def first():
        ctx.step.run("charge", calls, "charge")
        ctx.step.sleep("nap", nap)
        return ctx.step.run("ship", calls, "ship")

    def second():
        ctx.step.run("invoice", calls, "invoice")
        return ctx.step.run("mail", calls, "mail")

    return ctx.step.gather(first, second)


def test_one_that_waits_loses_nothing_of_its_siblings(bench, clock):
    job_id = bench.enqueue()
    calls = Calls()

    def body(ctx):
        return two_of_which_one_sleeps(ctx, calls)

    parked = bench.attempt(body, run_branches=in_threads)

    assert isinstance(parked.error, Suspension)
    assert sorted(calls) == ["charge", "invoice", "mail"]
    assert set(bench.steps(job_id)) == {"charge", "nap", "invoice", "mail"}
    assert bench.row(job_id).run_at == bench.steps(job_id)["nap"].wake_at

    clock.advance(hours=1, seconds=1)

    assert bench.attempt(body, run_branches=in_threads).value == ["ship", "mail"]
    assert sorted(calls) == ["charge", "invoice", "mail", "ship"]


def test_the_run_comes_back_when_the_first_of_its_waits_is_over(bench, clock):
    job_id = bench.enqueue()

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.sleep("long", "3h"),
            lambda: ctx.step.sleep("short", "1h"),
            lambda: ctx.step.wait_for_event("approval", event="approved", timeout="2h"),
        )

    parked = bench.attempt(body, run_branches=in_threads)

    assert parked.settlement.waits
    assert bench.row(job_id).run_at == bench.steps(job_id)["short"].wake_at
    clock.advance(hours=1, seconds=1)
    bench.attempt(body, run_branches=in_threads)
    assert bench.row(job_id).run_at == bench.steps(job_id)["approval"].wake_at
    publish_event("approved", "yes")
    bench.attempt(body, run_branches=in_threads)
    assert bench.row(job_id).run_at == bench.steps(job_id)["long"].wake_at
    clock.advance(hours=2, seconds=1)
    _, _, event = bench.attempt(body, run_branches=in_threads).value

    assert event.payload == "yes"


def test_a_wait_for_an_event_and_one_for_a_child_are_each_woken(bench, declaring):
    @job(name="shop.ship")
    def ship() -> str:
        return "sent"

    job_id = bench.enqueue()

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.call("ship", ship),
            lambda: ctx.step.wait_for_event("approval", event="approved").payload,
        )

    parked = bench.attempt(body, run_branches=in_threads)
    assert (parked.settlement.waits, parked.settlement.calls) == (True, True)
    bench.work()
    assert isinstance(bench.attempt(body, run_branches=in_threads).error, Suspension)
    assert bench.steps(job_id)["ship"].status == "done"
    publish_event("approved", "yes")

    assert bench.attempt(body, run_branches=in_threads).value == ["sent", "yes"]


def fails(text):
    raise ValueError(text)


def test_an_error_is_raised_when_every_branch_has_gone_as_far_as_it_can(bench):
    job_id = bench.enqueue()
    calls = Calls()

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.run("broken", fails, "no paper"),
            lambda: (ctx.step.run("charge", calls, "charge"), ctx.step.run("ship", calls, "ship")),
        )

    error = bench.attempt(body).error

    assert str(error) == "no paper"
    assert not hasattr(error, "__notes__")
    assert set(bench.steps(job_id)) == {"charge", "ship"}


def test_the_first_of_several_errors_in_order_says_how_many_there_were(bench):
    bench.enqueue()

    def body(ctx):
        return ctx.step.gather(lambda: 1, lambda: fails("first"), lambda: fails("second"))

    error = bench.attempt(body, run_branches=in_threads).error

    assert str(error) == "first"
    assert error.__notes__ == ["2 of 3 branches failed."]


def test_an_error_beats_a_wait(bench):
    """Parked, the run would hide the error until the wait is over."""
    job_id = bench.enqueue()

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.sleep("nap", "3d"), lambda: ctx.step.run("broken", fails, "no paper")
        )

    assert str(bench.attempt(body).error) == "no paper"
    assert bench.row(job_id).state == "ready"
    # Its next attempt sleeps on until the same time.
    assert bench.steps(job_id)["nap"].status == "sleeping"


def test_errors_stand_in_the_place_of_values_when_asked_for(bench):
    bench.enqueue()

    def body(ctx):
        return ctx.step.gather(lambda: 1, lambda: fails("no paper"), return_exceptions=True)

    value, error = bench.attempt(body).value

    assert value == 1
    assert isinstance(error, ValueError)


def test_a_wait_is_never_a_value(bench, clock):
    job_id = bench.enqueue()

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.sleep("nap", "1h"), lambda: fails("no paper"), return_exceptions=True
        )

    assert isinstance(bench.attempt(body).error, Suspension)
    assert bench.row(job_id).state == "suspended"
    clock.advance(hours=1, seconds=1)
    value, error = bench.attempt(body).value

    assert value is None
    assert str(error) == "no paper"


def test_the_end_of_the_attempt_is_never_a_value(bench):
    job_id = bench.enqueue()

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.run("charge", lambda: ctx.signal.cancel(Draining())),
            lambda: ctx.step.run("ship", lambda: 1),
            return_exceptions=True,
        )

    assert isinstance(bench.attempt(body).error, Aborted)
    assert bench.row(job_id).state == "ready"


def test_an_exit_in_a_branch_is_not_taken_for_a_value(bench):
    bench.enqueue()

    def leave():
        raise SystemExit(3)

    attempt = bench.attempt(lambda ctx: ctx.step.gather(leave, return_exceptions=True))

    assert isinstance(attempt.error, SystemExit)


@pytest.mark.parametrize("swallowed", [BaseException, Suspension])
def test_a_branch_that_swallows_its_wait_parks_the_run_all_the_same(bench, clock, swallowed):
    job_id = bench.enqueue()

    def quiet(ctx):
        with suppress(swallowed):
            ctx.step.sleep("nap", "1h")
        return "as if nothing had happened"

    def body(ctx):
        return ctx.step.gather(lambda: quiet(ctx), lambda: 2)

    assert isinstance(bench.attempt(body).error, Suspension)
    assert bench.row(job_id).state == "suspended"
    clock.advance(hours=1, seconds=1)
    assert bench.attempt(body).value == ["as if nothing had happened", 2]


def test_after_a_swallowed_wait_every_verb_of_that_branch_raises_it_and_of_no_other(bench):
    job_id = bench.enqueue()

    def quiet(ctx):
        with suppress(BaseException):
            ctx.step.sleep("nap", "1h")
        ctx.step.run("later", lambda: 1)

    def body(ctx):
        return ctx.step.gather(lambda: quiet(ctx), lambda: ctx.step.run("sibling", lambda: 1))

    assert isinstance(bench.attempt(body).error, Suspension)
    assert set(bench.steps(job_id)) == {"nap", "sibling"}


def test_a_body_that_swallows_the_wait_of_its_branches_meets_it_again(bench):
    job_id = bench.enqueue()

    def body(ctx):
        with suppress(BaseException):
            ctx.step.gather(lambda: ctx.step.sleep("nap", "1h"), lambda: 1)
        ctx.step.run("later", lambda: 1)

    assert isinstance(bench.attempt(body).error, Suspension)
    assert set(bench.steps(job_id)) == {"nap"}


def test_branches_may_have_branches(bench, clock):
    job_id = bench.enqueue()
    calls = Calls()

    def body(ctx):
        def inner():
            return ctx.step.gather(
                lambda: ctx.step.run("a", calls, "a"),
                lambda: (ctx.step.sleep("nap", "1h"), ctx.step.run("b", calls, "b"))[1],
            )

        return ctx.step.gather(
            inner, lambda: ctx.step.run("c", calls, "c"), lambda: ctx.step.sleep("long", "2h")
        )

    assert isinstance(bench.attempt(body, run_branches=in_threads).error, Suspension)
    assert set(bench.steps(job_id)) == {"a", "nap", "c", "long"}
    assert bench.row(job_id).run_at == bench.steps(job_id)["nap"].wake_at
    clock.advance(hours=1, seconds=1)
    bench.attempt(body, run_branches=in_threads)
    assert bench.row(job_id).run_at == bench.steps(job_id)["long"].wake_at
    clock.advance(hours=1)

    assert bench.attempt(body, run_branches=in_threads).value == [["a", "b"], "c", None]
    assert sorted(calls) == ["a", "b", "c"]


def test_after_its_branches_the_body_goes_on_with_steps_of_its_own(bench):
    job_id = bench.enqueue()

    def body(ctx):
        ctx.step.run("before", lambda: 0)
        ctx.step.gather(*(lambda n=n: ctx.step.run(f"branch {n}", lambda: n) for n in range(3)))
        return ctx.step.run("after", lambda: 9)

    assert bench.attempt(body, run_branches=in_threads).value == 9
    places = {name: step.seq for name, step in bench.steps(job_id).items()}
    assert (places["before"], places["after"]) == (1, 5)
    assert sorted(places.values()) == [1, 2, 3, 4, 5]


def test_a_name_is_unique_across_branches(bench):
    bench.enqueue()

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.run("same", lambda: 1), lambda: ctx.step.run("same", lambda: 2)
        )

    error = bench.attempt(body, run_branches=in_threads).error

    assert isinstance(error, StepDuplicate)


def test_a_step_beside_a_step_is_refused_outside_of_branches(bench):
    """Their order would be another at every run."""
    job_id = bench.enqueue()

    def body(ctx):
        errors = []

        def beside():
            try:
                ctx.step.run("beside", lambda: 1)
            except StepRefused as error:
                errors.append(str(error))

        def work():
            thread = threading.Thread(target=beside)
            thread.start()
            thread.join(timeout=20)

        ctx.step.run("first", work)
        return errors

    assert bench.attempt(body).value == [
        "Step 'beside' was called while step 'first' runs. Call plain functions inside a step; "
        "run steps side by side with ctx.step.gather()."
    ]
    assert set(bench.steps(job_id)) == {"first"}


def test_of_many_steps_that_begin_at_one_moment_outside_of_branches_one_runs(bench):
    job_id = bench.enqueue()
    count = 8

    def body(ctx):
        meet, refused = Meeting(count), Meeting(count)
        outcomes = []

        def one(number):
            meet()
            try:
                # It runs until all the others were refused.
                outcomes.append(ctx.step.run(f"step {number}", refused, "ran"))
            except StepRefused:
                outcomes.append("refused")
                refused()

        threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
        return outcomes

    assert sorted(bench.attempt(body).value) == ["ran"] + ["refused"] * (count - 1)
    assert len(bench.steps(job_id)) == 1


def test_the_timeout_of_one_branch_s_step_does_not_cancel_its_siblings(bench):
    job_id = bench.enqueue()
    timed_out = threading.Event()

    def late(ctx):
        assert ctx.signal.wait(20)
        timed_out.set()
        ctx.check()

    def patient(ctx):
        assert timed_out.wait(20)
        ctx.check()
        return ctx.cancelled

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.options(timeout=0.05).run("late", late, ctx),
            lambda: ctx.step.options(timeout="1h").run("patient", patient, ctx),
            return_exceptions=True,
        )

    late_error, was_cancelled = bench.attempt(body, run_branches=in_threads).value

    assert isinstance(late_error, StepTimeout)
    assert was_cancelled is False
    assert set(bench.steps(job_id)) == {"patient"}


def test_cancelling_the_attempt_reaches_every_branch(bench):
    job_id = bench.enqueue()
    meet = Meeting(2)

    def waits(ctx):
        meet()
        assert ctx.signal.wait(20)
        ctx.check()

    def cancels(ctx):
        meet()
        ctx.signal.cancel(Draining())

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.options(timeout="1h").run("waits", waits, ctx),
            lambda: ctx.step.run("cancels", cancels, ctx),
        )

    assert isinstance(bench.attempt(body, run_branches=in_threads).error, Aborted)
    assert bench.steps(job_id) == {}
    assert bench.row(job_id).state == "ready"


@REAL
def test_atomic_steps_side_by_side_commit_apart(real_bench):
    bench = real_bench
    job_id = bench.enqueue()
    meet = Meeting(3)

    def record(name):
        Group.objects.create(name=name)
        # All three transactions are open at one moment.
        meet()
        if name == "broken":
            raise ValueError("no paper")
        return name

    def body(ctx):
        return ctx.step.gather(
            *(
                lambda name=name: ctx.step.atomic(name, record, name)
                for name in ("a", "broken", "b")
            ),
            return_exceptions=True,
        )

    a, error, b = bench.attempt(body, run_branches=in_threads).value

    assert (a, b, str(error)) == ("a", "b", "no paper")
    assert sorted(Group.objects.values_list("name", flat=True)) == ["a", "b"]
    assert set(bench.steps(job_id)) == {"a", "b"}


def test_a_child_that_ends_before_the_run_is_parked_wakes_it_all_the_same(bench, declaring):
    @job(name="shop.ship")
    def ship() -> str:
        return "sent"

    job_id = bench.enqueue()

    def body(ctx):
        try:
            return ctx.step.gather(
                lambda: ctx.step.call("ship", ship), lambda: ctx.step.sleep("nap", "1h")
            )
        except Suspension:
            bench.work()
            raise

    bench.attempt(body, run_branches=in_threads)

    assert bench.row(job_id).is_armed
    assert isinstance(bench.attempt(body, run_branches=in_threads).error, Suspension)
    assert bench.steps(job_id)["ship"].status == "done"
    assert bench.row(job_id).run_at == bench.steps(job_id)["nap"].wake_at


def test_a_branch_may_map(bench, declaring):
    @job(name="shop.price")
    def price(article: int) -> int:
        return article * 2

    @job(name="shop.stock")
    def stock(ctx: JobContext) -> list[list[int]]:
        return ctx.step.gather(
            lambda: ctx.step.map("some", price, [{"article": n} for n in range(3)]),
            lambda: ctx.step.map("more", price, [{"article": n} for n in range(3, 6)]),
        )

    result = stock.enqueue()
    bench.work_off(slots=2)
    result.refresh()

    assert result.return_value == [[0, 2, 4], [6, 8, 10]]


def test_no_branches_are_no_values(bench):
    bench.enqueue()

    assert bench.attempt(lambda ctx: ctx.step.gather()).value == []


def test_what_is_no_function_is_refused_before_any_branch_runs(bench):
    job_id = bench.enqueue()
    error = bench.attempt(
        lambda ctx: ctx.step.gather(lambda: ctx.step.run("a", lambda: 1), 7)
    ).error

    assert isinstance(error, StepRefused)
    assert str(error) == (
        "Step 'gather' was given a value of type int as branch 2. "
        "Pass functions: lambda: ctx.step.run(...)."
    )
    assert bench.steps(job_id) == {}


@pytest.mark.parametrize("bound", [0, -1, 1.5, True])
def test_a_bound_that_is_no_count_is_refused(bench, bound):
    bench.enqueue()
    error = bench.attempt(lambda ctx: ctx.step.gather(lambda: 1, concurrency=bound)).error

    assert isinstance(error, NumberInvalid)


def test_branches_inside_a_step_are_refused(bench):
    bench.enqueue()
    error = bench.attempt(
        lambda ctx: ctx.step.run("outer", lambda: ctx.step.gather(lambda: 1))
    ).error

    assert isinstance(error, StepRefused)
    assert str(error) == (
        "Step 'gather' was called while step 'outer' runs. Call it outside of steps."
    )


def test_branches_inside_a_transaction_are_refused(bench):
    """Their threads are outside of it: what they store would stand before it commits."""
    job_id = bench.enqueue()

    def body(ctx):
        block = transaction.atomic() if bench.store.features.transactional else bench.store.atomic()
        with block:
            ctx.step.gather(lambda: ctx.step.run("a", lambda: 1))

    error = bench.attempt(body, run_branches=in_threads).error

    assert str(error) == (
        "Step 'gather' was called inside a transaction, which its branches cannot join. "
        "Call it outside."
    )
    assert bench.steps(job_id) == {}


def test_branches_in_a_job_that_is_atomic_as_a_whole_are_refused(bench):
    bench.enqueue()
    error = bench.attempt(lambda ctx: ctx.step.gather(lambda: 1), atomic_job=True).error

    assert isinstance(error, StepRefused)


def test_branches_called_inline_run_unrecorded():
    ctx = JobContext.inline("shop.pay")

    assert ctx.step.gather(lambda: ctx.step.run("a", lambda: 1), lambda: 2) == [1, 2]


def test_a_job_called_inline_inside_a_branch_has_steps_of_its_own(bench, declaring):
    @job(name="shop.inner")
    def inner(ctx: JobContext) -> int:
        return ctx.step.run("same name", lambda: 5)

    bench.enqueue()

    def body(ctx):
        return ctx.step.gather(
            lambda: ctx.step.run("same name", inner.call), lambda: ctx.step.run("b", lambda: 2)
        )

    assert bench.attempt(body, run_branches=in_threads).value == [5, 2]


def test_a_wait_of_a_branch_keeps_its_time_over_replays(bench, clock):
    job_id = bench.enqueue()
    calls = Calls()

    def body(ctx):
        return two_of_which_one_sleeps(ctx, calls)

    bench.interrupt(body)
    before = bench.steps(job_id)["nap"]
    clock.advance(minutes=30)
    bench.attempt(body)

    assert bench.steps(job_id)["nap"].wake_at == before.wake_at
    assert bench.row(job_id).run_at - before.started_at == timedelta(hours=1)
