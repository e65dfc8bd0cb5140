"""A running body is told to stop once, for one reason, and everybody who listens hears it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_durable_jobs.exceptions import Aborted, Draining, JobTimeout, LeaseLost, RunFault
from django_durable_jobs.lifecycle.cancellation import CancelSignal


@pytest.fixture
def signal():
    return CancelSignal("job-1")


def test_a_signal_that_was_not_given_lets_the_body_go_on(signal):
    signal.check()

    assert not signal.is_set
    assert signal.reason is None
    assert not signal.wait(0)


def test_the_first_reason_wins(signal):
    first, second = Draining(), JobTimeout("shop.pay", 5)

    assert signal.cancel(first) is True
    assert signal.cancel(second) is False

    assert signal.reason is first


def test_of_many_threads_that_cancel_at_once_exactly_one_is_the_first(signal):
    heard: list[RunFault] = []
    signal.subscribe(heard.append)
    reasons = [LeaseLost("job-1", f"act {number}") for number in range(32)]
    start = threading.Barrier(8)

    def cancel(reason):
        if reasons.index(reason) < 8:
            start.wait(10)
        return signal.cancel(reason)

    with ThreadPoolExecutor(8) as threads:
        firsts = list(threads.map(cancel, reasons))

    assert firsts.count(True) == 1
    assert heard == [reasons[firsts.index(True)]] == [signal.reason]


def test_a_check_after_the_order_names_the_reason_and_carries_it(signal):
    reason = Draining()
    signal.cancel(reason)

    with pytest.raises(Aborted) as caught:
        signal.check()

    assert str(caught.value) == "The attempt at job job-1 was cancelled (X_DRAINING)."
    assert caught.value.reason == "X_DRAINING"
    assert caught.value.__cause__ is reason


def test_an_ended_attempt_is_cancelled_too(signal):
    signal.end()

    with pytest.raises(Aborted, match=r"was cancelled \(it has ended\)"):
        signal.check()


def test_the_end_of_an_attempt_keeps_an_earlier_reason(signal):
    reason = Draining()
    signal.cancel(reason)
    signal.end()

    assert signal.reason is reason


def test_waiting_ends_when_another_thread_cancels(signal):
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(signal.wait, 30)
        signal.cancel(Draining())

        assert waiting.result(30) is True


def test_a_listener_hears_the_reason_once(signal):
    heard: list[RunFault] = []
    signal.subscribe(heard.append)
    reason = Draining()
    signal.cancel(reason)
    signal.cancel(Draining())

    assert heard == [reason]


def test_a_listener_that_comes_late_is_told_at_once(signal):
    reason = Draining()
    signal.cancel(reason)
    heard: list[RunFault] = []
    signal.subscribe(heard.append)

    assert heard == [reason]


def test_who_unsubscribed_hears_nothing(signal):
    heard: list[RunFault] = []
    unsubscribe = signal.subscribe(heard.append)
    signal.subscribe(heard.append)
    unsubscribe()
    unsubscribe()
    reason = Draining()
    signal.cancel(reason)

    assert heard == [reason]


def test_a_listener_that_raises_keeps_the_others_from_nothing(signal, caplog):
    heard: list[RunFault] = []

    def broken(reason):
        raise ValueError("listener")

    signal.subscribe(broken)
    signal.subscribe(heard.append)
    reason = Draining()

    assert signal.cancel(reason) is True
    assert heard == [reason]
    assert "A listener to the cancelling of job job-1 raised." in caplog.text


def test_a_narrowed_signal_follows_the_attempt(signal):
    reason = Draining()
    with signal.narrowed() as part:
        signal.cancel(reason)

        assert part.reason is reason


def test_a_narrowed_signal_of_a_cancelled_attempt_is_set_from_the_start(signal):
    signal.cancel(Draining())

    with signal.narrowed() as part:
        assert part.is_set


def test_a_narrowed_signal_that_is_set_alone_leaves_the_attempt_be(signal):
    with signal.narrowed() as part:
        part.cancel(Draining())

    assert not signal.is_set


def test_the_tie_of_a_narrowed_signal_is_cut_when_its_part_is_over(signal):
    """An attempt of ten thousand timed steps must not call ten thousand listeners."""
    with signal.narrowed() as part:
        pass
    signal.cancel(Draining())

    assert not part.is_set
