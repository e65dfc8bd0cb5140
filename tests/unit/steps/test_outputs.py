"""A step's output is written and read after its function's return annotation."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import pytest

from django_durable_jobs.exceptions import (
    PayloadInvalid,
    PayloadTooLarge,
    StepOutputUnserializable,
)
from django_durable_jobs.steps.outputs import Output

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Receipt:
    id: UUID
    amount: Decimal


def price() -> Decimal:
    return Decimal("1.50")


def receipt() -> Receipt:
    return Receipt(UUID(int=7), Decimal("1.50"))


def untyped():
    return {"a": [1, 2.5, None, True]}


class Gateway:
    def charge(self) -> Decimal:
        return Decimal("2")

    @classmethod
    def refund(cls) -> Decimal:
        return Decimal("3")

    def __call__(self) -> Decimal:
        return Decimal("4")


def logged(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize(
    "fn",
    [
        price,
        receipt,
        untyped,
        Gateway().charge,
        Gateway.refund,
        Gateway(),
        logged(price),
        functools.partial(price),
        functools.partial(functools.partial(Decimal, "9")),
        lambda: "text",
        lambda: None,
        functools.partial(len, "abc"),
    ],
)
def test_an_output_comes_back_with_type_and_value(fn):
    value = fn()
    output = Output("pay", fn)
    again = output.decode(output.encode(value))

    assert again == value
    assert type(again) is type(value)


def test_a_class_is_its_own_annotation():
    output = Output("pay", Decimal)

    assert output.decode(output.encode(Decimal("1.5"))) == Decimal("1.5")


def test_a_tuple_without_annotation_is_a_list_from_the_first_run_on():
    def pair():
        return (1, 2)

    output = Output("pay", pair)

    assert output.decode(output.encode(pair())) == [1, 2]


def test_a_value_without_a_json_form_is_refused_with_path_and_remedy():
    output = Output("pay", untyped)

    with pytest.raises(StepOutputUnserializable) as caught:
        output.encode({"lines": [{"price": Decimal(1)}]})

    assert str(caught.value) == (
        "The output of step 'pay' cannot be stored: output.lines[0].price is of type Decimal, "
        "which JSON has no form for; annotate it or convert it first. Return JSON values, or "
        "annotate the function's return type."
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "a\0", "\ud800", {1: 2}, {1, 2}])
def test_what_json_cannot_hold_exactly_is_refused(value):
    with pytest.raises(StepOutputUnserializable):
        Output("pay", untyped).encode(value)


def test_an_output_above_the_limit_is_refused_with_its_size(settings):
    settings.DURABLE_JOBS = {"MAX_PAYLOAD": 10}
    output = Output("pay", untyped)
    output.encode("a" * 8)

    with pytest.raises(PayloadTooLarge) as caught:
        output.encode("a" * 9)

    assert (caught.value.size, caught.value.limit) == (11, 10)
    assert str(caught.value).startswith("The output of step 'pay' takes 11 bytes")


def test_a_return_type_without_a_json_form_is_refused_before_the_function_runs():
    def open_file() -> functools.partial[int]:
        raise AssertionError("not called")

    with pytest.raises(StepOutputUnserializable, match="The output of step 'pay' cannot be stored"):
        Output("pay", open_file)


def test_a_return_type_that_only_type_checkers_can_see_still_takes_json():
    def rows() -> Sequence[int]:
        return [1, 2]

    output = Output("pay", rows)

    assert output.decode(output.encode([1, 2])) == [1, 2]


def test_a_refusal_says_when_the_return_type_could_not_be_resolved():
    def rows() -> Sequence[Decimal]:
        return [Decimal(1)]

    with pytest.raises(StepOutputUnserializable) as caught:
        Output("pay", rows).encode([Decimal(1)])

    assert "its return annotation is not known here: NameError" in str(caught.value)


def test_a_parameter_that_cannot_be_resolved_does_not_hide_the_return_type():
    def total(rows: Sequence[int]) -> Decimal:
        return Decimal(sum(rows))

    output = Output("pay", total)

    assert output.decode(output.encode(Decimal(1))) == Decimal(1)


def test_an_annotation_that_cannot_be_hashed_is_followed():
    def count() -> Decimal:
        return Decimal(1)

    count.__annotations__["return"] = Annotated[Decimal, []]
    output = Output("pay", count)

    assert output.decode(output.encode(Decimal(1))) == Decimal(1)


def test_stored_text_that_no_longer_fits_names_the_step_and_what_to_do():
    with pytest.raises(PayloadInvalid) as refusal:
        Output("pay", receipt).decode('{"id": 7}')

    assert refusal.value.cause.startswith("The stored output of step 'pay' was refused: output")
    assert refusal.value.fix == "Deploy code that reads it, or requeue the job from step 'pay'."
