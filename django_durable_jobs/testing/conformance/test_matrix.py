"""The table of allowed moves, row by row, and that nothing else moves.

Every situation a job can be in meets every verb. What the table below names must
happen, and only that; every other pair is refused or leaves the job exactly as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

import pytest

from django_durable_jobs import states
from django_durable_jobs.exceptions import LeaseLost, OperationRefused
from django_durable_jobs.store import JobStore
from django_durable_jobs.store.rows import ClaimIdentity

from .given import (
    BOOM,
    LEASE,
    Clock,
    claim,
    claimed,
    enqueue,
    everything,
    publish,
    put_wait,
    settle,
    shown,
)

Reach = Callable[[JobStore, Clock], UUID]
Act = Callable[[JobStore, UUID], object]


@dataclass(frozen=True)
class Move:
    """What a verb makes of a job: the state it ends in, and how its counters change.

    Attributes:
        attempt: Change of ``attempt``; None is "set to 0".
        is_due: Whether it must be due now; None where the table says nothing.
    """

    state: str
    attempt: int | None = 0
    claims: int = 0
    is_due: bool | None = None


def _run(store: JobStore, max_attempts: int = 3) -> ClaimIdentity:
    """A claimed job with an open wait: whatever an event may not wake must be able to wait."""
    identity = claimed(store, max_attempts=max_attempts)
    put_wait(store, identity)
    return identity


def _backing_off(store: JobStore, clock: Clock) -> UUID:
    identity = _run(store)
    settle(store, identity, states.READY, failure=BOOM, delay=timedelta(days=1))
    return identity.job_id


def _delayed_and_due(store: JobStore, clock: Clock) -> UUID:
    job_id = enqueue(store, delay=timedelta(minutes=1))
    clock.advance(minutes=2)
    return job_id


def _lapsed(max_attempts: int) -> Reach:
    def reach(store: JobStore, clock: Clock) -> UUID:
        identity = _run(store, max_attempts=max_attempts)
        clock.advance(seconds=61)
        return identity.job_id

    return reach


def _parked(delay: timedelta | None) -> Reach:
    def reach(store: JobStore, clock: Clock) -> UUID:
        identity = _run(store)
        settle(store, identity, states.SUSPENDED, give_back=True, delay=delay)
        return identity.job_id

    return reach


def _ended(state: str) -> Reach:
    def reach(store: JobStore, clock: Clock) -> UUID:
        identity = _run(store)
        if state == states.CANCELLED:
            store.cancel(identity.job_id, reason="by hand")
        else:
            settle(store, identity, state, failure=None if state == states.DONE else BOOM)
        return identity.job_id

    return reach


SITUATIONS: Final[dict[str, tuple[str, Reach]]] = {
    "ready": (states.READY, lambda store, clock: enqueue(store)),
    "ready, backing off": (states.READY, _backing_off),
    "delayed": (states.DELAYED, lambda store, clock: enqueue(store, delay=timedelta(days=1))),
    "delayed, due": (states.DELAYED, _delayed_and_due),
    "running": (states.RUNNING, lambda store, clock: _run(store).job_id),
    "running, lapsed": (states.RUNNING, _lapsed(3)),
    "running, lapsed on the final attempt": (states.RUNNING, _lapsed(1)),
    "suspended": (states.SUSPENDED, _parked(None)),
    "suspended, due": (states.SUSPENDED, _parked(timedelta(0))),
    "done": (states.DONE, _ended(states.DONE)),
    "failed": (states.FAILED, _ended(states.FAILED)),
    "dead": (states.DEAD, _ended(states.DEAD)),
    "cancelled": (states.CANCELLED, _ended(states.CANCELLED)),
}


def _identity(store: JobStore, job_id: UUID) -> ClaimIdentity:
    """The newest claim, right in all but, perhaps, that it is over."""
    return ClaimIdentity(job_id, "worker-1", shown(store, job_id).claims)


def _settle(state: str, **options: object) -> Act:
    def act(store: JobStore, job_id: UUID) -> None:
        settle(store, _identity(store, job_id), state, **options)

    return act


def _rescue(*drop: str) -> Act:
    def act(store: JobStore, job_id: UUID) -> None:
        store.rescue("worker-2", ["default"], limit=9, lease=LEASE, drop_exhausted=drop)

    return act


VERBS: Final[dict[str, tuple[str, Act]]] = {
    "claim": ("claim", lambda store, job_id: claim(store)),
    "rescue": ("rescue", _rescue()),
    "rescue, dropping": ("rescue", _rescue("shop.pay")),
    "settle done": ("settle", _settle(states.DONE, result="1")),
    "settle ready": ("settle", _settle(states.READY, delay=timedelta(hours=1))),
    "settle given back": (
        "settle",
        _settle(states.READY, delay=timedelta(hours=1), give_back=True),
    ),
    "settle suspended": ("settle", _settle(states.SUSPENDED, give_back=True)),
    "settle dead": ("settle", _settle(states.DEAD, failure=BOOM)),
    "settle failed": ("settle", _settle(states.FAILED, failure=BOOM)),
    "cancel": ("cancel", lambda store, job_id: store.cancel(job_id, reason="by hand")),
    "requeue": ("requeue", lambda store, job_id: store.requeue(job_id)),
    "promote": ("promote", lambda store, job_id: store.promote(job_id)),
    "publish": ("publish", lambda store, job_id: publish(store)),
}

_SETTLEMENTS: Final[dict[str, Move]] = {
    "settle done": Move(states.DONE),
    "settle ready": Move(states.READY, is_due=False),
    "settle given back": Move(states.READY, attempt=-1, is_due=False),
    "settle suspended": Move(states.SUSPENDED, attempt=-1, is_due=False),
    "settle dead": Move(states.DEAD),
    "settle failed": Move(states.FAILED),
}
_CLAIMED: Final = Move(states.RUNNING, attempt=1, claims=1)

TABLE: Final[dict[tuple[str, str], Move]] = {
    ("ready", "claim"): _CLAIMED,
    ("delayed, due", "claim"): _CLAIMED,
    ("suspended, due", "claim"): _CLAIMED,
    ("running, lapsed", "rescue"): _CLAIMED,
    ("running, lapsed", "rescue, dropping"): _CLAIMED,
    ("running, lapsed on the final attempt", "rescue"): Move(states.DEAD),
    ("running, lapsed on the final attempt", "rescue, dropping"): Move(states.FAILED),
    **{
        (situation, verb): move
        for situation, (state, _) in SITUATIONS.items()
        if state == states.RUNNING
        for verb, move in _SETTLEMENTS.items()
    },
    **{
        (situation, "cancel"): Move(states.CANCELLED)
        for situation, (state, _) in SITUATIONS.items()
        if state in states.LIVE_STATES
    },
    **{
        (situation, "requeue"): Move(states.READY, attempt=None, is_due=True)
        for situation, (state, _) in SITUATIONS.items()
        if state in states.FINISHED_STATES
    },
    ("delayed", "promote"): Move(states.READY, is_due=True),
    ("delayed, due", "promote"): Move(states.READY, is_due=True),
    ("ready, backing off", "promote"): Move(states.READY, is_due=True),
    ("suspended", "publish"): Move(states.SUSPENDED, is_due=True),
}


class TestMatrix:
    @pytest.mark.parametrize(("situation", "verb"), TABLE)
    def test_an_allowed_move_ends_where_the_table_says(
        self, store: JobStore, clock: Clock, situation: str, verb: str
    ) -> None:
        state, reach = SITUATIONS[situation]
        cause, act = VERBS[verb]
        job_id = reach(store, clock)
        before = shown(store, job_id)
        assert before.state == state

        act(store, job_id)

        move, after = TABLE[situation, verb], shown(store, job_id)
        assert after.state == move.state
        assert after.state in states.MOVES[state, cause]
        assert after.attempt == (0 if move.attempt is None else before.attempt + move.attempt)
        assert after.claims == before.claims + move.claims
        if move.is_due is not None:
            assert (after.run_at <= store.now()) is move.is_due

    @pytest.mark.parametrize(
        ("situation", "verb"),
        [(row, verb) for row in SITUATIONS for verb in VERBS if (row, verb) not in TABLE],
    )
    def test_any_other_verb_is_refused_or_leaves_the_job_as_it_was(
        self, store: JobStore, clock: Clock, situation: str, verb: str
    ) -> None:
        state, reach = SITUATIONS[situation]
        _, act = VERBS[verb]
        job_id = reach(store, clock)
        before = everything(store, job_id)
        assert before.job is not None
        assert before.job.state == state

        with suppress(OperationRefused, LeaseLost):
            act(store, job_id)

        assert everything(store, job_id) == before

    @pytest.mark.parametrize("situation", SITUATIONS)
    def test_a_job_is_removed_in_any_state_but_running(
        self, store: JobStore, clock: Clock, situation: str
    ) -> None:
        state, reach = SITUATIONS[situation]
        job_id = reach(store, clock)
        before = everything(store, job_id)

        with suppress(OperationRefused):
            store.remove(job_id)

        if state == states.RUNNING:
            assert everything(store, job_id) == before
        else:
            assert store.show(job_id) is None

    def test_the_table_tries_every_allowed_move(self) -> None:
        tried = {
            (SITUATIONS[situation][0], VERBS[verb][0], move.state)
            for (situation, verb), move in TABLE.items()
        }
        allowed = {
            (state, cause, end)
            for (state, cause), ends in states.MOVES.items()
            for end in ends
            if cause != "enqueue"
        }

        assert tried == allowed
