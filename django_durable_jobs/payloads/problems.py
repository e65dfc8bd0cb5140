"""Turn Pydantic's findings into lines that name the path and never the value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import ValidationError
from pydantic_core import core_schema

from .faults import Part, describe_model, is_django_model

Problem = tuple[str, str]
"""Path and message; the message continues a sentence that begins with the path."""

UNTYPED: Final = "durable_jobs_untyped"
"""Error type of a value in an untyped place; its context carries parts and reason."""

UNEXPECTED: Final = "is not expected here"
"""Message of a name that the type does not know."""

# Pydantic's own messages name types and bounds, but these quote the value or the
# words of a validator that may quote it.
_QUOTING: Final = frozenset({
    "value_error", "assertion_error", "union_tag_invalid", "uuid_parsing", "url_parsing",
    "url_syntax_violation", "no_such_attribute", "get_attribute_error", "json_invalid",
    "mapping_type", "iteration_error", "dataclass_exact_type", "import_error",
})  # fmt: skip
_QUOTABLE: Final = frozenset(get_args(core_schema.ErrorType)) - _QUOTING
_WHOLE: Final = {
    "missing": "is required",
    "missing_argument": "is required",
    "extra_forbidden": UNEXPECTED,
    "unexpected_keyword_argument": UNEXPECTED,
    "recursion_loop": "contains itself",
    "json_invalid": "is not valid JSON",
}
_SHOWN_KEY: Final = 40


def problems_of(error: ValidationError, value: object, path: str) -> list[Problem]:
    """List every finding once, one for each path, in Pydantic's order.

    Args:
        value: What was validated; tells keys in a location from union members.
        path: What the value itself is called; may be empty.
    """
    found: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        parts, message = _read(item, value)
        messages = found.setdefault(render(path, parts), [])
        if message not in messages:
            messages.append(message)
    return [(where, " or ".join(messages)) for where, messages in found.items()]


def render(path: str, parts: Iterable[Part]) -> str:
    """Write a path as code would: ``order.lines[3].price``, ``args["a b"]``."""
    text = path
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier() and part.isascii():
            text += f".{part}" if text else part
        else:
            text += f"[{part[:_SHOWN_KEY]!a}]"
    return text


def _read(item: Any, value: object) -> tuple[list[Part], str]:
    kind: str = item["type"]
    if item["loc"] and item["loc"][-1] == "[key]":
        # The key is the offending value here, so the path ends at its dict.
        parts, message = _read({**item, "loc": item["loc"][:-2]}, value)
        return parts, f"has a key that {message}"
    parts = _locate(item["loc"], value, kind)
    if kind == UNTYPED:
        return [*parts, *item["ctx"]["parts"]], item["ctx"]["reason"]
    if is_django_model(type(item["input"])):
        return parts, describe_model(type(item["input"]))
    if kind in _WHOLE:
        return parts, _WHOLE[kind]
    if kind not in _QUOTABLE:
        return parts, f"was refused by a validator of its type ({_name(kind)})"
    message = item["msg"].removeprefix("Input ")
    if kind.endswith(("_type", "_parsing")) or kind == "is_instance_of":
        message += f", not {type(item['input']).__name__}"
    return parts, message


def _locate(loc: Sequence[Part], value: Any, kind: str) -> list[Part]:
    parts: list[Part] = []
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        if _holds(value, part):
            value = value[part]
        elif isinstance(part, str) and part.isidentifier() and hasattr(value, part):
            value = getattr(value, part)
        elif not (last and kind in ("missing", "missing_argument", "extra_forbidden")):
            # The name of a union's member or of a validator: no place in the value.
            continue
        parts.append(part)
    return parts


def _holds(value: object, part: Part) -> bool:
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)


def _name(kind: str) -> str:
    return kind if kind.isidentifier() else "custom"
