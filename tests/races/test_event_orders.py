"""A run that waits and a publisher, in every order of their steps."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import combinations

import pytest

from django_durable_jobs import states
from django_durable_jobs.testing.conformance.given import (
    claimed,
    found,
    publish,
    put_wait,
    settle,
    shown,
)

from .stepping import REAL, Stepped

pytestmark = REAL

PUBLISHER = ("publish", "commit", "look")
RUN = ("begin", "search", "park", "look again")
ORDERS = [
    tuple(
        PUBLISHER[places.index(place)]
        if place in places
        else RUN[place - sum(each < place for each in places)]
        for place in range(len(PUBLISHER) + len(RUN))
    )
    for places in combinations(range(len(PUBLISHER) + len(RUN)), len(PUBLISHER))
]


def play(order, worker, publisher, key=None):
    """Whether the run found its event or is due again, and how many wakes were missed."""
    identity = claimed(worker)
    transaction = ExitStack()
    wait = None
    is_found = False
    with transaction:
        for step in order:
            match step:
                case "publish":
                    transaction.enter_context(publisher.atomic())
                    publish(publisher, key=key)
                case "commit":
                    transaction.close()
                case "look":
                    publisher.look()
                case "begin":
                    wait = put_wait(worker, identity, correlation_key=key)
                case "search":
                    assert wait is not None
                    is_found = found(worker, wait) is not None
                case "park" if not is_found:
                    assert settle(worker, identity, states.SUSPENDED, give_back=True)
                case "look again" if not is_found:
                    worker.wake_waiters([identity.job_id])
    goes_on = is_found or shown(worker, identity.job_id).is_armed
    missed = worker.wake_missed(limit=10)
    worker.cancel(identity.job_id, reason="played")
    return goes_on, missed


def test_there_are_thirty_five_orders():
    assert len(set(ORDERS)) == 35


@pytest.mark.parametrize("key", [None, "7"], ids=["without a key", "by key"])
@pytest.mark.parametrize("order", ORDERS, ids=", ".join)
def test_an_event_that_commits_after_a_wait_began_ends_it_in_any_order(worker, make, order, key):
    is_after = order.index("commit") > order.index("begin")

    assert play(order, worker, make(Stepped), key) == (is_after, 0)


@pytest.mark.parametrize("left_out", ["look", "look again"])
def test_with_either_look_left_out_some_order_would_lose_a_wake(worker, make, left_out):
    publisher = make(Stepped)
    played = [[step for step in order if step != left_out] for order in ORDERS]

    outcomes = [play(order, worker, publisher) for order in played]

    assert (False, 1) in outcomes
