"""What a type accepts, as a schema in normal form.

Pydantic describes a type; the digest of a definition may depend on what the description says, but
neither on pydantic's version nor on titles, docstrings, examples or the names of classes. So the
description is pydantic's where all versions agree, ours where they do not, and in normal form.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, cast

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from mayura.runtime.core.conformance import ANYTHING, Schema
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.folding import folded
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.normal_form import normal_form


def schema_of(adapter: TypeAdapter[Any], where: str) -> Schema:
    """The normal form of what `adapter` accepts, under the names its values have in JSON.

    Raises DefinitionError if the type has no JSON form.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            raw = adapter.json_schema(by_alias=True, schema_generator=_Plain, mode="validation")
        except (PydanticInvalidForJsonSchema, KeyError, TypeError, ValueError):
            raise DefinitionError(
                where, "this type has no JSON form: declare one that pydantic can describe"
            ) from None
    return folded(normal_form(cast(JsonValue, raw), where))


def schema_behind(declared: object) -> Schema:
    """The schema of a declared type; the one that everything fits where nothing can be said."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("type[Any]", declared))
        return schema_of(adapter, "type")
    except (PydanticUserError, DefinitionError, TypeError, NameError):
        return ANYTHING


class _Plain(GenerateJsonSchema):
    """Pydantic's description, with the parts that changed from version to version replaced."""

    def decimal_schema(self, schema: Mapping[str, Any]) -> JsonSchemaValue:
        number: JsonSchemaValue = {"type": "number"}
        for ours, theirs in _DECIMAL_LIMITS:
            if theirs in schema:
                number[ours] = _number(schema[theirs])
        return {"anyOf": [number, {"type": "string", "format": "decimal"}]}

    def dict_schema(self, schema: Mapping[str, Any]) -> JsonSchemaValue:
        described: JsonSchemaValue = {"type": "object"}
        for ours, theirs in (
            ("propertyNames", "keys_schema"),
            ("additionalProperties", "values_schema"),
        ):
            if theirs in schema:
                described[ours] = self.generate_inner(schema[theirs])
        for ours, theirs in (("minProperties", "min_length"), ("maxProperties", "max_length")):
            if theirs in schema:
                described[ours] = schema[theirs]
        return described

    def complex_schema(self, schema: Mapping[str, Any]) -> JsonSchemaValue:
        return {"type": "string", "format": "complex"}

    def bytes_schema(self, schema: Mapping[str, Any]) -> JsonSchemaValue:
        described: JsonSchemaValue = {"type": "string", "format": "binary"}
        for ours, theirs in (("minLength", "min_length"), ("maxLength", "max_length")):
            if theirs in schema:
                described[ours] = schema[theirs]
        return described

    def timedelta_schema(self, schema: Mapping[str, Any]) -> JsonSchemaValue:
        return {"anyOf": [{"type": "number"}, {"type": "string", "format": "duration"}]}


def _number(bound: Decimal | float) -> int | float:
    """A bound as JSON has it; versions differ between a number and a text."""
    return int(bound) if bound == int(bound) else float(bound)


_DECIMAL_LIMITS: Final = (
    ("minimum", "ge"),
    ("maximum", "le"),
    ("exclusiveMinimum", "gt"),
    ("exclusiveMaximum", "lt"),
    ("multipleOf", "multiple_of"),
    ("maxDigits", "max_digits"),
    ("decimalPlaces", "decimal_places"),
)
