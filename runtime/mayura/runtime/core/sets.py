"""Sets have no order, but their stored form has one: items sorted by their canonical bytes.

Without it the digest of one and the same input would differ from process to process.
"""

from __future__ import annotations

from typing import cast

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.conformance import Schema, conforms
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.values import encode


def has_sets(schema: JsonValue) -> bool:
    """Whether a schema in normal form describes a set anywhere."""
    if isinstance(schema, dict):
        return schema.get("uniqueItems") is True or any(map(has_sets, schema.values()))
    return isinstance(schema, list) and any(map(has_sets, schema))


def sorted_sets(schema: Schema, value: JsonValue) -> JsonValue:
    """`value` with every set in it in canonical order. Raises MayuraError INVALID_JSON."""
    return _sorted(schema, value, cast("dict[str, Schema]", schema.get("$defs", {})))


def _sorted(schema: Schema, value: JsonValue, definitions: dict[str, Schema]) -> JsonValue:
    if "$ref" in schema:
        return _sorted(definitions[str(schema["$ref"])], value, definitions)
    for part in cast("list[Schema]", schema.get("anyOf", [])):
        try:
            conforms({**part, "$defs": cast(JsonValue, definitions)}, value)
        except Invalid:
            continue
        return _sorted(part, value, definitions)
    if isinstance(value, list):
        prefix = cast("list[Schema]", schema.get("prefixItems", []))
        rest = cast(Schema, schema.get("items", {}))
        items = [
            _sorted(prefix[i] if i < len(prefix) else rest, item, definitions)
            for i, item in enumerate(value)
        ]
        return sorted(items, key=encode) if schema.get("uniqueItems") is True else items
    if isinstance(value, dict):
        properties = cast("dict[str, Schema]", schema.get("properties", {}))
        rest = cast(Schema, schema.get("additionalProperties", {}))
        return {
            name: _sorted(properties.get(name, rest), member, definitions)
            for name, member in value.items()
        }
    return value
