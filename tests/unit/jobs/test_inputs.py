"""A job's input is what its signature says, at the call and again at the run."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from django_durable_jobs.exceptions import DeclarationInvalid, InputInvalid, PayloadTooLarge
from django_durable_jobs.jobs.inputs import InputSchema

if TYPE_CHECKING:
    from collections import Missing  # type: ignore[attr-defined]  # never imported

SECRET = "s3cret-4111"


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal


def charge(
    ctx: Missing,
    order_id: int,
    lines: list[Line] = [],  # noqa: B006  # shared defaults are what is tested
    *,
    note: str | None = None,
    due: datetime | None = None,
    rate: float = 1.0,
    extra: Any = None,
) -> Missing: ...


CHARGE = InputSchema.from_function(charge, job="shop.charge")


def refused(schema: InputSchema, *args: object, **kwargs: object) -> str:
    with pytest.raises(InputInvalid) as caught:
        schema.bind(args, kwargs)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def problem(fn: Callable[..., Any]) -> str:
    found = InputSchema.from_function(fn, job="shop.job").problem
    assert found is not None
    return str(found)


# -- the call ----------------------------------------------------------------------------------


def test_the_context_is_known_by_its_name_and_is_no_input() -> None:
    def plain(order_id: int, ctx: int) -> None: ...

    assert CHARGE.takes_context
    assert CHARGE.names == ("order_id", "lines", "note", "due", "rate", "extra")
    assert InputSchema.from_function(plain).names == ("order_id", "ctx")


def test_the_stored_input_is_total_whatever_way_the_call_was_written() -> None:
    stored = CHARGE.bind((7,), {})

    assert stored == CHARGE.bind((), {"order_id": 7})
    assert json.loads(stored) == {
        "order_id": 7, "lines": [], "note": None, "due": None, "rate": 1.0, "extra": None,
    }  # fmt: skip


def test_what_the_body_gets_equals_what_was_passed() -> None:
    lines = [Line("a", Decimal("1.10"))]

    loaded = CHARGE.load(CHARGE.bind((7, lines), {"extra": (1, 2)}))

    assert loaded["lines"] == lines
    assert loaded["lines"] is not lines
    assert loaded["extra"] == [1, 2]


def test_parameters_may_have_any_name() -> None:
    def job(copy: int, json: int, schema: int, model_config: int, self: int, _x: int) -> None: ...

    values = dict.fromkeys(("copy", "json", "schema", "model_config", "self", "_x"), 1)
    schema = InputSchema.from_function(job)

    assert schema.load(schema.bind((), values)) == values


def test_a_job_without_input_stores_an_empty_object() -> None:
    def job(ctx: Any) -> None: ...

    schema = InputSchema.from_function(job)
    assert schema.load(schema.bind((), {})) == {}


@pytest.mark.parametrize(
    ("kwargs", "line"),
    [
        ({"order_id": SECRET}, "order_id: should be a valid integer, not str"),
        ({}, "order_id: is required"),
        (
            {"order_id": 1, "zip": SECRET},
            "zip: is not a parameter of this job, which takes "
            "order_id, lines, note, due, rate, extra",
        ),
        (
            {"order_id": 1, "note": f"{SECRET}\0"},
            "note: holds a NUL character (\\u0000), which PostgreSQL cannot store",
        ),
        (
            {"order_id": 1, "extra": {"a": [0, f"{SECRET}\0"]}},
            "extra.a[1]: holds a NUL character (\\u0000), which PostgreSQL cannot store",
        ),
        ({"order_id": 1, "rate": math.nan}, "rate: should be a finite number"),
        (
            {"order_id": 1, "extra": [math.inf]},
            "extra[0]: is not a finite number (NaN or infinity)",
        ),
        (
            {"order_id": 1, "note": f"{SECRET}\ud800"},
            "note: holds a lone surrogate, which is not valid text",
        ),
        (
            {"order_id": 1, "due": datetime(2026, 1, 1)},  # noqa: DTZ001  # naive on purpose
            "due: is a naive datetime while USE_TZ is on; pass timezone.make_aware(value)",
        ),
        (
            {"order_id": User(username=SECRET)},
            "order_id: is an instance of the model User; pass its primary key",
        ),
    ],
)
def test_bad_input_is_refused_with_the_parameter_and_never_its_value(
    kwargs: dict[str, object], line: str
) -> None:
    assert refused(CHARGE, **kwargs) == f"Input of job 'shop.charge' was refused:\n  {line}"


def test_every_problem_is_listed_on_a_line_of_its_own() -> None:
    text = refused(
        CHARGE, "7", [Line("a", 1.5)], 3, 4, order_id=1, note=SECRET.encode(), zip=1  # type: ignore[arg-type]  # on purpose
    )  # fmt: skip

    assert text == (
        "Input of job 'shop.charge' was refused:\n"
        "  args: holds 4 values; at most 2 go by position\n"
        "  order_id: is given twice, by position and by name\n"
        "  order_id: should be a valid integer, not str\n"
        "  lines[0].price: should be an instance of Decimal, not float\n"
        "  note: should be a valid string, not bytes\n"
        "  zip: is not a parameter of this job, which takes "
        "order_id, lines, note, due, rate, extra"
    )


def test_input_above_the_limit_is_refused_with_its_size() -> None:
    with pytest.raises(PayloadTooLarge) as caught:
        CHARGE.bind((7,), {"note": "x" * 2_000_000})
    assert str(caught.value) == (
        "Input of job 'shop.charge' takes 2,000,070 bytes as JSON; the limit is 1,048,576. "
        'Store the data elsewhere and pass its key, or raise DURABLE_JOBS["MAX_PAYLOAD"].'
    )


# -- the run -----------------------------------------------------------------------------------


def test_a_parameter_added_since_takes_its_default_and_no_two_runs_share_it() -> None:
    first, second = CHARGE.load('{"order_id": 7}'), CHARGE.load('{"order_id": 7}')
    first["lines"].append(1)

    assert second == {
        "order_id": 7, "lines": [], "note": None, "due": None, "rate": 1.0, "extra": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "line"),
    [
        ("{}", "order_id: is required"),
        ('{"order_id": "7"}', "order_id: should be a valid integer, not str"),
        (
            '{"order_id": 7, "old": 1}',
            "old: is not a parameter of this job, which takes "
            "order_id, lines, note, due, rate, extra",
        ),
        ("[]", "input: should be an object, not list"),
        ('{"order', "input: is not valid JSON"),
        ("gASVHAAAAAAAAACMCGJ1aWx0aW5z", "input: is not valid JSON"),
    ],
)
def test_stored_input_that_no_longer_fits_is_refused(stored: str, line: str) -> None:
    with pytest.raises(InputInvalid) as caught:
        CHARGE.load(stored)
    assert str(caught.value) == f"Input of job 'shop.charge' was refused:\n  {line}"


def test_the_input_is_described_as_json_schema_with_defaults() -> None:
    schema = CHARGE.json_schema()

    assert schema["title"] == "shop.charge"
    assert schema["required"] == ["order_id"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["order_id"] == {"title": "Order Id", "type": "integer"}
    assert schema["properties"]["rate"]["default"] == 1.0
    assert set(schema["$defs"]) == {"Line"}


# -- the declaration ---------------------------------------------------------------------------


def many(*numbers: int) -> None: ...
def free(**options: int) -> None: ...
def by_position(order_id: int, /) -> None: ...


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            many,
            "Job 'shop.job' has parameter 'numbers', which takes any number of values. "
            "Name each input; take a list for many.",
        ),
        (
            free,
            "Job 'shop.job' has parameter 'options', which takes any name. "
            "Name each input; take a dict for free-form data.",
        ),
        (
            by_position,
            "Job 'shop.job' has parameter 'order_id', which is positional-only, while inputs "
            "are stored by name. Remove the `/` from the signature.",
        ),
    ],
)
def test_a_parameter_that_cannot_be_stored_by_name_is_refused_at_once(
    fn: Callable[..., Any], message: str
) -> None:
    with pytest.raises(DeclarationInvalid) as caught:
        InputSchema.from_function(fn, job="shop.job")
    assert str(caught.value) == message


def test_a_hint_that_cannot_be_resolved_is_kept_as_a_problem_and_raised_by_use() -> None:
    def job(order: Missing) -> None: ...

    assert problem(job) == (
        "Job 'shop.job' has parameter 'order', whose type hint 'Missing' cannot be resolved: "
        "NameError: name 'Missing' is not defined. "
        "Import the type at module level, outside `if TYPE_CHECKING`."
    )
    with pytest.raises(DeclarationInvalid):
        InputSchema.from_function(job).bind((), {})


@pytest.mark.parametrize("hint", [User, list[User], User | None])
def test_a_django_model_as_a_type_is_a_problem_with_its_remedy(hint: Any) -> None:
    def job(user: int) -> None: ...

    job.__annotations__["user"] = hint
    assert "a Django model, which would be stale when the job runs." in problem(job)
    assert problem(job).endswith("Take its primary key and load it in the job.")


def test_a_refused_class_is_named_as_its_author_wrote_it() -> None:
    def job(user: User) -> None: ...

    assert "has parameter 'user' of type User, a Django model" in problem(job)


def test_a_type_without_a_json_form_is_a_problem_that_names_the_parameter() -> None:
    def job(callback: Callable[[], None]) -> None: ...

    assert problem(job).startswith("Job 'shop.job' has parameter 'callback': Values of type ")


def test_a_default_that_does_not_fit_its_type_is_a_problem() -> None:
    def job(order_id: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013  # on purpose

    assert problem(job) == (
        "Job 'shop.job' has parameter 'order_id', whose default does not fit its type: default "
        "should be a valid integer, not NoneType. "
        "Change the default, or the annotation, for example to `| None`."
    )


def test_a_sound_schema_has_no_problem() -> None:
    assert CHARGE.problem is None
