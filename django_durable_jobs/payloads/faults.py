"""Find what in a value has no exact JSON form, and where."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

MAX_DEPTH: Final = 100
# Python and Pydantic both refuse to parse longer ones, so they could not be read back.
MAX_INT_DIGITS: Final = 4300
_INT_BOUND: Final = 10**MAX_INT_DIGITS
_CONTAINERS: Final = (list, tuple, set, frozenset)

Part = str | int


@dataclass(frozen=True)
class Fault:
    """One thing that cannot be stored.

    Attributes:
        parts: Keys and indexes from the value down to the fault.
        reason: Continues a sentence that begins with the path; no final stop.
    """

    parts: tuple[Part, ...]
    reason: str


class _TooDeep(Exception):
    pass


def untyped_fault(value: object) -> Fault | None:
    """Say why *value* is not made of JSON's own types, or None if it is."""
    return _bounded(value, untyped=True)


def typed_fault(plain: object) -> Fault | None:
    """Say what in the plain form of a validated value cannot be stored, or None."""
    return _bounded(plain, untyped=False)


def is_django_model(kind: object) -> bool:
    """True for a Django model class; asks by name so that Django need not be imported."""
    return isinstance(kind, type) and any(
        base.__name__ == "Model" and base.__module__ == "django.db.models.base"
        for base in kind.__mro__
    )


def describe_model(kind: type) -> str:
    """The refusal of a Django model instance, with its remedy."""
    return f"is an instance of the model {kind.__name__}; pass its primary key"


def _bounded(value: object, *, untyped: bool) -> Fault | None:
    try:
        return _fault(value, untyped, 0)
    except _TooDeep:
        trail = _cycle(value, {})
        if trail is not None:
            return Fault(trail, "contains itself")
        return Fault((), f"is nested deeper than {MAX_DEPTH} levels")


def _fault(value: Any, untyped: bool, depth: int) -> Fault | None:
    kind = type(value)
    if kind is dict or (not untyped and isinstance(value, Mapping)):
        if depth >= MAX_DEPTH:
            raise _TooDeep
        for key, item in value.items():
            reason = _key_fault(key, untyped)
            if reason is not None:
                return Fault((), reason)
            found = _fault(item, untyped, depth + 1)
            if found is not None:
                part = key if isinstance(key, str | int) else str(type(key).__name__)
                return Fault((part, *found.parts), found.reason)
        return None
    if kind is list or kind is tuple or (not untyped and isinstance(value, _CONTAINERS)):
        if depth >= MAX_DEPTH:
            raise _TooDeep
        for index, item in enumerate(value):
            found = _fault(item, untyped, depth + 1)
            if found is not None:
                return Fault((index, *found.parts), found.reason)
        return None
    reason = _scalar_fault(value)
    if reason is None and untyped:
        reason = _type_fault(value, kind)
    return None if reason is None else Fault((), reason)


def _key_fault(key: object, untyped: bool) -> str | None:
    if untyped and type(key) is not str:
        return f"has a key of type {type(key).__name__}; keys must be text"
    reason = _scalar_fault(key)
    return None if reason is None else f"has a key that {reason}"


def _scalar_fault(value: object) -> str | None:
    if isinstance(value, str):
        return _text_fault(value)
    if isinstance(value, float):
        return None if math.isfinite(value) else "is not a finite number (NaN or infinity)"
    if isinstance(value, int):
        if -_INT_BOUND < value < _INT_BOUND:
            return None
        return f"is a whole number of more than {MAX_INT_DIGITS} digits"
    if isinstance(value, Decimal):
        return None if value.is_finite() else "is not a finite number (NaN or infinity)"
    if isinstance(value, datetime):
        return _datetime_fault(value)
    return None


def _text_fault(value: str) -> str | None:
    if "\0" in value:
        return "holds a NUL character (\\u0000), which PostgreSQL cannot store"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "holds a lone surrogate, which is not valid text"
    return None


def _datetime_fault(value: datetime) -> str | None:
    offset = value.utcoffset()
    if offset is None:
        # Only a naive datetime asks for the setting, so plain values need no Django.
        from django.conf import settings

        if settings.USE_TZ:
            return "is a naive datetime while USE_TZ is on; pass timezone.make_aware(value)"
        return None
    if offset % timedelta(minutes=1):
        return "has an offset with seconds in it, which JSON cannot keep; convert it to UTC"
    return None


def _type_fault(value: object, kind: type) -> str | None:
    if value is None or kind in (bool, int, float, str):
        return None
    name = kind.__name__
    if is_django_model(kind):
        return describe_model(kind)
    if isinstance(value, set | frozenset):
        return f"is of type {name}, which JSON has no form for; annotate it or pass a list"
    if isinstance(value, str | int | float | list | tuple | dict) and not isinstance(value, Enum):
        base = next(b for b in (str, int, float, list, tuple, dict) if isinstance(value, b))
        return f"is of type {name}, which would come back as a {base.__name__}; convert it first"
    known = (Enum, Decimal, UUID, date, time, timedelta, bytes)
    if isinstance(value, known) or is_dataclass(value) or hasattr(kind, "__pydantic_validator__"):
        return f"is of type {name}, which JSON has no form for; annotate it or convert it first"
    return f"is of type {name}, which JSON has no form for"


def _cycle(value: object, above: dict[int, None]) -> tuple[Part, ...] | None:
    if not isinstance(value, dict | list | tuple) or len(above) > MAX_DEPTH:
        return None
    if id(value) in above:
        return ()
    above[id(value)] = None
    for part, item in _items(value):
        trail = _cycle(item, above)
        if trail is not None:
            return (part, *trail)
    del above[id(value)]
    return None


def _items(value: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    return iter(value.items()) if isinstance(value, dict) else enumerate(value)
