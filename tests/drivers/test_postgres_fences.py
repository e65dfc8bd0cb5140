"""The fence stands in the statement: a claim taken between a worker's read and its write is seen.

A rival's transaction takes the job and keeps its lock; the worker's write is seen waiting for
that lock; the rival commits; the write must not land. With the predicate taken out of the
statement's text the same write does land, so the predicate is what holds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest
from django.db import connection

from django_durable_jobs import states
from django_durable_jobs.clock import monotonic
from django_durable_jobs.drivers.postgres import PostgresStore, executor
from django_durable_jobs.drivers.postgres.statements import load, names, parse
from django_durable_jobs.exceptions import LeaseLost
from django_durable_jobs.store.rows import ClaimIdentity, NewStep
from django_durable_jobs.testing.conformance.given import (
    BOOM,
    LEASE,
    Clock,
    Everything,
    claim,
    claimed,
    everything,
    family,
    new_job,
    settle,
)

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_durable_jobs"])

PATIENCE = 20
"""Seconds until a write that neither waits nor ends is given up."""


@pytest.fixture
def store():
    with closing(PostgresStore()) as store:
        yield store


@pytest.fixture
def worker(store):
    """The worker's own connections, apart from the rival's."""
    with closing(store.for_worker()) as worker:
        yield worker


@pytest.fixture
def rival(store):
    with closing(store.for_worker()) as rival:
        yield rival


# -- the worker's writes: by the statement that carries the fence


def put(step: NewStep) -> Callable[[PostgresStore, ClaimIdentity], bool]:
    return lambda store, identity: bool(store.put_step(identity, step))


def hold(store: PostgresStore, identity: ClaimIdentity) -> bool:
    with store.atomic():
        store.hold(identity)
    return True


WRITES: dict[str, tuple[str, Callable[[PostgresStore, ClaimIdentity], bool]]] = {
    "done": ("settle", lambda s, i: settle(s, i, states.DONE, result="1")),
    "retry": ("settle", lambda s, i: settle(s, i, states.READY, failure=BOOM)),
    "given back": ("settle", lambda s, i: settle(s, i, states.READY, give_back=True)),
    "suspended": ("settle", lambda s, i: settle(s, i, states.SUSPENDED, give_back=True)),
    "dead": ("settle", lambda s, i: settle(s, i, states.DEAD, failure=BOOM)),
    "done child": ("settle_children", lambda s, i: settle(s, i, states.DONE, result="1")),
    "progress": ("record_progress", lambda s, i: s.record_progress(i, '{"done": 1}')),
    "version": ("record_version", lambda s, i: s.record_version(i, "2")),
    "finished step": ("put_step", put(NewStep("charge", 1, "done", output="1"))),
    "sleeping step": ("put_step", put(NewStep("nap", 1, "sleeping", wait=timedelta(hours=1)))),
    "waiting step": ("put_step", put(NewStep("approval", 1, "waiting", event="approved"))),
    "hold": ("hold", hold),
}

# Asked before the statement, which it must not shield from the rival.
ASKED_FIRST = {"settle_children": "settle"}

# -- the rival's acts, and which predicates keep a write from landing after each


def rescue(store: PostgresStore, worker_id: str) -> None:
    rescued = store.rescue(worker_id, ["default"], limit=9, lease=LEASE, drop_exhausted=())
    assert len(rescued.claimed) == 1


RIVALS: dict[str, tuple[Callable[[PostgresStore, ClaimIdentity], object], tuple[str, ...]]] = {
    "rescued by another worker": (lambda s, i: rescue(s, "worker-2"), ("claim", "worker")),
    "rescued by the same worker": (lambda s, i: rescue(s, i.worker_id), ("claim",)),
    "cancelled": (lambda s, i: s.cancel(i.job_id, reason="by hand"), ("state",)),
}

PREDICATES = {
    "claim": r"and (?:j\.claims = :'claim'::bigint|g\.claim = j\.claims)",
    "worker": r"and (?:j\.worker_id = :'worker_id'|g\.worker_id = j\.worker_id)",
    "state": r"(?<=where )j\.state = 'running'|and j\.state = 'running'",
}


def without(statement: str, predicates: tuple[str, ...]) -> str:
    """The statement's text with those parts of its fence taken out."""
    source = load(statement).source
    for predicate in predicates:
        assert re.search(PREDICATES[predicate], source), f"{statement}.sql has no {predicate}"
        source = re.sub(
            PREDICATES[predicate],
            lambda found: "" if found[0].startswith("and") else "true",
            source,
        )
    return source


def unfence(monkeypatch, statement: str, predicates: tuple[str, ...]) -> None:
    """Run *statement* without those predicates from now on."""
    unfenced = parse(statement, without(statement, predicates))
    # What an earlier call put there, if one did.
    others = vars(executor)["load"]
    monkeypatch.setattr(
        executor, "load", lambda name: unfenced if name == statement else others(name)
    )


def sees_a_session_wait_for_a_lock(write: Future[bool]) -> bool:
    deadline = monotonic() + PATIENCE
    while not write.done() and monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(
                "select exists (select from pg_stat_activity"
                " where datname = current_database() and wait_event_type = 'Lock')"
            )
            if cursor.fetchone() == (True,):
                return True
    return False


def running(store: PostgresStore, write: str) -> ClaimIdentity:
    """A claimed job whose *write* is by its statement, and no other lease that could lapse."""
    if WRITES[write][0] != "settle_children":
        return claimed(store)
    made = family(store, 1, queue="default")
    assert settle(store, made.parent, states.DONE)
    (child,) = claim(store)
    return child.identity


