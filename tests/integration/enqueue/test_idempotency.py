"""At most one live job holds a key, and asking for it never harms the caller's transaction."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Event

import pytest
from django.db import connection, connections, transaction
from django.test import override_settings

from django_durable_jobs import job
from django_durable_jobs.exceptions import InputInvalid, JobDuplicate, KeyContended, OptionInvalid
from django_durable_jobs.models import Job
from django_durable_jobs.testing import run_jobs
from tests.integration.declared import REAL, heard, stored

pytestmark = REAL


@pytest.fixture
def charge():
    @job(name="shop.charge", idempotency_key=lambda i: f"order:{i.order_id}")
    def charge(order_id: int, note: str = "") -> str:
        return note

    return charge


def in_thread(act):
    """Run *act* with connections that are closed at its end."""

    def run(*args):
        try:
            return act(*args)
        finally:
            connections.close_all()

    return run


@contextmanager
def another_transaction_holds(act) -> Iterator[None]:
    """Keep a transaction of another connection open that has done *act*."""
    done, may_end = Event(), Event()

    @in_thread
    def hold():
        with transaction.atomic():
            act()
            done.set()
            assert may_end.wait(timeout=30)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(hold)
        try:
            assert done.wait(timeout=30)
            yield
        finally:
            may_end.set()
        holding.result()


# -- the answers -------------------------------------------------------------------------------


def test_a_second_enqueue_of_a_live_key_is_answered_with_its_holder(charge, listener):
    first = charge.enqueue(order_id=7, note="first")
    heard(listener)

    second = charge.enqueue(order_id=7, note="second")

    assert (first.deduplicated, second.deduplicated) == (False, True)
    assert (second.id, second.state) == (first.id, "ready")
    assert heard(listener) == []
    (ran,) = run_jobs()
    assert charge.get_result(ran.id).return_value == "first"


def test_a_refusing_enqueue_names_the_live_holder(charge):
    first = charge.enqueue(order_id=7)

    with transaction.atomic():
        with pytest.raises(JobDuplicate) as refused:
            charge.using(on_conflict="raise").enqueue(order_id=7)
        charge.enqueue(order_id=8)

    assert str(refused.value) == (
        f"A live job of 'shop.charge' already holds this idempotency key: {first.id}. "
        "Wait for it to finish, cancel it, or enqueue with on_conflict='existing'."
    )
    assert (refused.value.holder, refused.value.code) == (str(first.id), "X_JOB_DUPLICATE")
    assert len(stored()) == 2


def test_a_finished_job_frees_its_key_and_stays(charge):
    first = charge.enqueue(order_id=7)
    run_jobs()

    second = charge.using(on_conflict="raise").enqueue(order_id=7)

    assert not second.deduplicated
    assert second.id != first.id
    assert stored() == ["shop.charge", "shop.charge"]


def test_a_cancelled_job_frees_its_key(charge):
    first = charge.enqueue(order_id=7)
    assert first.cancel("the order was withdrawn")

    assert not charge.enqueue(order_id=7).deduplicated


def test_a_key_given_at_the_call_wins_over_the_declared_one(charge):
    first = charge.using(idempotency_key="mine").enqueue(order_id=7)

    assert not charge.enqueue(order_id=7).deduplicated
    assert charge.using(idempotency_key="mine").enqueue(order_id=8).id == first.id
    assert Job.objects.get(id=first.id).idempotency_key == "mine"


def test_tenants_do_not_share_keys(charge):
    ann = charge.using(tenant_id="ann").enqueue(order_id=7)
    bob = charge.using(tenant_id="bob").enqueue(order_id=7)
    nobody = charge.enqueue(order_id=7)

    assert len({ann.id, bob.id, nobody.id}) == 3
    assert charge.using(tenant_id="bob").enqueue(order_id=7).id == bob.id


def test_a_declared_tenant_is_taken_from_the_input():
    @job(name="shop.bill", tenant=lambda i: i.org, idempotency_key=lambda i: "monthly")
    def bill(org: int) -> None: ...

    first, second = bill.enqueue(org=1), bill.enqueue(org=2)

    assert bill.enqueue(org=1).id == first.id
    assert list(Job.objects.order_by("id").values_list("tenant_id", "idempotency_key")) == [
        ("1", "monthly"),
        ("2", "monthly"),
    ]
    assert bill.tenant_for(org=2) == "2"
    assert second.id != first.id


def test_jobs_of_other_names_do_not_share_keys(charge):
    @job(name="shop.refund", idempotency_key=lambda i: f"order:{i.order_id}")
    def refund(order_id: int) -> None: ...

    charge.enqueue(order_id=7)

    assert not refund.enqueue(order_id=7).deduplicated


def test_the_declared_key_sees_the_input_as_a_worker_would():
    seen = []

    def key(inputs) -> str:
        seen.append(vars(inputs))
        return "key"

    @job(name="shop.ship", idempotency_key=key)
    def ship(order_id: int, lines: tuple[str, ...] = ("a",)) -> None: ...

    ship.enqueue(order_id=7)

    assert seen == [{"order_id": 7, "lines": ("a",)}]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (7, "Job 'shop.ship': option idempotency_key is of type int, not text."),
        (None, "Job 'shop.ship': option idempotency_key is of type NoneType, not text."),
        ("  ", "Job 'shop.ship': option idempotency_key is blank."),
        (
            "x" * 201,
            "Job 'shop.ship': option idempotency_key takes 201 bytes as UTF-8; the limit is 200.",
        ),
        (
            "a\0b",
            "Job 'shop.ship': option idempotency_key holds a NUL character, which PostgreSQL "
            "cannot store.",
        ),
    ],
    ids=["number", "none", "blank", "long", "nul"],
)
def test_a_declared_key_that_cannot_be_stored_is_refused(key, message):
    @job(name="shop.ship", idempotency_key=lambda i: key)
    def ship() -> None: ...

    with pytest.raises(OptionInvalid) as refused:
        ship.enqueue()

    assert str(refused.value) == message
    assert stored() == []


# -- many at once ------------------------------------------------------------------------------


def test_duplicates_within_one_call_are_answered_with_the_first_of_them(charge):
    results = charge.enqueue_many(
        [{"order_id": 9}, {"order_id": 1}, {"order_id": 9}, {"order_id": 2}]
    )

    assert [result.deduplicated for result in results] == [False, False, True, False]
    assert results[2].id == results[0].id
    assert len(stored()) == 3


def test_a_refusing_call_with_a_duplicate_inside_stores_nothing(charge):
    with transaction.atomic():
        with pytest.raises(JobDuplicate):
            charge.using(on_conflict="raise").enqueue_many(
                [{"order_id": 1}, {"order_id": 2}, {"order_id": 1}]
            )
        kept = charge.enqueue(order_id=3)

    assert [ran.id for ran in run_jobs()] == [kept.id]


def test_one_given_key_cannot_stand_for_many_jobs(charge):
    with pytest.raises(OptionInvalid) as refused:
        charge.using(idempotency_key="x").enqueue_many([{"order_id": 1}, {"order_id": 2}])

    assert str(refused.value) == (
        "Job 'shop.charge': option idempotency_key is one key for many jobs. "
        "Declare how the key is derived: @job(idempotency_key=lambda i: ...)."
    )
    assert stored() == []


def test_a_bad_input_among_keyed_ones_stores_nothing(charge):
    with pytest.raises(InputInvalid) as refused:
        charge.enqueue_many([{"order_id": 1}, {"order_id": "2"}])

    assert str(refused.value) == (
        "Input of job 'shop.charge' was refused:\n"
        "  [1].order_id: should be a valid integer, not str"
    )
    assert stored() == []


# -- others at the same time -------------------------------------------------------------------


@override_settings(DURABLE_JOBS={"ENQUEUE_LOCK_TIMEOUT": "50ms"})
def test_a_key_of_another_open_transaction_is_given_up_and_the_callers_stays_usable(charge):
    @job(name="shop.greet")
    def greet() -> None: ...

    with another_transaction_holds(lambda: charge.enqueue(order_id=7)):
        with transaction.atomic():
            greet.enqueue()
            with pytest.raises(KeyContended) as refused:
                charge.enqueue(order_id=7)
            other = charge.enqueue(order_id=8)
        assert stored() == ["shop.greet", "shop.charge"]
        with pytest.raises(KeyContended):
            charge.enqueue(order_id=7)

    assert str(refused.value) == (
        "Another open transaction is enqueueing job 'shop.charge' under the same idempotency "
        "key; gave up after 0.05 s. Enqueue keyed jobs last in a transaction, and try again."
    )
    assert other.id in {ran.id for ran in run_jobs()}


@pytest.mark.parametrize("contended", [False, True], ids=["stored", "given up"])
@override_settings(DURABLE_JOBS={"ENQUEUE_LOCK_TIMEOUT": "50ms"})
def test_the_sessions_own_lock_timeout_is_put_back(contended, charge):
    def lock_timeout() -> str:
        with connection.cursor() as cursor:
            cursor.execute("show lock_timeout")
            return str(cursor.fetchone()[0])

    with another_transaction_holds(lambda: charge.enqueue(order_id=7)), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("set local lock_timeout = '77s'")
        if contended:
            with pytest.raises(KeyContended):
                charge.enqueue(order_id=7)
        else:
            charge.enqueue(order_id=8)
        inside = lock_timeout()

    assert (inside, lock_timeout()) == ("77s", "0")


def test_of_two_connections_at_once_one_stores_and_the_other_is_answered_with_its_job(charge):
    start = Barrier(2, timeout=30)

    @in_thread
    def enqueue():
        start.wait()
        return charge.enqueue(order_id=7)

    for _ in range(10):
        with ThreadPoolExecutor(2) as threads:
            one, other = (threads.submit(enqueue) for _ in range(2))
        assert sorted([one.result().deduplicated, other.result().deduplicated]) == [False, True]
        assert one.result().id == other.result().id
        assert one.result().cancel()


def test_bulks_of_the_same_keys_in_any_order_do_not_deadlock(charge):
    """Rows are inserted in one order of keys, whatever the order of the call."""
    start = Barrier(2, timeout=60)
    rounds, orders = 15, 100

    @in_thread
    def enqueue(seed: int):
        shuffled = random.Random(seed)
        answers = []
        for number in range(rounds):
            inputs = [{"order_id": number * orders + place} for place in range(orders)]
            shuffled.shuffle(inputs)
            start.wait()
            answers += charge.enqueue_many(inputs)
        return answers

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.submit(enqueue, 1), threads.submit(enqueue, 2)

    created = [job for job in one.result() + other.result() if not job.deduplicated]
    assert len(created) == len(stored()) == rounds * orders
    assert {job.id for job in one.result()} == {job.id for job in other.result()}
