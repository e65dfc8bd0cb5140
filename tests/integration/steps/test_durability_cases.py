"""What went wrong in the field with durable runs, and must not here."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import permutations
from uuid import UUID

import pytest
from django.contrib.auth.models import Group

from django_durable_jobs import JobContext, job
from django_durable_jobs.events import publish_event
from django_durable_jobs.exceptions import PayloadTooLarge, StepNotFound, StepOutputUnserializable
from django_durable_jobs.lifecycle.cancellation import CancelSignal
from django_durable_jobs.steps import Suspension
from django_durable_jobs.store import install_store
from django_durable_jobs.store.ids import family_id
from django_durable_jobs.store.rows import QueueDemand
from django_durable_jobs.worker.execute import execute
from tests.integration.steps.bench import LEASE, REAL, Killed, Stand


class Calls(list[str]):
    def __call__(self, name):
        self.append(name)
        return name


# -- other code at the replay


class Deploys:
    """Versions of one body: a step, an id, a child, a sleep, a step."""

    def __init__(self, child):
        self.child = child
        self.calls = Calls()

    def first(self, ctx):
        return self._body(ctx)

    def with_chance_ahead(self, ctx):
        ctx.step.random("luck")
        ctx.step.random("more luck")
        ctx.step.now("when")
        return self._body(ctx)

    def with_a_step_ahead(self, ctx):
        ctx.step.run("s0", self.calls, "s0")
        return self._body(ctx)

    def with_the_last_step_renamed(self, ctx):
        return self._body(ctx, last="s2 renamed")

    def with_the_steps_swapped(self, ctx):
        return self._body(ctx, one="s2", last="s1")

    def _body(self, ctx, one="s1", last="s2"):
        ctx.step.run(one, self.calls, one)
        child_id = ctx.step.uuid("child id")
        ctx.step.call("ship", self.child, order=7)
        ctx.step.sleep("nap", "1h")
        ctx.step.run(last, self.calls, last)
        return child_id


@pytest.fixture
def deploys(declaring):
    @job(name="shop.ship")
    def ship(order: int) -> int:
        return order

    return Deploys(ship)


def asleep(bench, deploys):
    """A run of the first version that sleeps; its id, and the id it drew."""
    job_id = bench.enqueue()
    bench.attempt(deploys.first)
    bench.work()
    assert isinstance(bench.attempt(deploys.first).error, Suspension)
    return job_id, UUID(json.loads(bench.steps(job_id)["child id"].output))


def test_ids_stay_the_same_when_newer_code_draws_a_number_before_them(bench, deploys, clock):
    runs = [asleep(bench, deploys) for _ in range(5)]
    assert len({drawn for _, drawn in runs}) == 5
    clock.advance(hours=2)
    bench.worker_store.arm(limit=100)

    for _ in runs:
        claimed = bench.claim_any()
        job_id = claimed.identity.job_id
        assert bench.attempt(deploys.with_chance_ahead, claimed).value == dict(runs)[job_id]
        assert bench.row(job_id).state == "done"
        # A child is called by its parent and step, and drawn from no stream of numbers.
        assert bench.steps(job_id)["ship"].family_id == family_id(job_id, "ship", 0)
    assert len(bench.jobs("shop.ship")) == 5
    assert deploys.calls == ["s1"] * 5 + ["s2"] * 5


def test_a_step_that_newer_code_puts_in_front_runs_once_and_finished_ones_not_again(
    bench, deploys, clock
):
    _, drawn = asleep(bench, deploys)
    clock.advance(hours=2)
    attempt = bench.attempt(deploys.with_a_step_ahead)

    assert attempt.value == drawn
    assert deploys.calls == ["s1", "s0", "s2"]
    assert attempt.ctx.replay_warning("returned") == (
        "New step 's0' ran before step 's1', which an earlier run had finished."
    )


def test_a_step_that_was_not_reached_yet_may_be_renamed(bench, deploys, clock):
    _, drawn = asleep(bench, deploys)
    clock.advance(hours=2)
    attempt = bench.attempt(deploys.with_the_last_step_renamed)

    assert attempt.value == drawn
    assert deploys.calls == ["s1", "s2 renamed"]
    assert attempt.ctx.replay_warning("returned") is None


def test_swapped_steps_keep_what_each_has_stored_and_the_run_says_so(bench, deploys, clock):
    job_id, drawn = asleep(bench, deploys)
    clock.advance(hours=2)
    attempt = bench.attempt(deploys.with_the_steps_swapped)

    assert attempt.value == drawn
    assert deploys.calls == ["s1", "s2"]
    assert attempt.ctx.replay_warning("returned").startswith("New step 's2' ran before step")
    assert bench.row(job_id).state == "done"


def test_after_the_deploy_is_rolled_back_a_run_goes_on_as_it_began(bench, deploys, clock):
    _, drawn = asleep(bench, deploys)
    clock.advance(hours=2)

    def fails(ctx):
        ctx.step.run("s0", deploys.calls, "s0")
        raise ValueError("the deploy is broken")

    assert isinstance(bench.attempt(fails).error, ValueError)
    attempt = bench.attempt(deploys.first)

    assert attempt.value == drawn
    assert deploys.calls == ["s1", "s0", "s2"]
    assert attempt.ctx.replay_warning("returned") == (
        "New step 's2' ran, and stored step 's0' was not reached."
    )


# -- a finished run


@pytest.mark.parametrize("end", ["done", "dead", "cancelled"])
def test_the_body_of_a_finished_run_runs_again_only_when_it_is_requeued_by_name(bench, end):
    job_id = bench.enqueue(max_attempts=1)
    lines, calls = [], Calls()

    def body(ctx):
        lines.append("body")
        ctx.step.run("charge", calls, "charge")
        if end == "dead":
            raise ValueError("no paper")
        if end == "cancelled":
            ctx.step.sleep("nap", "1h")

    bench.attempt(body)
    if end == "cancelled":
        bench.store.cancel(job_id, reason="")
    assert bench.row(job_id).state == end

    # Neither time, nor an event, nor a look of any other kind brings it back.
    publish_event("anything", job_id=job_id)
    bench.worker_store.wake_missed(limit=100)
    bench.worker_store.wake_parents([job_id])
    bench.worker_store.wake_waiters([job_id])
    assert bench.nothing_is_due()
    assert lines == ["body"]

    bench.store.requeue(job_id)
    bench.attempt(body)

    assert lines == ["body", "body"]
    assert calls == ["charge"]


@pytest.mark.parametrize("moment", ["before it ran", "while it sleeps"])
def test_an_enqueue_with_the_key_of_a_live_run_joins_it(bench, declaring, moment):
    lines = []

    @job(name="shop.order", idempotency_key=lambda i: f"order:{i.number}")
    def order(ctx: JobContext, number: int, note: str = "") -> int:
        lines.append(number)
        ctx.step.sleep("nap", "1h")
        return number

    first = order.enqueue(number=7)
    if moment == "while it sleeps":
        bench.work()
    again = order.enqueue(number=7, note="with other arguments")

    assert (again.id, again.deduplicated) == (first.id, True)
    bench.work_off()
    assert lines == [7]


# -- killed between any two commits


WRITES_OF_A_RUN = 4


class Process:
    """A worker of one slot that is killed at its n-th write, before or after that took effect."""

    def __init__(self, bench, definition, kill_at, when):
        self.bench = bench
        self.definition = definition
        self.left = kill_at
        self.when = when
        self.is_dead = False
        worker = bench.worker_store
        self.store = Stand(
            worker, put_step=self._counted(worker.put_step), settle=self._counted(worker.settle)
        )

    def run(self, claimed):
        executed = execute(
            claimed,
            self.definition,
            store=self.store,
            user_store=self.bench.store,
            signal=CancelSignal(claimed.identity.job_id),
        )
        # What a body makes of it, a dead process writes no more.
        if not self.is_dead:
            with suppress(Killed):
                self.store.settle([executed.settlement])

    def work_off(self):
        while not self.is_dead:
            demand = [QueueDemand("default", 1)]
            claimed = self.bench.worker_store.claim("worker-1", demand, lease=LEASE)
            if not claimed:
                return
            self.run(claimed[0])

    def _counted(self, verb):
        def write(*args):
            self.left -= 1
            if self.left or self.is_dead:
                return verb(*args)
            self.is_dead = True
            if self.when == "after":
                verb(*args)
            raise Killed

        return write


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_killed_at_any_commit_is_taken_up_again_before_those_behind_it(
    bench, declaring, clock, when
):
    calls = Calls()

    @job(name="shop.order")
    def order(ctx: JobContext, number: int) -> list[str]:
        return [ctx.step.run(name, calls, f"{number}: {name}") for name in ("s1", "s2", "s3")]

    runs = 3
    for kill_at in range(1, runs * WRITES_OF_A_RUN + 1):
        calls.clear()
        results = [order.enqueue(number=number) for number in range(runs)]
        process = Process(bench, order, kill_at, when)
        process.work_off()
        assert process.is_dead
        # Its lease lapses while no worker runs; the next one rescues before it claims.
        clock.advance(seconds=LEASE.total_seconds() + 1)
        next_one = Process(bench, order, 0, when)
        rescued = bench.worker_store.rescue(
            "worker-2", ["default"], limit=9, lease=LEASE, drop_exhausted=()
        )
        assert len(rescued.claimed) == (0 if killed_behind_its_end(kill_at, when) else 1)
        for claimed in rescued.claimed:
            next_one.run(claimed)
        next_one.work_off()

        rows = [bench.row(result.id) for result in results]
        assert [row.state for row in rows] == ["done"] * runs
        assert sorted(rows, key=lambda row: row.finished_at) == rows
        for number, row in enumerate(rows):
            steps = bench.steps(row.id)
            assert [json.loads(steps[name].output) for name in ("s1", "s2", "s3")] == [
                f"{number}: {name}" for name in ("s1", "s2", "s3")
            ]
        # Only the one whose checkpoint was not written ran twice.
        is_of_a_step = kill_at % WRITES_OF_A_RUN != 0
        again = 1 if when == "before" and is_of_a_step else 0
        assert len(calls) == runs * 3 + again
        assert len(set(calls)) == runs * 3


def killed_behind_its_end(kill_at, when):
    return when == "after" and kill_at % WRITES_OF_A_RUN == 0


# -- outputs that cannot be stored


LIMIT = 1_000


def deep(levels):
    nested: list[object] = []
    for _ in range(levels):
        nested = [nested]
    return nested


@pytest.fixture
def limited(bench, settings):
    settings.DURABLE_JOBS = {"MAX_PAYLOAD": LIMIT}
    # The change of settings made the store in force forgotten.
    install_store(bench.store)
    return bench


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT])
def test_an_output_up_to_the_limit_is_stored(limited, size):
    limited.enqueue()
    calls = Calls()

    def body(ctx):
        # Two bytes are its quotes.
        answer = ctx.step.run("big", lambda: calls("x" * (size - 2)))
        if ctx.attempt == 1:
            raise ValueError("crash")
        return len(answer)

    limited.attempt(body)

    assert limited.attempt(body).value == size - 2
    assert len(calls) == 1


@pytest.mark.parametrize("size", [LIMIT + 1, 2_000_000])
@pytest.mark.parametrize("verb", ["run", "atomic"])
def test_an_output_above_the_limit_ends_the_run_at_once_and_its_function_ran_once(
    limited, size, verb
):
    job_id = limited.enqueue()
    calls = Calls()

    def big():
        calls("big")
        return "x" * (size - 2)

    error = limited.attempt(lambda ctx: getattr(ctx.step, verb)("big", big)).error
    row = limited.row(job_id)

    assert isinstance(error, PayloadTooLarge)
    assert (error.size, error.limit) == (size, LIMIT)
    assert str(error) == (
        f"The output of step 'big' takes {size:,} bytes as JSON; the limit is {LIMIT:,}. "
        'Store the data elsewhere and pass its key, or raise DURABLE_JOBS["MAX_PAYLOAD"].'
    )
    assert (row.state, row.error_code, row.last_error) == (
        "dead",
        "X_PAYLOAD_TOO_LARGE",
        str(error),
    )
    assert limited.nothing_is_due()
    assert calls == ["big"]
    assert limited.steps(job_id) == {}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (deep(100_000), "is nested deeper than 100 levels"),
        ({"lines": [1, {"item": object()}]}, "output.lines[1].item "),
        ({"lines": [1.5, float("nan")]}, "output.lines[1] "),
        ({"keys": {1: "one"}}, "output.keys"),
        ("\ud800", "output "),
        ("a\0b", "output "),
    ],
    ids=["deep", "object", "nan", "key", "surrogate", "nul"],
)
def test_an_output_that_is_no_json_ends_the_run_at_once_and_names_the_place(bench, value, problem):
    job_id = bench.enqueue()
    calls = Calls()

    def odd():
        calls("odd")
        return value

    error = bench.attempt(lambda ctx: ctx.step.run("odd", odd)).error
    row = bench.row(job_id)

    assert isinstance(error, StepOutputUnserializable)
    assert str(error).startswith("The output of step 'odd' cannot be stored: ")
    assert problem in str(error)
    assert len(str(error)) < 1_000
    assert (row.state, row.error_code, row.last_error) == (
        "dead",
        "X_STEP_OUTPUT_UNSERIALIZABLE",
        str(error),
    )
    assert calls == ["odd"]
    assert bench.steps(job_id) == {}


@REAL
def test_effects_of_an_atomic_step_with_too_large_an_output_are_not_kept(real_bench, settings):
    settings.DURABLE_JOBS = {"MAX_PAYLOAD": LIMIT}
    install_store(real_bench.store)
    real_bench.enqueue()

    def big():
        Group.objects.create(name="paid")
        return "x" * LIMIT

    assert isinstance(
        real_bench.attempt(lambda ctx: ctx.step.atomic("big", big)).error, PayloadTooLarge
    )
    assert not Group.objects.exists()


# -- taken up again by a person


def five(ctx, calls, fail_at=None):
    for name in ("s1", "s2", "s3", "s4", "s5"):
        if name == fail_at:
            raise ValueError(f"{name} is broken")
        ctx.step.run(name, calls, name)
    return "done"


def test_a_failed_run_goes_on_from_its_failed_step_and_keeps_what_came_before(bench):
    job_id = bench.enqueue(max_attempts=1)
    calls = Calls()
    bench.attempt(lambda ctx: five(ctx, calls, fail_at="s3"))
    before = bench.steps(job_id)
    bench.store.requeue(job_id)

    assert bench.attempt(lambda ctx: five(ctx, calls)).value == "done"
    assert calls == ["s1", "s2", "s3", "s4", "s5"]
    after = bench.steps(job_id)
    assert {name: after[name] for name in before} == before


def test_requeued_from_a_step_a_run_does_it_and_those_behind_it_again_and_keeps_the_old_ones(
    bench,
):
    job_id = bench.enqueue(max_attempts=1)
    calls = Calls()
    bench.attempt(lambda ctx: five(ctx, calls, fail_at="s4"))
    kept = bench.steps(job_id)["s1"]
    bench.store.requeue(job_id, from_step="s2")
    assert set(bench.steps(job_id)) == {"s1"}

    assert bench.attempt(lambda ctx: five(ctx, calls)).value == "done"
    assert calls == ["s1", "s2", "s3", "s2", "s3", "s4", "s5"]
    assert bench.steps(job_id)["s1"] == kept
    (history,) = [row for row in bench.store.attempts(job_id) if row.steps is not None]
    assert [step["name"] for step in json.loads(history.steps)] == ["s2", "s3"]
    assert [step["output"] for step in json.loads(history.steps)] == ["s2", "s3"]


def test_a_requeue_from_a_step_that_was_never_stored_changes_nothing(bench):
    job_id = bench.enqueue(max_attempts=1)
    calls = Calls()
    bench.attempt(lambda ctx: five(ctx, calls, fail_at="s3"))
    before = bench.row(job_id), bench.steps(job_id)

    with pytest.raises(StepNotFound):
        bench.store.requeue(job_id, from_step="s3")

    assert (bench.row(job_id), bench.steps(job_id)) == before


@pytest.mark.parametrize("hours", [1, 5])
def test_a_sleeper_that_was_cancelled_and_requeued_keeps_the_time_it_wakes(bench, clock, hours):
    job_id = bench.enqueue()

    def body(ctx):
        ctx.step.sleep("nap", "3h")
        return "awake"

    bench.attempt(body)
    before = bench.steps(job_id)["nap"]
    bench.store.cancel(job_id, reason="")
    clock.advance(hours=hours)
    bench.store.requeue(job_id)
    attempt = bench.attempt(body)

    if hours < 3:
        assert isinstance(attempt.error, Suspension)
        assert bench.steps(job_id)["nap"] == before
        assert bench.row(job_id).run_at == before.wake_at
    else:
        assert attempt.value == "awake"
    assert bench.row(job_id).queue == "default"


# -- the order in which inputs were consumed


@pytest.mark.parametrize("is_looked_at", ["after each", "between look and park"])
@pytest.mark.parametrize("order", sorted(permutations(["start", "end", "resume"])))
def test_a_replay_takes_the_branch_that_was_taken_because_inputs_keep_their_order(
    bench, order, is_looked_at
):
    """A body that branches on what came first must branch alike when it reads its history."""
    bench.enqueue()
    trails = []
    inputs = list(order)

    def body(ctx):
        trail, is_running = [], False
        for place in range(3):
            try:
                event = ctx.step.wait_for_any(f"input {place}", events=["start", "end", "resume"])
            except Suspension:
                # It comes in the moment before the run is parked.
                if is_looked_at == "between look and park" and inputs:
                    publish_event(inputs.pop(0))
                raise
            if event.name == "start":
                is_running = True
            elif event.name == "end":
                is_running = False
            trail.append(f"{event.name}, {'busy' if is_running else 'free'}")
            if event.name == "resume" and not is_running:
                trail.append(ctx.step.run("step 2", str, "began step 2"))
        trails.append(trail)
        if len(trails) < 3:
            raise ValueError("crash, and replay all of it")
        return trail

    while not (attempt := bench.attempt(body)).landed or attempt.value is None:
        if isinstance(attempt.error, Suspension) and is_looked_at == "after each":
            publish_event(inputs.pop(0))

    assert [line.split(",")[0] for line in trails[0] if "," in line] == list(order)
    assert trails == [trails[0]] * 3
