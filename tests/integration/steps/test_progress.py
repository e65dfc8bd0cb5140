"""Progress is written at most once a second, the last value counts, and no run fails by it."""

from __future__ import annotations

import json
import logging

import pytest

from django_durable_jobs import clock as process_clock
from django_durable_jobs.drivers.memory import MemoryStore
from django_durable_jobs.exceptions import Draining, PayloadInvalid, StoreUnavailable
from tests.integration.steps.bench import Bench


@pytest.fixture
def seconds(monkeypatch):
    """Moves the process's clock for durations; it stands still otherwise."""
    now = [500.0]
    monkeypatch.setattr(process_clock, "monotonic", lambda: now[0])

    def move(by):
        now[0] += by

    return move


def test_the_first_value_is_written_at_once(bench):
    job_id = bench.enqueue()
    bench.context(bench.claim()).progress({"percent": 10})

    assert json.loads(bench.row(job_id).progress) == {"percent": 10}


def test_values_within_a_second_are_kept_back_and_the_last_one_is_written_at_the_end(
    bench, seconds
):
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())
    for percent in (10, 20, 30):
        ctx.progress(percent)
    assert bench.row(job_id).progress == "10"

    ctx.flush_progress()

    assert bench.row(job_id).progress == "30"


def test_after_a_second_the_next_value_is_written(bench, seconds):
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())
    ctx.progress(10)
    seconds(0.9)
    ctx.progress(20)
    assert bench.row(job_id).progress == "10"

    seconds(0.1)
    ctx.progress(30)

    assert bench.row(job_id).progress == "30"


def test_flushing_writes_nothing_twice_and_nothing_that_was_not_reported(bench, seconds):
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())
    ctx.flush_progress()
    assert bench.row(job_id).progress is None

    ctx.progress(10)
    bench.worker_store.record_progress(ctx._claimed.identity, '"by hand"')
    ctx.flush_progress()

    assert json.loads(bench.row(job_id).progress) == "by hand"


def test_a_cancelled_attempt_does_not_flush(bench, seconds):
    job_id = bench.enqueue()
    ctx = bench.context(bench.claim())
    ctx.progress(10)
    ctx.progress(20)
    ctx.signal.cancel(Draining())
    ctx.flush_progress()

    assert bench.row(job_id).progress == "10"


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "a\0", object()])
def test_a_value_that_cannot_be_stored_is_an_error_at_the_call(bench, value):
    job_id = bench.enqueue()

    with pytest.raises(PayloadInvalid, match=r"Progress of job 'shop\.pay'"):
        bench.context(bench.claim()).progress(value)

    assert bench.row(job_id).progress is None


class Unreachable(MemoryStore):
    """Cannot be reached when progress is to be written."""

    def record_progress(self, identity, progress):
        raise StoreUnavailable("The database went away.")


def test_a_run_goes_on_when_its_progress_cannot_be_written(caplog):
    bench = Bench(Unreachable())
    job_id = bench.enqueue()

    def body(ctx):
        ctx.progress(10)
        return "done"

    with caplog.at_level(logging.WARNING):
        assert bench.attempt(body).value == "done"

    assert f"jobs.progress.lost: progress of job {job_id} was not stored." in caplog.text
