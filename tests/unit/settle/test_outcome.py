"""The end of an attempt becomes one transition, and why it was stopped goes first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from django_durable_jobs.exceptions import (
    Aborted,
    Draining,
    JobTimeout,
    LeaseLost,
    StepDuplicate,
    StepTimeout,
    SuspensionSwallowed,
)
from django_durable_jobs.policies.retry import Retry
from django_durable_jobs.settle import (
    UNVERSIONED,
    Parked,
    Returned,
    settlement_of,
    settlement_of_other_version,
    settlement_of_unknown,
)
from django_durable_jobs.store.ids import new_id
from django_durable_jobs.store.rows import ClaimedJob, ClaimIdentity

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
CLAIMED = ClaimedJob(
    identity=ClaimIdentity(new_id(), "worker-1", 2),
    name="shop.pay",
    queue="default",
    input="{}",
    attempt=1,
    max_attempts=3,
    tenant_id="",
    enqueued_by="",
    trace_parent="",
    created_at=NOW,
    claimed_at=NOW,
    unknown_since=None,
)


RETRY = Retry(attempts=3, delay="8s", jitter="none")


@dataclass(frozen=True)
class Job:
    """A declaration as plain data."""

    retry: Retry = RETRY
    name: str = "shop.pay"
    queue: str = "default"
    timeout: timedelta | None = None
    on_settled: None = None

    def load_input(self, text: str) -> object:
        return text

    def load_result(self, text: str) -> object:
        return text


class RateLimited(Exception):
    code = "X_RATE_LIMITED"
    retry_after = 90


def settle(end, *, claimed=CLAIMED, job=Job(), reason=None):
    return settlement_of(end, claimed=claimed, definition=job, reason=reason, random=lambda: 0.0)


def test_a_body_that_returned_is_done_with_its_result():
    settlement = settle(Returned('{"id": 7}'))

    assert (settlement.state, settlement.result) == ("done", '{"id": 7}')
    assert settlement.identity == CLAIMED.identity
    assert settlement.failure is None
    assert not settlement.give_back


def test_a_parked_run_gets_its_attempt_back_and_its_time():
    settlement = settle(Parked(run_at=NOW, waits=True))

    assert (settlement.state, settlement.run_at, settlement.waits) == ("suspended", NOW, True)
    assert settlement.give_back
    assert settlement.failure is None


def test_a_run_parked_without_an_end_has_no_time():
    settlement = settle(Parked(waits=True))

    assert (settlement.state, settlement.run_at, settlement.delay) == ("suspended", None, None)


def test_a_body_that_raised_is_tried_again_after_its_backoff():
    settlement = settle(ValueError("away"))

    assert (settlement.state, settlement.delay) == ("ready", timedelta(seconds=8))
    assert not settlement.give_back
    assert settlement.failure.message == "away"
    assert settlement.stop_reason == ""


def test_the_last_attempt_goes_to_the_dead_letters():
    settlement = settle(ValueError("away"), claimed=replace(CLAIMED, attempt=3))

    assert settlement.state == "dead"
    assert settlement.stop_reason == "The last of 3 attempts failed."
    assert settlement.failure.message == "away"


def test_without_dead_letters_the_last_attempt_is_dropped():
    job = Job(retry=Retry(attempts=3, dead_letter=False))

    assert settle(ValueError(), claimed=replace(CLAIMED, attempt=3), job=job).state == "failed"


def test_an_error_that_no_attempt_can_mend_ends_the_job_at_once():
    settlement = settle(StepDuplicate("charge"))

    assert settlement.state == "dead"
    assert settlement.failure.code == "X_STEP_DUPLICATE"


def test_a_swallowed_suspension_ends_the_job_at_once():
    settlement = settle(SuspensionSwallowed("shop.pay", "nap"))

    assert (settlement.state, settlement.failure.code) == ("dead", "X_JOB_SUSPENSION_SWALLOWED")


def test_a_stated_delay_is_kept():
    assert settle(RateLimited()).delay == timedelta(seconds=90)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_a_body_raises_settles_its_attempt(error):
    assert settle(error).state == "ready"


# -- why the body was told to stop


@pytest.mark.parametrize("end", [Returned("1"), Parked(), ValueError()])
def test_nothing_is_settled_once_the_lease_was_lost(end):
    reason = LeaseLost(CLAIMED.identity.job_id, "renew")

    assert settle(end, reason=reason) is None


def test_a_lost_lease_that_only_the_body_noticed_is_not_settled_either():
    assert settle(LeaseLost(CLAIMED.identity.job_id, "store step 'a'")) is None


def test_the_lost_lease_of_another_job_is_an_error_like_any_other():
    assert settle(LeaseLost(new_id(), "store step 'a'")).state == "ready"


def test_an_attempt_interrupted_by_the_drain_is_given_back_and_due_now():
    settlement = settle(ValueError("whatever"), reason=Draining())

    assert (settlement.state, settlement.delay) == ("ready", timedelta(0))
    assert settlement.give_back
    assert settlement.failure is None


def test_an_interrupted_last_attempt_is_not_dead_lettered():
    aborted = Aborted(CLAIMED.identity.job_id, "X_DRAINING")

    assert settle(aborted, claimed=replace(CLAIMED, attempt=3), reason=Draining()).state == "ready"


def test_a_body_that_ends_well_during_the_drain_is_settled_as_it_ended():
    assert settle(Returned("1"), reason=Draining()).state == "done"
    assert settle(Parked(run_at=NOW), reason=Draining()).run_at == NOW


@pytest.mark.parametrize("end", [Returned("1"), Parked(), ValueError("late")])
def test_a_body_that_outlived_its_timeout_has_timed_out_however_it_ended(end):
    settlement = settle(end, reason=JobTimeout("shop.pay", 300))

    assert (settlement.state, settlement.delay) == ("ready", timedelta(seconds=8))
    assert settlement.failure.code == "X_JOB_TIMEOUT"
    assert settlement.failure.message.startswith("Job 'shop.pay' ran longer than its timeout")
    assert settlement.result is None


def test_a_timed_out_body_shows_where_it_was_when_it_obeyed():
    def loop():
        raise Aborted(CLAIMED.identity.job_id, "X_JOB_TIMEOUT")

    with pytest.raises(Aborted) as caught:
        loop()
    settlement = settle(caught.value, reason=JobTimeout("shop.pay", 300))

    assert settlement.failure.error_class.endswith("JobTimeout")
    assert "in loop" in settlement.failure.traceback


def test_a_timed_out_step_is_retried_as_a_timeout():
    settlement = settle(StepTimeout("shop.pay", "charge", 5))

    assert (settlement.state, settlement.failure.code) == ("ready", "X_JOB_TIMEOUT")


# -- unknown names


def unknown(**age):
    since = NOW - timedelta(**age) if age else None
    return settlement_of_unknown(
        replace(CLAIMED, unknown_since=since), unknown_after=timedelta(hours=24)
    )


def test_a_job_of_unknown_name_is_given_back_with_its_attempt():
    settlement = unknown()

    assert (settlement.state, settlement.delay) == ("ready", timedelta(seconds=30))
    assert settlement.give_back
    assert settlement.unknown_name


@pytest.mark.parametrize(
    ("age", "delay"), [(10, 30), (30, 30), (60, 60), (120, 120), (1800, 1800), (50_000, 1800)]
)
def test_its_delay_doubles_up_to_half_an_hour(age, delay):
    assert unknown(seconds=age).delay == timedelta(seconds=delay)


def test_a_name_that_no_worker_knew_for_a_day_goes_to_the_dead_letters():
    settlement = unknown(hours=24)

    assert settlement.state == "dead"
    assert settlement.failure.code == "X_JOB_UNKNOWN"
    assert settlement.stop_reason == (
        "No worker knew a job named 'shop.pay' for 24 h. Deploy code that declares it (or lists it "
        "in aliases=[...]) and requeue the job."
    )


def test_how_long_an_unknown_name_is_kept_is_a_setting(settings):
    settings.DURABLE_JOBS = {"UNKNOWN_AFTER": "1m"}
    claimed = replace(CLAIMED, unknown_since=NOW - timedelta(seconds=60))

    assert settlement_of_unknown(claimed).state == "dead"


# -- other versions


def other_version(*, code_version="1", awaited="1", **age):
    since = NOW - timedelta(**age) if age else None
    return settlement_of_other_version(
        replace(CLAIMED, code_version=code_version, awaited_version=awaited, unknown_since=since)
    )


def test_a_run_that_waits_for_its_version_is_given_back_with_its_attempt():
    settlement = other_version()

    assert (settlement.state, settlement.give_back) == ("ready", True)
    assert settlement.awaited_version == "1"
    assert not settlement.unknown_name
    # The code that did not run it must not become the one that ran it last.
    assert settlement.code_version is None


@pytest.mark.parametrize(
    ("age", "delay"), [(0, 30), (29, 30), (31, 31), (600, 600), (1800, 1800), (10**8, 1800)]
)
def test_it_is_looked_at_again_after_a_growing_pause_and_never_given_up(age, delay):
    settlement = other_version(seconds=age)

    assert (settlement.state, settlement.delay) == ("ready", timedelta(seconds=delay))


@pytest.mark.parametrize("awaited", ["", "0"])
def test_the_pause_begins_anew_for_another_version_and_after_an_unknown_name(awaited):
    assert other_version(awaited=awaited, hours=5).delay == timedelta(seconds=30)


def test_a_run_that_was_begun_without_a_version_waits_for_that():
    settlement = other_version(code_version="", awaited=UNVERSIONED, seconds=90)

    assert (settlement.awaited_version, settlement.delay) == ("(none)", timedelta(seconds=90))


def test_a_wait_for_a_version_does_not_make_a_name_unknown_for_long():
    claimed = replace(CLAIMED, awaited_version="1", unknown_since=NOW - timedelta(days=30))

    settlement = settlement_of_unknown(claimed)

    assert (settlement.state, settlement.delay) == ("ready", timedelta(seconds=30))
