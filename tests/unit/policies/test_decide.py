"""What becomes of a job when an attempt ends."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from django_durable_jobs import exceptions
from django_durable_jobs.policies.classification import (
    CLASSES,
    Facts,
    Retryable,
    RetryAfter,
    Terminal,
    classify,
    facts_of,
)
from django_durable_jobs.policies.decide import (
    Completed,
    Decision,
    Interrupted,
    Outcome,
    Raised,
    Suspended,
    TimedOut,
    decide,
)
from django_durable_jobs.policies.retry import Retry

EXACT = Retry(delay=2, jitter="none")
NOW = timedelta(0)


def after(outcome: Outcome, attempt: int = 1, retry: Retry = EXACT, most: int = 5) -> Decision:
    return decide(outcome, retry=retry, attempt=attempt, max_attempts=most, random=lambda: 0.0)


def raised(code: str | None = None, retry_after: object = None) -> Raised:
    return Raised(Facts(code=code, retry_after=retry_after))


def test_a_body_that_returned_is_done() -> None:
    assert after(Completed("1")) == Decision("done")


def test_a_suspended_run_gets_its_attempt_back_and_wakes_when_it_asked_to() -> None:
    hour = timedelta(hours=1)

    assert after(Suspended(hour), attempt=5) == Decision("suspended", delay=hour, give_back=True)
    assert after(Suspended(), attempt=5) == Decision("suspended", delay=None, give_back=True)


def test_an_interrupted_attempt_is_given_back_and_ready_at_once_even_when_it_was_the_last() -> None:
    assert after(Interrupted(), attempt=5) == Decision("ready", delay=NOW, give_back=True)


@pytest.mark.parametrize("outcome", [raised(), raised("X_UNHEARD_OF"), raised("X_TIMEOUT"),
                                     raised("X_DRAINING"), TimedOut()])  # fmt: skip
def test_a_failed_attempt_is_spent_and_tried_again_after_the_backoff(outcome: Outcome) -> None:
    assert after(outcome, attempt=3) == Decision("ready", delay=timedelta(seconds=8))


@pytest.mark.parametrize("outcome", [raised(), raised("X_RATE_LIMITED", 5), TimedOut()])
def test_a_job_out_of_attempts_goes_to_the_dead_letters(outcome: Outcome) -> None:
    assert after(outcome, attempt=5) == Decision(
        "dead", stop_reason="The last of 5 attempts failed."
    )


def test_the_row_and_not_the_policy_says_how_many_attempts_there_are() -> None:
    assert after(raised(), attempt=1, most=1).stop_reason == "The only attempt failed."
    assert after(raised(), attempt=7, most=8).state == "ready"


def test_a_terminal_error_stops_the_job_at_once_and_leaves_the_other_attempts_unspent() -> None:
    assert after(raised("X_JOB_INPUT_INVALID"), attempt=1) == Decision(
        "dead",
        stop_reason=("X_JOB_INPUT_INVALID is terminal: another attempt would end the same way."),
    )


@pytest.mark.parametrize(("code", "attempt"), [(None, 5), ("X_JOB_KEY_BUSY", 1)])
def test_a_job_without_dead_letters_ends_failed(code: str | None, attempt: int) -> None:
    assert after(raised(code), attempt, Retry(dead_letter=False)).state == "failed"


@pytest.mark.parametrize("code", ["X_RATE_LIMITED", "X_OVERLOADED"])
def test_a_stated_delay_replaces_the_backoff_within_the_longest_and_spends_the_attempt(
    code: str,
) -> None:
    assert after(raised(code, 90)) == Decision("ready", delay=timedelta(seconds=90))
    assert after(raised(code, 10**9)).delay == EXACT.max_delay


@pytest.mark.parametrize("stated", [None, -1, math.nan, math.inf, "90", True, 10**400])
def test_a_stated_delay_that_is_no_length_of_time_gives_way_to_the_backoff(stated: object) -> None:
    assert after(raised("X_RATE_LIMITED", stated)).delay == timedelta(seconds=2)


def test_a_stated_delay_counts_only_for_codes_that_may_state_one() -> None:
    assert classify(Facts(retry_after=90)) == Retryable()
    assert classify(Facts("X_RATE_LIMITED", retry_after=90)) == RetryAfter(90)


def test_what_an_error_says_of_itself_goes_before_the_table() -> None:
    assert isinstance(classify(Facts(terminal=True)), Terminal)
    assert classify(Facts("X_JOB_KEY_BUSY", terminal=False)) == Retryable()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("X_JOB_KEY_BUSY", "terminal"),
        ("X_LEDGER_UNBALANCED", "terminal"),
        ("X_LEDGER_ENTRY_INVALID", "terminal"),
        ("X_LEDGER_POSTING_CONFLICT", "terminal"),
        ("X_EVENT_REFUSED", "terminal"),
        ("X_STEP_OUTPUT_UNSERIALIZABLE", "terminal"),
        ("X_JOB_RESULT_UNSERIALIZABLE", "retryable"),
        ("X_DB_LOCK_TIMEOUT", "retryable"),
        ("X_LOCK_NOT_ACQUIRED", "retryable"),
        ("X_RATE_LIMITED", "retry-after"),
    ],
)
def test_each_code_keeps_its_class(code: str, kind: str) -> None:
    assert CLASSES[code] == kind


def test_facts_are_read_from_an_error_and_foreign_attributes_are_not_trusted() -> None:
    class Foreign(Exception):
        code = 429
        terminal = "yes"
        retry_after = 3

    assert facts_of(Foreign()) == Facts(retry_after=3)
    assert facts_of(exceptions.StepDuplicate("a")) == Facts(code="X_STEP_DUPLICATE")
    assert facts_of(ValueError()) == Facts()
