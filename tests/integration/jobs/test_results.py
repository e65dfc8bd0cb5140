"""What the caller of an enqueue can ask and do afterwards, also after the job was renamed."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_durable_jobs import JobContext, JobResult, Retry, job
from django_durable_jobs.exceptions import InputInvalid, JobNotFound, PayloadInvalid, StepRefused
from django_durable_jobs.jobs.registry import scratch_registry
from django_durable_jobs.models import Job
from django_durable_jobs.testing import run_jobs
from tests.integration.declared import REAL, stored

pytestmark = pytest.mark.django_db


@dataclass
class Receipt:
    order_id: int
    amount: Decimal


@pytest.fixture
def charge():
    @job(name="shop.charge")
    def charge(order_id: int, amount: Decimal = Decimal("1.10")) -> Receipt:
        return Receipt(order_id, amount)

    return charge


# -- the result --------------------------------------------------------------------------------


def test_a_result_is_what_was_known_when_it_was_last_looked_at(charge):
    result = charge.enqueue(order_id=7)
    assert (result.state, result.is_finished, result.return_value) == ("ready", False, None)
    assert (result.row, result.error) == (None, "")

    run_jobs()

    assert (result.state, result.is_finished, result.return_value) == ("ready", False, None)
    result.refresh()
    assert (result.state, result.is_finished) == ("done", True)
    assert result.return_value == Receipt(7, Decimal("1.10"))
    assert result.row is not None
    assert (result.row.attempt, result.row.name) == (1, "shop.charge")


def test_a_given_up_job_has_an_error_and_no_value():
    @job(name="shop.fail", retry=Retry(attempts=1))
    def fail() -> int:
        raise ValueError("The gateway is away.")

    result = fail.enqueue()
    run_jobs(raise_errors=False)

    result.refresh()
    assert (result.state, result.is_finished) == ("dead", True)
    assert (result.error, result.return_value) == ("The gateway is away.", None)


def test_a_job_that_returns_nothing_has_no_value():
    @job(name="shop.quiet")
    def quiet() -> None: ...

    result = quiet.enqueue()
    run_jobs()

    result.refresh()
    assert (result.state, result.return_value) == ("done", None)


def test_a_value_that_the_code_no_longer_understands_is_an_error_of_its_own(charge):
    result = charge.enqueue(order_id=7)
    run_jobs()
    Job.objects.update(result={"amount": "much"})

    result.refresh()

    assert result.state == "done"
    with pytest.raises(PayloadInvalid, match=r"^The result of job 'shop\.charge' was refused:"):
        _ = result.return_value


def test_a_result_of_a_rolled_back_enqueue_is_not_found(charge):
    results: list[JobResult[Receipt]] = []
    with transaction.atomic():
        results.append(charge.enqueue(order_id=7))
        transaction.set_rollback(True)

    with pytest.raises(JobNotFound) as missing:
        results[0].refresh()

    assert str(missing.value) == f"There is no job {results[0].id}."


def test_a_live_job_can_be_cancelled_once(charge):
    result = charge.enqueue(order_id=7)

    assert result.cancel("the order was withdrawn") is True
    assert result.cancel() is False

    result.refresh()
    assert (result.state, result.is_finished) == ("cancelled", True)
    assert result.row is not None
    assert result.row.stop_reason == "the order was withdrawn"
    assert run_jobs() == []


def test_a_job_is_cancelled_whatever_the_reason_holds(charge):
    result = charge.enqueue(order_id=7)

    assert result.cancel("sent \0 by \ud800") is True

    result.refresh()
    assert result.row.stop_reason == r"sent \x00 by \ud800"


# -- looking up --------------------------------------------------------------------------------


def test_a_result_is_found_by_its_id_as_value_or_text(charge):
    result = charge.enqueue(order_id=7)
    run_jobs()

    for known in (result.id, str(result.id)):
        found = charge.get_result(known)
        assert (found.id, found.state) == (result.id, "done")
        assert found.return_value == Receipt(7, Decimal("1.10"))


@pytest.mark.parametrize("unknown", [UUID(int=7), str(UUID(int=8)), "no-id", "", 7, None])
def test_an_unknown_id_is_not_found(charge, unknown):
    with pytest.raises(JobNotFound) as missing:
        charge.get_result(unknown)

    assert str(missing.value) == f"There is no job {unknown}."


def test_a_job_of_another_name_is_not_found(charge):
    """Its result would be read as the wrong type."""

    @job(name="shop.other")
    def other() -> None: ...

    with pytest.raises(JobNotFound):
        other.get_result(charge.enqueue(order_id=7).id)


# -- renamed jobs ------------------------------------------------------------------------------


def test_a_job_stored_under_its_old_name_is_run_and_found_by_the_renamed_one(charge):
    with scratch_registry():
        old = charge.enqueue(order_id=7)
    assert stored() == ["shop.charge"]

    def renamed(order_id: int, amount: Decimal, note: str = "new") -> str:
        return f"{order_id} {amount} {note}"

    with_alias = _redeclared(charge, renamed)

    assert [ran.state for ran in run_jobs()] == ["done"]
    assert with_alias.get_result(old.id).return_value == "7 1.10 new"
    new = with_alias.enqueue(order_id=8, amount=Decimal(2))
    assert stored() == ["shop.charge", "shop.bill"]
    run_jobs()
    new.refresh()
    assert new.return_value == "8 2 new"


def _redeclared(former, function):
    """Declare *function* as the next deployment does, where the former code is gone."""
    from django_durable_jobs.jobs import registry

    del registry._by_name[former.name]
    return job(name="shop.bill", aliases=[former.name, "shop.pay"])(function)


# -- inline ------------------------------------------------------------------------------------


def test_a_call_runs_the_body_here_and_stores_nothing(charge):
    assert charge.call(order_id=7) == Receipt(7, Decimal("1.10"))
    assert charge.call(7, Decimal(2)) == Receipt(7, Decimal(2))
    assert stored() == []


def test_a_call_takes_and_gives_what_a_worker_would(charge):
    seen: list[object] = []

    @job(name="shop.echo")
    def echo(lines: list[str], extra: dict[str, object]) -> Any:
        seen.append(lines)
        return (1, 2)

    given = ["a"]

    assert echo.call(lines=given, extra={}) == [1, 2]
    assert seen == [given]
    assert seen[0] is not given
    inputs: dict[str, Any] = {"lines": [1], "extra": {}}
    with pytest.raises(InputInvalid):
        echo.call(**inputs)


def test_a_call_runs_steps_unrecorded_and_refuses_to_wait():
    @job(name="shop.flow")
    def flow(ctx: JobContext, waits: bool) -> str:
        first = ctx.step.run("first", lambda: "a")
        if waits:
            ctx.step.sleep("cool off", "1h")
        return first

    assert flow.call(waits=False) == "a"
    with pytest.raises(StepRefused) as refused:
        flow.call(waits=True)

    assert refused.value.step == "cool off"
    assert stored() == []


@REAL
def test_a_call_of_an_atomic_job_is_one_transaction():
    from django.contrib.auth.models import Group

    @job(name="shop.atomic", atomic=True)
    def record(fails: bool) -> int:
        Group.objects.create(name=str(fails))
        if fails:
            raise ValueError("no")
        return Group.objects.count()

    assert record.call(fails=False) == 1
    with pytest.raises(ValueError, match="no"):
        record.call(fails=True)

    assert Group.objects.count() == 1


def test_a_job_called_like_a_function_is_the_function(charge):
    assert charge(7, Decimal(2)) == Receipt(7, Decimal(2))
    assert charge.__name__ == "charge"
    assert repr(charge) == "<job shop.charge>"
    assert stored() == []
