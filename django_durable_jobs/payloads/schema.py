"""Build a strict validator and serializer for one annotation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import (
    CoreConfig,
    PydanticCustomError,
    SchemaError,
    SchemaSerializer,
    SchemaValidator,
    core_schema,
)

from .faults import untyped_fault
from .problems import UNTYPED

CONFIG: Final = ConfigDict(
    strict=True,
    allow_inf_nan=False,
    hide_input_in_errors=True,
    # Dataclass instances are not validated when they are made.
    revalidate_instances="always",
    # NaN in a type with rules of its own is written as NaN and found, not lost as null.
    ser_json_inf_nan="constants",
    ser_json_bytes="base64",
    val_json_bytes="base64",
    extra="forbid",
)
_CORE_CONFIG: Final = CoreConfig(
    strict=True,
    allow_inf_nan=False,
    hide_input_in_errors=True,
    revalidate_instances="always",
    ser_json_inf_nan="constants",
    ser_json_bytes="base64",
    val_json_bytes="base64",
)
_INNER: Final = (
    "schema", "items_schema", "keys_schema", "values_schema", "choices", "fields", "definitions",
    "steps", "json_schema", "python_schema", "lax_schema", "strict_schema", "extras_schema",
    "arguments_schema", "var_args_schema", "return_schema",
)  # fmt: skip
# Neither lossy nor ambiguous in JSON.
_EXACT: Final = frozenset({
    "any", "none", "bool", "int", "float", "decimal", "str", "bytes", "date", "time", "datetime",
    "timedelta", "uuid", "literal", "enum", "list", "tuple", "set", "frozenset", "dict", "nullable",
    "default", "typed-dict", "typed-dict-field", "dataclass", "dataclass-args", "dataclass-field",
    "definitions", "definition-ref", "chain", "missing-sentinel",
})  # fmt: skip
# Distinct in JSON whatever else stands beside them in a union.
_PLAIN: Final = frozenset({"none", "bool", "int", "float", "str", "literal"})
_PLAIN_KEYS: Final = frozenset({"str", "int", "uuid", "enum", "literal"})
_NO_VALUE: Final = frozenset({"callable", "generator", "is-instance", "is-subclass", "invalid"})


@dataclass(frozen=True)
class Shape:
    """How values of one annotation are checked, written and read.

    Attributes:
        inspects: The plain form must be walked each time: text alone cannot show a fault.
        verifies: The text must be read back and compared each time.
        recursive: The annotation sets no bound on depth.
    """

    validator: SchemaValidator
    serializer: SchemaSerializer
    json_schema: dict[str, Any]
    inspects: bool
    verifies: bool
    recursive: bool


class Unsupported(TypeError):
    """An annotation whose values have no JSON form; the message says why."""


def shape_of(annotation: Any) -> Shape:
    """Build the shape of *annotation*; slow, so once for each declaration.

    Raises:
        Unsupported: Its values have no JSON form.
    """
    try:
        # As the item of a list, a dataclass or TypedDict without a configuration of its own
        # takes ours; alone it would be refused one.
        adapter: TypeAdapter[Any] = TypeAdapter(list[annotation], config=CONFIG)
        listed = adapter.json_schema()
        schema = _item(adapter.core_schema)
        kinds = {node["type"] for node in _nodes(schema)}
        if kinds & _NO_VALUE:
            raise Unsupported("its values have no JSON form")
        governed = _govern(schema)
        validator = SchemaValidator(governed, _CORE_CONFIG)
        serializer = SchemaSerializer(governed, _CORE_CONFIG)
    except (PydanticSchemaGenerationError, PydanticUserError, SchemaError) as error:
        raise Unsupported(str(error).split("\n", 1)[0].split(". ", 1)[0]) from error
    foreign = not kinds <= _EXACT | {"union"}
    return Shape(
        validator,
        serializer,
        _json_schema(listed),
        inspects=foreign or "datetime" in kinds,
        verifies=foreign or any(_is_ambiguous(node) for node in _nodes(schema)),
        recursive="definition-ref" in kinds,
    )


def _item(schema: Any) -> Any:
    if schema["type"] == "definitions":
        return {**schema, "schema": _item(schema["schema"])}
    return schema.get("items_schema", {"type": "any"})


def _json_schema(listed: dict[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = listed["items"]
    definitions: dict[str, Any] = listed.get("$defs", {})
    name = item.get("$ref", "").removeprefix("#/$defs/")
    if name:
        # The shape itself belongs at the top; it stays a definition only if it recurs.
        item = definitions[name]
        if f'"#/$defs/{name}"' not in json.dumps(definitions, default=str):
            definitions = {key: value for key, value in definitions.items() if key != name}
    return {**item, "$defs": definitions} if definitions else dict(item)


def _nodes(schema: Any) -> Iterator[Any]:
    if isinstance(schema, list | tuple):
        for item in schema:
            yield from _nodes(item)
    elif isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema
            for key in _INNER:
                if key in schema:
                    yield from _nodes(schema[key])
        else:
            for item in schema.values():
                yield from _nodes(item)


def _is_ambiguous(node: Any) -> bool:
    if node["type"] == "union":
        members = [c[0] if isinstance(c, tuple) else c for c in node["choices"]]
        return any(member["type"] not in _PLAIN for member in members)
    if node["type"] == "dict":
        return node.get("keys_schema", {"type": "any"})["type"] not in _PLAIN_KEYS
    return False


def _govern(schema: Any) -> Any:
    """Copy a core schema with every untyped place held to JSON's own types."""
    if isinstance(schema, list):
        return [_govern(item) for item in schema]
    if isinstance(schema, tuple):
        return tuple(_govern(item) for item in schema)
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "any":
        return _UNTYPED_SCHEMA | {k: schema[k] for k in ("ref", "serialization") if k in schema}
    if isinstance(schema.get("type"), str):
        return {key: _govern(item) if key in _INNER else item for key, item in schema.items()}
    return {key: _govern(item) for key, item in schema.items()}


def _check_untyped(value: Any, info: core_schema.ValidationInfo) -> Any:
    if info.mode == "json":
        return value
    fault = untyped_fault(value)
    if fault is not None:
        context = {"parts": fault.parts, "reason": fault.reason}
        raise PydanticCustomError(UNTYPED, "{reason}", context)
    return value


_UNTYPED_SCHEMA: Final[dict[str, Any]] = dict(
    core_schema.with_info_plain_validator_function(_check_untyped)
)