def meet(
    worker: PostgresStore,
    rival: PostgresStore,
    identity: ClaimIdentity,
    act: Callable[[PostgresStore, ClaimIdentity], object],
    write: Callable[[PostgresStore, ClaimIdentity], bool],
) -> tuple[bool, Everything]:
    """Let the rival's act commit while the write waits for it.

    Answers whether the write said that it landed, and what the rival had left.
    """
    with ThreadPoolExecutor(1) as threads:
        with rival.atomic():
            act(rival, identity)
            left = everything(rival, identity.job_id)
            attempt = threads.submit(write, worker, identity)
            assert sees_a_session_wait_for_a_lock(attempt), "The write met no lock."
        try:
            return attempt.result(PATIENCE), left
        except LeaseLost:
            return False, left


@pytest.mark.parametrize("taken", RIVALS)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_waited_for_the_claim_that_replaced_it_does_not_land(
    store, worker, rival, clock: Clock, monkeypatch, write, taken
):
    act, predicates = RIVALS[taken]
    statement, attempt = WRITES[write]
    identity = running(store, write)
    clock.advance(seconds=61)

    if statement in ASKED_FIRST:
        unfence(monkeypatch, ASKED_FIRST[statement], predicates)

    has_landed, left = meet(worker, rival, identity, act, attempt)

    assert not has_landed
    assert everything(store, identity.job_id) == left


@pytest.mark.parametrize("taken", RIVALS)
@pytest.mark.parametrize("write", WRITES)
def test_the_same_write_without_its_predicate_lands(
    store, worker, rival, clock: Clock, monkeypatch, write, taken
):
    """Or the test above could not fail."""
    act, predicates = RIVALS[taken]
    statement, attempt = WRITES[write]
    identity = running(store, write)
    clock.advance(seconds=61)
    for each in {statement, ASKED_FIRST.get(statement, statement)}:
        unfence(monkeypatch, each, predicates)

    has_landed, left = meet(worker, rival, identity, act, attempt)

    assert has_landed if write == "hold" else everything(store, identity.job_id) != left


@pytest.mark.parametrize("taken", RIVALS)
def test_a_transaction_that_meets_the_new_claim_at_its_end_leaves_no_effect(
    store, worker, rival, clock: Clock, taken
):
    identity = claimed(store)
    clock.advance(seconds=61)
    effect = new_job(queue="mail")

    def write(own: PostgresStore, held: ClaimIdentity) -> bool:
        with own.atomic():
            own.insert([effect], on_conflict="existing")
            own.hold(held)
        return True

    has_landed, _ = meet(worker, rival, identity, RIVALS[taken][0], write)

    assert not has_landed
    assert store.show(effect.id) is None


@pytest.mark.parametrize("taken", RIVALS)
def test_a_renewal_neither_waits_for_the_rival_nor_revives_the_lost_claim(
    store, worker, rival, clock: Clock, taken
):
    identity = claimed(store)
    clock.advance(seconds=61)
    with rival.atomic():
        RIVALS[taken][0](rival, identity)
        left = everything(rival, identity.job_id)

        meanwhile = worker.renew([identity], lease=LEASE * 9, beats=())

    assert (set(meanwhile.held), set(meanwhile.lost)) == (set(), set())
    assert worker.renew([identity], lease=LEASE * 9, beats=()).lost == {identity}
    assert everything(store, identity.job_id) == left


@pytest.mark.parametrize("taken", RIVALS)
def test_a_renewal_without_its_predicate_extends_a_lost_claim(
    store, worker, rival, clock: Clock, monkeypatch, taken
):
    """Or the test above could not fail."""
    act, predicates = RIVALS[taken]
    identity = claimed(store)
    clock.advance(seconds=61)
    act(rival, identity)
    left = everything(store, identity.job_id)
    unfence(monkeypatch, "renew", predicates)

    worker.renew([identity], lease=LEASE * 9, beats=())

    assert everything(store, identity.job_id) != left


@pytest.mark.parametrize("taken", RIVALS)
def test_ending_leases_neither_waits_for_the_rival_nor_touches_what_it_took(
    store, worker, rival, clock: Clock, taken
):
    """The thread that ends a dead worker's leases also renews those of the living."""
    identity = claimed(store)
    clock.advance(seconds=61)
    with rival.atomic():
        RIVALS[taken][0](rival, identity)
        left = everything(rival, identity.job_id)

        assert worker.lapse([identity]) == 0

    assert worker.lapse([identity]) == 0
    assert everything(store, identity.job_id) == left


@pytest.mark.parametrize("taken", RIVALS)
def test_ending_leases_without_its_predicate_ends_those_of_others(
    store, worker, rival, clock: Clock, monkeypatch, taken
):
    """Or the test above could not fail."""
    act, predicates = RIVALS[taken]
    identity = claimed(store)
    clock.advance(seconds=61)
    act(rival, identity)
    unfence(monkeypatch, "lapse", predicates)

    assert worker.lapse([identity]) == 1


def test_every_fenced_statement_is_tried():
    fenced = {
        name
        for name in names()
        if all(re.search(PREDICATES[part], load(name).source) for part in ("claim", "worker"))
    }

    assert fenced == {statement for statement, _ in WRITES.values()} | {"renew", "lapse"}
