"""The job's own hook hears of the end once, after it was written, and harms nothing."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_durable_jobs.exceptions import InputInvalid, PayloadInvalid
from django_durable_jobs.policies.retry import Retry
from django_durable_jobs.settle import Settled, announce_buried, announce_settled
from django_durable_jobs.settle.announce import ON_SETTLED_ATTEMPTS
from django_durable_jobs.states import LEASE_LAPSED_FINAL_ATTEMPT
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import (
    BuriedJob,
    ClaimedJob,
    ClaimIdentity,
    Failure,
    Settlement,
)

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
JOB_ID = new_id()
IDENTITY = ClaimIdentity(JOB_ID, "worker-1", 2)
CLAIMED = ClaimedJob(
    identity=IDENTITY,
    name="shop.old_name",
    queue="default",
    input='{"order_id": 7}',
    attempt=2,
    max_attempts=3,
    tenant_id="",
    enqueued_by="",
    trace_parent="",
    created_at=NOW,
    claimed_at=NOW,
    unknown_since=None,
)
BOOM = Failure("X_BOOM", "shop.Boom", "The gateway is away.")


@dataclass
class Job:
    """A declaration whose hook keeps what it was told, after failing *fails* times."""

    fails: int = 0
    error: BaseException = field(default_factory=lambda: ValueError("hook"))
    input_error: Exception | None = None
    result_error: Exception | None = None
    heard: list[Settled] = field(default_factory=list)
    name: str = "shop.pay"
    queue: str = "default"
    retry: Retry = field(default_factory=Retry)
    timeout: timedelta | None = None

    def on_settled(self, settled: Settled) -> None:
        self.heard.append(settled)
        if len(self.heard) <= self.fails:
            raise self.error

    def load_input(self, text: str) -> Any:
        if self.input_error is not None:
            raise self.input_error
        return {"loaded": text}

    def load_result(self, text: str) -> Any:
        if self.result_error is not None:
            raise self.result_error
        return {"loaded": text}


class HooklessJob(Job):
    on_settled = None  # type: ignore[assignment] # a declaration without a hook


def settlement(state, **options):
    return Settlement(IDENTITY, state, **options)


def announce(job, settled):
    pauses: list[float] = []
    return announce_settled(job, CLAIMED, settled, pause=pauses.append), pauses


def test_a_completed_job_tells_input_and_result():
    job = Job()

    assert announce(job, settlement("done", result="5")) == (True, [])
    assert job.heard == [
        Settled(
            outcome="completed",
            job_id=JOB_ID,
            job_name="shop.pay",
            input={"loaded": '{"order_id": 7}'},
            result={"loaded": "5"},
            error=None,
            code=None,
            attempt=2,
        )
    ]


@pytest.mark.parametrize(
    ("state", "failure", "outcome"),
    [
        ("dead", BOOM, "dead-lettered"),
        ("failed", BOOM, "dropped"),
        ("failed", Failure("X_JOB_KEY_BUSY", "shop.Busy", "The key is busy."), "refused"),
    ],
)
def test_a_job_that_was_given_up_tells_error_and_code(state, failure, outcome):
    job = Job()
    announce(job, settlement(state, failure=failure, stop_reason="stop"))

    (settled,) = job.heard
    assert settled.outcome == outcome
    assert (settled.error, settled.code) == (failure.message, failure.code)
    assert settled.result is None


def test_a_code_is_never_invented():
    job = Job()
    announce(job, settlement("dead", failure=Failure("", "ValueError", "bad")))

    assert job.heard[0].code is None


@pytest.mark.parametrize(
    "error", [InputInvalid("shop.pay", [("order_id", "is required")]), KeyError("validator")]
)
def test_input_that_no_longer_parses_is_absent(error):
    job = Job(input_error=error)
    announce(job, settlement("dead", failure=BOOM))

    assert job.heard[0].input is None


@pytest.mark.parametrize(
    "error", [PayloadInvalid("The result", [("result", "is not a date")]), KeyError("validator")]
)
def test_a_result_that_its_type_no_longer_takes_is_told_as_json(error):
    job = Job(result_error=error)
    announce(job, settlement("done", result='{"day": 1}'))

    assert job.heard[0].result == {"day": 1}


@pytest.mark.parametrize("state", ["ready", "suspended"])
def test_a_job_that_goes_on_is_not_announced(state):
    job = Job()

    assert announce(job, settlement(state, failure=BOOM))[0] is True
    assert job.heard == []


def test_a_job_without_a_hook_has_nothing_to_announce():
    assert announce(HooklessJob(), settlement("done", result="5"))[0] is True


def test_a_hook_that_fails_is_told_again_after_a_pause():
    job = Job(fails=2)
    told, pauses = announce(job, settlement("done", result="5"))

    assert told is True
    assert len(job.heard) == 3
    assert job.heard[0] == job.heard[2]
    assert pauses == [0.1, 0.2]


@pytest.mark.parametrize("error", [ValueError("hook"), SystemExit(1)])
def test_a_hook_that_fails_every_time_is_logged_and_raises_nothing(caplog, error):
    job = Job(fails=99, error=error)
    with caplog.at_level(logging.ERROR):
        told, pauses = announce(job, settlement("done", result="5"))

    assert told is False
    assert (len(job.heard), len(pauses)) == (ON_SETTLED_ATTEMPTS, ON_SETTLED_ATTEMPTS - 1)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"jobs.on_settled.failed: on_settled of job 'shop.pay' ({JOB_ID}) "
        "raised on each of 3 tries."
    )
    assert record.__dict__["code"] == "X_JOB_ON_SETTLED_FAILED"
    assert record.exc_info[1] is error


@pytest.mark.parametrize(("state", "outcome"), [("dead", "dead-lettered"), ("failed", "dropped")])
def test_a_buried_job_is_announced_without_a_code(state, outcome):
    job = Job()
    buried = BuriedJob(
        id=JOB_ID,
        name="shop.pay",
        queue="default",
        state=state,
        input="{}",
        attempt=3,
        max_attempts=3,
        tenant_id="",
        error=LEASE_LAPSED_FINAL_ATTEMPT,
    )

    assert announce_buried(job, buried, pause=lambda seconds: None) is True
    (settled,) = job.heard
    assert (settled.outcome, settled.error, settled.code, settled.attempt) == (
        outcome,
        LEASE_LAPSED_FINAL_ATTEMPT,
        None,
        3,
    )
