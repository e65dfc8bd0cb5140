"""Bad input is refused at the call: the argument named, nothing stored, nothing echoed."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from django_durable_jobs import job
from django_durable_jobs.exceptions import InputInvalid, PayloadTooLarge
from django_durable_jobs.models import Job
from django_durable_jobs.testing import run_jobs
from tests.integration.declared import stored

pytestmark = pytest.mark.django_db

SECRET = "s3cret-4111"
NAIVE = datetime(2026, 7, 1, 9)  # noqa: DTZ001  what is refused
NUL = "holds a NUL character (\\u0000), which PostgreSQL cannot store"
TAKES = "order_id, note, amount, due, extra"


@pytest.fixture
def charge():
    @job(name="shop.charge")
    def charge(
        order_id: int,
        note: str = "",
        amount: Decimal = Decimal(0),
        due: datetime | None = None,
        extra: Any = None,
    ) -> str:
        return note

    return charge


def refused(call, *args: object, **kwargs: object) -> str:
    """The refusal of an enqueue in a transaction that goes on and commits another job."""
    with transaction.atomic():
        group = Group.objects.create(name="before")
        with pytest.raises(InputInvalid) as caught:
            call(*args, **kwargs)
        assert Group.objects.filter(pk=group.pk).exists()
    assert stored() == []
    assert caught.value.code == "X_JOB_INPUT_INVALID"
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        ({"order_id": SECRET}, "order_id: should be a valid integer, not str"),
        ({}, "order_id: is required"),
        (
            {"order_id": 7, "zip": SECRET},
            f"zip: is not a parameter of this job, which takes {TAKES}",
        ),
        ({"order_id": 7, "note": f"{SECRET}\0"}, f"note: {NUL}"),
        ({"order_id": 7, "extra": {"a": [[[[f"{SECRET}\0"]]]]}}, f"extra.a[0][0][0][0]: {NUL}"),
        ({"order_id": 7, "extra": math.nan}, "extra: is not a finite number (NaN or infinity)"),
        (
            {"order_id": 7, "extra": [math.inf]},
            "extra[0]: is not a finite number (NaN or infinity)",
        ),
        ({"order_id": 7, "amount": Decimal("NaN")}, "amount: should be a finite number"),
        (
            {"order_id": 7, "note": f"{SECRET}\ud800"},
            "note: holds a lone surrogate, which is not valid text",
        ),
        (
            {"order_id": 7, "due": NAIVE},
            "due: is a naive datetime while USE_TZ is on; pass timezone.make_aware(value)",
        ),
        ({"order_id": 7, "extra": {1: SECRET}}, "extra: has a key of type int; keys must be text"),
        (
            {"order_id": 7, "extra": {SECRET}},
            "extra: is of type set, which JSON has no form for; annotate it or pass a list",
        ),
        ({"order_id": True}, "order_id: should be a valid integer, not bool"),
    ],
)
def test_input_that_does_not_fit_is_refused(charge, inputs, line):
    assert refused(charge.enqueue, **inputs) == f"Input of job 'shop.charge' was refused:\n  {line}"


def test_all_that_is_wrong_is_told_at_once(charge):
    assert refused(charge.enqueue, "7", 8, note=SECRET, zip=1) == (
        "Input of job 'shop.charge' was refused:\n"
        "  note: is given twice, by position and by name\n"
        "  order_id: should be a valid integer, not str\n"
        "  note: should be a valid string, not int\n"
        f"  zip: is not a parameter of this job, which takes {TAKES}"
    )


def test_a_payload_over_the_limit_is_refused_with_its_size(charge):
    with transaction.atomic():
        with pytest.raises(PayloadTooLarge) as caught:
            charge.enqueue(order_id=7, note="x" * 2_097_152)
        charge.enqueue(order_id=8)

    size = caught.value.size
    assert str(caught.value) == (
        f"Input of job 'shop.charge' takes {size:,} bytes as JSON; the limit is 1,048,576. "
        'Store the data elsewhere and pass its key, or raise DURABLE_JOBS["MAX_PAYLOAD"].'
    )
    assert 2_097_152 < size < 2_097_152 + 200
    assert stored() == ["shop.charge"]


def test_the_limit_of_payloads_can_be_raised(charge, settings):
    settings.DURABLE_JOBS = {"MAX_PAYLOAD": 3_000_000}

    result = charge.enqueue(order_id=7, note="x" * 2_097_152)

    run_jobs()
    result.refresh()
    assert len(result.return_value) == 2_097_152


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ({"order_id": "x"}, "[500].order_id: should be a valid integer, not str"),
        ({"order_id": 1, "extra": [f"{SECRET}\0"]}, f"[500].extra[0]: {NUL}"),
        ({}, "[500].order_id: is required"),
        (
            {"order_id": 1, "zip": 2},
            f"[500].zip: is not a parameter of this job, which takes {TAKES}",
        ),
        ([1], "[500]: is a list, not a dict of inputs"),
        ({"order_id": 1, 2: 3}, "[500][2]: Keys should be strings"),
    ],
)
def test_one_bad_input_among_a_thousand_is_named_by_its_place_and_none_is_stored(charge, bad, line):
    inputs: list[Any] = [{"order_id": number} for number in range(1_000)]
    inputs[500] = bad

    assert refused(charge.enqueue_many, inputs) == (
        f"Input of job 'shop.charge' was refused:\n  {line}"
    )


def test_one_too_large_input_among_many_is_named_by_its_place(charge):
    inputs = [{"order_id": 1}, {"order_id": 2, "note": "x" * 1_100_000}]

    with pytest.raises(PayloadTooLarge, match=r"^Input \[1\] of job 'shop\.charge' takes 1,100,0"):
        charge.enqueue_many(inputs)

    assert stored() == []


def test_no_inputs_at_all_store_nothing_and_answer_nothing(charge):
    assert charge.enqueue_many([]) == []
    assert stored() == []


@pytest.mark.parametrize(
    "value",
    [math.nan, [math.inf], "a\0b", "\ud800", {1: 2}, object()],
    ids=["nan", "infinity", "nul", "surrogate", "key", "object"],
)
def test_a_result_that_cannot_be_stored_fails_the_attempt_and_is_not_stuck(value):
    @job(name="shop.count")
    def count() -> Any:
        return value

    result = count.enqueue()

    (ran,) = run_jobs(raise_errors=False)
    result.refresh()
    # Tried again as its retry says: what the body counts may be another number next time.
    assert (ran.attempt, ran.state, result.state) == (1, "ready", "ready")
    assert result.row is not None
    assert result.row.error_code == "X_JOB_RESULT_UNSERIALIZABLE"
    assert result.error.startswith("The result of job 'shop.count' cannot be stored: result")


def test_stored_input_that_no_longer_fits_ends_the_job_at_its_first_attempt(charge):
    """Its code changed since; trying again would not help."""
    result = charge.enqueue(order_id=7)
    Job.objects.update(input={"order_id": SECRET})

    with pytest.raises(InputInvalid) as caught:
        run_jobs()

    result.refresh()
    assert (result.state, result.row.attempt) == ("dead", 1)
    assert result.row.error_code == "X_JOB_INPUT_INVALID"
    assert SECRET not in str(caught.value) + result.error
