"""Encode a value as JSON text and decode it again, exactly or not at all."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, get_args

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from django_durable_jobs.conf import settings
from django_durable_jobs.exceptions import PayloadInvalid, PayloadTooLarge, PayloadTypeUnsupported

from .faults import MAX_DEPTH, MAX_INT_DIGITS, typed_fault
from .problems import Problem, problems_of, render
from .schema import Unsupported, shape_of

NO_BOUND: Final = -1
_EXPONENT: Final = re.compile(rb"[0-9][eE][-+]?[0-9]")
_STRING_OR_EXPONENT: Final = re.compile(
    rb'"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?[eE][-+]?[0-9]+', re.DOTALL
)
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % (MAX_INT_DIGITS + 1))


class Codec:
    """The JSON form of the values of one annotation.

    Building one is slow (a millisecond or more), so keep it; its methods take
    microseconds and may be called from any thread.
    """

    __slots__ = ("_dump", "_inspects", "_load", "_plain", "_recursive", "_schema", "_validate",
                 "_verifies")  # fmt: skip

    def __init__(self, annotation: Any = Any) -> None:
        """Build the codec of *annotation*; without one, of JSON's own types.

        Raises:
            PayloadTypeUnsupported: Its values have no JSON form.
        """
        try:
            shape = shape_of(annotation)
        except Unsupported as error:
            raise PayloadTypeUnsupported(type_name(annotation), str(error)) from error
        self._validate = shape.validator.validate_python
        self._load = shape.validator.validate_json
        self._dump = shape.serializer.to_json
        self._plain = shape.serializer.to_python
        self._schema = shape.json_schema
        self._inspects = shape.inspects
        self._verifies = shape.verifies
        self._recursive = shape.recursive

    def encode(
        self, value: object, *, subject: str, path: str = "", limit: int | None = None
    ) -> str:
        """Return *value* as JSON text that ``decode`` turns into an equal value.

        Args:
            subject: Whose payload it is, as an error should name it.
            path: What the value is called in errors (``output``, ``payload``).
            limit: Most bytes of UTF-8; ``DURABLE_JOBS["MAX_PAYLOAD"]`` if omitted,
                none for ``NO_BOUND``.

        Raises:
            PayloadInvalid: It does not fit the annotation or has no exact JSON form.
            PayloadTooLarge: Its JSON form is above *limit*.
        """
        try:
            checked = self._validate(value, strict=True)
            data = self._dump(checked, warnings="error")
        except ValidationError as error:
            raise PayloadInvalid(subject, problems_of(error, value, path)) from None
        except PydanticSerializationError:
            raise PayloadInvalid(subject, [self._unwritable(checked, path)]) from None
        if _EXPONENT.search(data) is not None:
            data = _without_exponents(data)
        if self._inspects or _is_suspicious(data):
            self._inspect(checked, subject, path)
        if self._recursive and _depth_bound(data) > MAX_DEPTH:
            self._check_depth(data, subject, path)
        if self._verifies:
            self._verify(checked, data, subject, path)
        if limit is None:
            limit = settings.MAX_PAYLOAD
        if len(data) > limit != NO_BOUND:
            raise PayloadTooLarge(subject, len(data), limit)
        return data.decode()

    def decode(self, text: str | bytes, *, subject: str = "Stored value", path: str = "") -> Any:
        """Return the value that *text* was made from.

        Raises:
            PayloadInvalid: The text is not JSON, or no longer fits the annotation.
        """
        try:
            return self._load(text, strict=True)
        except ValidationError as error:
            raise PayloadInvalid(subject, problems_of(error, _parsed(text), path)) from None

    def decode_json(self, value: Any, *, subject: str = "Stored value", path: str = "") -> Any:
        """Like ``decode``, for JSON that a client has already parsed into Python values."""
        return self.decode(json.dumps(value, ensure_ascii=False), subject=subject, path=path)

    def json_schema(self) -> dict[str, Any]:
        """Describe the JSON form as JSON Schema; the caller may change the answer."""
        copy: dict[str, Any] = json.loads(json.dumps(self._schema, default=str))
        return copy

    def _inspect(self, checked: object, subject: str, path: str) -> None:
        fault = typed_fault(self._plain(checked, warnings="none"))
        if fault is not None:
            raise PayloadInvalid(subject, [(render(path, fault.parts), fault.reason)])

    def _unwritable(self, checked: object, path: str) -> Problem:
        try:
            fault = typed_fault(self._plain(checked, warnings="none"))
        except PydanticSerializationError:
            fault = None
        if fault is not None:
            return render(path, fault.parts), fault.reason
        return (
            path or "value",
            f"holds a value of type {type(checked).__name__} that does not fit its own fields",
        )

    def _check_depth(self, data: bytes, subject: str, path: str) -> None:
        try:
            fault = typed_fault(json.loads(data))
            reason = fault.reason if fault else None
        except RecursionError:
            reason = f"is nested deeper than {MAX_DEPTH} levels"
        if reason is not None:
            raise PayloadInvalid(subject, [(path or "value", reason)])

    def _verify(self, checked: object, data: bytes, subject: str, path: str) -> None:
        try:
            again = self._load(data, strict=True)
        except ValidationError as error:
            raise PayloadInvalid(subject, problems_of(error, checked, path)) from None
        # A class without equality is judged by its fields.
        if again != checked:
            first, second = (self._plain(item, warnings="none") for item in (checked, again))
            if first != second:
                raise PayloadInvalid(subject, [_difference(first, second, path)])


def type_name(annotation: Any) -> str:
    """Write an annotation as a person would: ``int``, ``list[Decimal]``."""
    is_bare = isinstance(annotation, type) and not get_args(annotation)
    return annotation.__name__ if is_bare else str(annotation)


def _without_exponents(data: bytes) -> bytes:
    """The same JSON with every number written out, floats with a decimal point.

    The database keeps a number's digits and not its exponent: ``1e16`` would come back as
    an integer, and a large float as one that it does not equal.
    """
    return _STRING_OR_EXPONENT.sub(_written_out, data)


def _written_out(match: re.Match[bytes]) -> bytes:
    token = match.group()
    if token.startswith(b'"'):
        return token
    digits = format(Decimal(token.decode()), "f")
    return (digits if "." in digits else f"{digits}.0").encode()


def _is_suspicious(data: bytes) -> bool:
    """Whether the text may hold a fault; cheap, and wrong only towards True."""
    return (
        b"\\u0000" in data
        or b"NaN" in data
        or b"Infinity" in data
        or (len(data) > MAX_INT_DIGITS and _LONG_NUMBER.search(data) is not None)
    )


def _depth_bound(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")


def _difference(first: Any, second: Any, path: str) -> Problem:
    where = path
    while True:
        for part in _common_parts(first, second):
            if first[part] != second[part]:
                where = render(where, [part])
                first, second = first[part], second[part]
                break
        else:
            break
    return where or "value", (
        f"is of type {type(first).__name__}, which JSON cannot tell from another type that the "
        "annotation allows; narrow the annotation"
    )


def _common_parts(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        return list(first)
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return range(len(first))
    return ()


def _parsed(text: str | bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
