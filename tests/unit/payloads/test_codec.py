"""What crosses the store comes back exactly, or is refused by name before any SQL."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import pickle
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NamedTuple, NewType
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from django_durable_jobs.exceptions import (
    PayloadInvalid,
    PayloadTooLarge,
    PayloadTypeUnsupported,
)
from django_durable_jobs.payloads import Codec

SECRET = "s3cret-4111"
UNTYPED = Codec()
OrderId = NewType("OrderId", int)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Line:
    sku: str
    price: Decimal
    weight: float = 0.0
    extra: Any = None


class Order(BaseModel):
    id: int
    total: float | None = None
    paid_at: datetime | None = None
    lines: list[Line] = []
    parent: Order | None = None


class Node(BaseModel):
    child: Node | None = None


class Checked(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def check(cls, value: str) -> str:
        raise ValueError(f"bad code {value}")


class Point(NamedTuple):
    x: int
    y: int


class Text(str):
    __slots__ = ()


class Float64(float):
    """Stands like numpy.float64: a subclass of float."""


def named(value: object) -> str:
    """The test's id; a value's own text may be longer than Python will write."""
    return value if isinstance(value, str) and value.isprintable() else type(value).__name__


def encode(value: object, annotation: Any = Any) -> str:
    return Codec(annotation).encode(value, subject="Input", path="args")


def refusal(value: object, annotation: Any = Any) -> list[tuple[str, str]]:
    with pytest.raises(PayloadInvalid) as caught:
        encode(value, annotation)
    assert SECRET not in str(caught.value)
    return list(caught.value.problems)


# -- what comes back ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (UUID, UUID("12345678-1234-5678-1234-567812345678")),
        (Decimal, Decimal("19.99000000000000000001")),
        (Decimal, Decimal("1E+5")),
        (datetime, datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
        (datetime, datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))),
        (date, date(2026, 1, 2)),
        (time, time(1, 2, 3, 4)),
        (timedelta, timedelta(days=-1, microseconds=1)),
        (timedelta, timedelta(days=300_000, microseconds=1)),
        (bytes, b"\xff\x00"),
        (set[int], {1, 2}),
        (frozenset[str], frozenset({"a"})),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2)),
        (Colour, Colour.RED),
        (Level, Level.HIGH),
        (Literal["a", 1], 1),
        (OrderId, OrderId(7)),
        (int | None, None),
        (int | str, "7"),
        (int | float, 1.0),
        (str | UUID, UUID(int=1)),
        (date | datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (dict[int, str], {1: "a"}),
        (dict[UUID, list[set[int]]], {UUID(int=1): [{1}]}),
        (Line, Line("a", Decimal("1.10"), 2.5, {"k": [1, None]})),
        (Order, Order(id=1, total=2.0, lines=[Line("a", Decimal(1))], parent=Order(id=2))),
        (Point, Point(1, 2)),
        (str, "2026-01-01T00:00:00Z"),
        (Any, "2026-01-01T00:00:00Z"),
        (Any, 9_007_199_254_740_993),
        (Any, 10**400),
        (int, -(10**4300) + 1),
        (Any, {"a": [1, 2.5, None, True, "é\u2028\\u0000"]}),
    ],
    ids=named,
)
def test_a_value_comes_back_with_its_type_and_value(annotation: Any, value: object) -> None:
    codec = Codec(annotation)
    text = codec.encode(value, subject="Input")

    for again in (codec.decode(text), codec.decode_json(json.loads(text))):
        assert again == value
        assert type(again) is type(value)


def test_minus_zero_stays_minus_zero() -> None:
    assert math.copysign(1, UNTYPED.decode(encode(-0.0))) == -1


def test_an_untyped_tuple_becomes_a_list_at_every_depth() -> None:
    assert UNTYPED.decode(encode({"a": (1, (2,))})) == {"a": [1, [2]]}


def test_what_comes_back_is_never_the_live_object() -> None:
    value = {"a": [1]}
    again = UNTYPED.decode(encode(value))
    again["a"].append(2)

    assert value == {"a": [1]}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_value_is_exact_without_an_annotation(value: Any) -> None:
    assert repr(UNTYPED.decode(encode(value))) == repr(value)


OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda m: timezone(timedelta(minutes=m)))
PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
TYPED = {
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    datetime: st.datetimes(timezones=OFFSETS),
    date: st.dates(),
    timedelta: st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)),
    bytes: st.binary(),
    UUID: st.uuids(),
    set[int]: st.sets(st.integers()),
    tuple[str, float]: st.tuples(PLAIN_TEXT, st.floats(allow_nan=False, allow_infinity=False)),
    Line: st.builds(
        Line,
        PLAIN_TEXT,
        st.decimals(allow_nan=False, allow_infinity=False),
        st.floats(allow_nan=False, allow_infinity=False),
        JSON,
    ),
}
CODECS = {annotation: Codec(annotation) for annotation in TYPED}


@given(st.sampled_from(list(TYPED)).flatmap(lambda kind: st.tuples(st.just(kind), TYPED[kind])))
def test_any_typed_value_is_exact(case: tuple[Any, Any]) -> None:
    annotation, value = case
    codec = CODECS[annotation]

    assert codec.decode(codec.encode(value, subject="Input")) == value


# -- what is refused ---------------------------------------------------------------------------

NUL = "holds a NUL character (\\u0000), which PostgreSQL cannot store"
SURROGATE = "holds a lone surrogate, which is not valid text"
NOT_FINITE = "is not a finite number (NaN or infinity)"
NO_FORM = "which JSON has no form for"
MODEL = "is an instance of the model User; pass its primary key"
SET = f"is of type set, {NO_FORM}; annotate it or pass a list"
LONG = "is a whole number of more than 4300 digits"
NAIVE = "is a naive datetime while USE_TZ is on; pass timezone.make_aware(value)"


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({"a": "x\0y"}, "args.a", NUL),
        ({"a\0": 1}, "args", f"has a key that {NUL}"),
        ([[[[["\0"]]]]], "args[0][0][0][0][0]", NUL),
        ([{"a": 1}] * 500 + [{"a": "\0"}], "args[500].a", NUL),
        ({"a": "\ud800"}, "args.a", SURROGATE),
        ({"\udfff": 1}, "args", f"has a key that {SURROGATE}"),
        ({"a": [0, 1, 2, {"b": math.nan}]}, "args.a[3].b", NOT_FINITE),
        (math.inf, "args", NOT_FINITE),
        (-math.inf, "args", NOT_FINITE),
        (10**4300, "args", LONG),
        ({"a b": {1}}, "args['a b']", SET),
        (b"x", "args", f"is of type bytes, {NO_FORM}; annotate it or convert it first"),
        (date(2026, 1, 1), "args", f"is of type date, {NO_FORM}; annotate it or convert it first"),
        (
            Decimal("NaN"),
            "args",
            NOT_FINITE,
        ),
        (Decimal(1), "args", f"is of type Decimal, {NO_FORM}; annotate it or convert it first"),
        (UUID(int=1), "args", f"is of type UUID, {NO_FORM}; annotate it or convert it first"),
        (Colour.RED, "args", f"is of type Colour, {NO_FORM}; annotate it or convert it first"),
        (
            Line("a", Decimal(1)),
            "args",
            f"is of type Line, {NO_FORM}; annotate it or convert it first",
        ),
        (Text("a"), "args", "is of type Text, which would come back as a str; convert it first"),
        (
            Float64(1.5),
            "args",
            "is of type Float64, which would come back as a float; convert it first",
        ),
        (Float64("nan"), "args", NOT_FINITE),
        (
            OrderedDict(a=1),
            "args",
            "is of type OrderedDict, which would come back as a dict; convert it first",
        ),
        (object(), "args", f"is of type object, {NO_FORM}"),
        ({1: "a", "1": "b"}, "args", "has a key of type int; keys must be text"),
        ({1: "a"}, "args", "has a key of type int; keys must be text"),
        ({True: "a"}, "args", "has a key of type bool; keys must be text"),
        (
            User(username=SECRET),
            "args",
            MODEL,
        ),
    ],
    ids=named,
)
def test_an_untyped_value_without_an_exact_form_is_refused_with_its_path(
    value: object, path: str, message: str
) -> None:
    assert refusal(value) == [(path, message)]
    assert refusal({"in": [value]}, dict[str, list[Any]])[0][1] == message


@pytest.mark.parametrize(
    ("annotation", "value", "path", "message"),
    [
        (int, SECRET, "args", "should be a valid integer, not str"),
        (int, True, "args", "should be a valid integer, not bool"),
        (float, 10**400, "args", "should be a valid number, not int"),
        (UUID, SECRET, "args", "should be an instance of UUID, not str"),
        (list[int], (1,), "args", "should be a valid list, not tuple"),
        (float, math.nan, "args", "should be a finite number"),
        (Decimal, Decimal("NaN"), "args", "should be a finite number"),
        (Decimal, Decimal("-Infinity"), "args", "should be a finite number"),
        (Line, Line(SECRET, 1), "args.price", "should be an instance of Decimal, not int"),  # type: ignore[arg-type]  # on purpose
        (list[Line], [Line("a", Decimal(1), math.nan)], "args[0].weight", None),
        (Line, Line("a", Decimal(1), 0.0, {"k": {1}}), "args.extra.k", SET),
        (Order, Order(id=1, total=math.nan), "args.total", NOT_FINITE),
        (Order, Order(id=1, parent=Order(id=2, total=math.inf)), "args.parent.total", NOT_FINITE),
        (Order, Order(id=1, paid_at=datetime(2026, 1, 1)), "args.paid_at", NAIVE),  # noqa: DTZ001  # naive on purpose
        (list[datetime], [datetime(2026, 1, 1)], "args[0]", NAIVE),  # noqa: DTZ001  # naive on purpose
        (str, "a\0", "args", NUL),
        (str, "\ud800", "args", SURROGATE),
        (dict[str, int], {"a\0": 1}, "args", f"has a key that {NUL}"),
        (dict[int, int], {SECRET: 1}, "args", "has a key that should be a valid integer, not str"),
        (int, 10**4300, "args", LONG),
        (int, User(username=SECRET), "args", MODEL),
        (Checked, Checked.model_construct(code=SECRET), None, None),
        (int | Colour, SECRET, "args", None),
    ],
    ids=named,
)  # fmt: skip
def test_a_typed_value_is_held_to_its_annotation_at_every_depth(
    annotation: Any, value: object, path: str | None, message: str | None
) -> None:
    problems = refusal(value, annotation)

    assert len(problems) == 1
    assert path in (None, problems[0][0])
    assert message in (None, problems[0][1])


def test_the_words_of_a_validator_are_not_shown_because_they_may_quote_the_value() -> None:
    with pytest.raises(PayloadInvalid) as caught:
        Codec(Checked).decode(json.dumps({"code": SECRET}))

    assert caught.value.problems == (
        ("code", "was refused by a validator of its type (value_error)"),
    )


def test_a_model_that_no_longer_fits_its_fields_is_refused() -> None:
    assert refusal(Order.model_construct(id=SECRET), Order) == [
        ("args", "holds a value of type Order that does not fit its own fields")
    ]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str | datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (list[int] | tuple[int, ...], (1,)),
        (dict[int | str, str], {1: "a", "1": "b"}),
    ],
)
def test_a_value_that_its_annotation_cannot_tell_from_another_in_json_is_refused(
    annotation: Any, value: object
) -> None:
    assert refusal(value, annotation)[0][1].endswith("narrow the annotation")


def test_an_offset_with_seconds_is_refused_because_its_instant_would_move() -> None:
    odd = datetime(1890, 1, 1, tzinfo=timezone(timedelta(minutes=9, seconds=21)))

    assert refusal(odd, datetime) == [
        ("args", "has an offset with seconds in it, which JSON cannot keep; convert it to UTC")
    ]


def test_a_naive_datetime_stays_naive_while_time_zones_are_off(settings: Any) -> None:
    settings.USE_TZ = False
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  # naive on purpose

    assert Codec(datetime).decode(encode(naive, datetime)) == naive


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [101, 100_000])
def test_nesting_beyond_the_bound_is_refused_and_exhausts_no_stack(levels: int) -> None:
    assert UNTYPED.decode(encode(nested(100))) == nested(100)
    assert refusal(nested(levels)) == [("args", "is nested deeper than 100 levels")]


def test_a_recursive_type_is_held_to_the_same_bound() -> None:
    node = Node()
    for _ in range(150):
        node = Node(child=node)

    assert refusal(node, Node) == [("args", "is nested deeper than 100 levels")]


def test_a_value_that_contains_itself_is_refused_where_it_does() -> None:
    ring: dict[str, Any] = {"a": []}
    ring["a"].append(ring)

    assert refusal(ring) == [("args.a[0]", "contains itself")]


def test_a_payload_is_measured_in_bytes_against_the_limit(settings: Any) -> None:
    settings.DURABLE_JOBS = {"MAX_PAYLOAD": 10}

    assert encode("é" * 4) == '"éééé"'
    with pytest.raises(PayloadTooLarge) as caught:
        encode("é" * 5)
    assert str(caught.value) == (
        "Input takes 12 bytes as JSON; the limit is 10. "
        'Store the data elsewhere and pass its key, or raise DURABLE_JOBS["MAX_PAYLOAD"].'
    )
    assert UNTYPED.encode("é" * 5, subject="Input", limit=-1) == '"ééééé"'


@pytest.mark.parametrize("annotation", [type, object.__class__, pickle.Pickler, User])
def test_an_annotation_without_a_json_form_is_refused_when_the_codec_is_built(
    annotation: Any,
) -> None:
    with pytest.raises(PayloadTypeUnsupported):
        Codec(annotation)


@pytest.mark.parametrize(
    "stored",
    [
        pickle.dumps(print),
        b"gASVHAAAAAAAAACMCGJ1aWx0aW5zlIwFcHJpbnSUk5Qu",
        b"!!python/object/apply:os.system ['true']",
        b"__import__('os').system('true')",
        b'{"__reduce__": ',
        b"NaN",
    ],
)
def test_stored_bytes_that_are_not_json_are_refused_and_nothing_is_evaluated(stored: bytes) -> None:
    with pytest.raises(PayloadInvalid) as caught:
        Codec(int).decode(stored, path="input")
    assert caught.value.problems[0][0] == "input"


@pytest.mark.parametrize(
    "text", ['"os.system"', '"{0.__class__}"', '{"py/object": "subprocess.Popen"}', '"!!python"']
)
def test_stored_text_that_names_code_stays_text(text: str) -> None:
    assert UNTYPED.decode(text) == json.loads(text)
