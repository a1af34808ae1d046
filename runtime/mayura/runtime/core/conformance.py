"""Whether a value fits a stored schema: for processes where the code is not loaded (G12)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import datetime, time
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final, TypeAlias, cast

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.definition import JsonValue, Path
from mayura.runtime.core.values import at, decode
from mayura.runtime.errors import MayuraError

Schema: TypeAlias = dict[str, JsonValue]

ANYTHING: Final[Schema] = {}
NULL: Final[Schema] = {"type": "null"}
NOTHING: Final[Schema] = {"enum": []}

_BOUNDS: Final[tuple[tuple[str, Callable[[float, float], bool], str], ...]] = (
    ("minimum", operator.ge, "at least"),
    ("maximum", operator.le, "at most"),
    ("exclusiveMinimum", operator.gt, "more than"),
    ("exclusiveMaximum", operator.lt, "less than"),
)


def conforms(schema: JsonValue, value: JsonValue, where: str = "value") -> None:
    """Raise Invalid, naming the place, if `value` does not fit a schema in normal form.

    Never stricter than the type the schema was made from, on values in their stored form; what
    only code can check, such as a validator of the user's, is checked by the first advance that
    has the code.
    """
    root = cast(Schema, schema)
    _Check(cast("dict[str, Schema]", root.get("$defs", {})), where).fits(root, value, ())


class _Check:
    def __init__(self, definitions: dict[str, Schema], where: str) -> None:
        self._definitions = definitions
        self._where = where
        self._answers: dict[tuple[int, int], Invalid | None] = {}

    def fits(self, schema: Schema, value: JsonValue, path: Path) -> None:
        """Raise Invalid unless it fits. The same part is never looked at twice: with alternatives
        inside alternatives, that would take as long as there are ways through them.
        """
        if not isinstance(value, dict | list):
            return self._fits(schema, value, path)
        asked = id(schema), id(value)
        if asked not in self._answers:
            self._answers[asked] = None
            try:
                self._fits(schema, value, path)
            except Invalid as invalid:
                self._answers[asked] = invalid
        answer = self._answers[asked]
        if answer is not None:
            raise answer
        return None

    def _fits(self, schema: Schema, value: JsonValue, path: Path) -> None:
        while "$ref" in schema:
            schema = self._definitions[str(schema["$ref"])]
        if "anyOf" in schema:
            return self._fits_any(cast("list[Schema]", schema["anyOf"]), value, path)
        for part in cast("list[Schema]", schema.get("allOf", [])):
            self.fits(part, value, path)
        if "enum" in schema:
            options = cast("list[JsonValue]", schema["enum"])
            if not any(type(option) is type(value) and option == value for option in options):
                raise self._invalid(path, "is none of the values allowed")
            return None
        kind = schema.get("type")
        if kind is None:
            return None
        if not _is_a(str(kind), value):
            raise self._invalid(path, f"should be of type {kind}")
        if isinstance(value, str):
            return self._fits_text(schema, value, path)
        if isinstance(value, list):
            return self._fits_array(schema, value, path)
        if isinstance(value, dict):
            return self._fits_object(schema, value, path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._fits_number(schema, value, path)
        return None

    def _fits_any(self, parts: list[Schema], value: JsonValue, path: Path) -> None:
        nearest: Invalid | None = None
        for part in parts:
            try:
                return self.fits(part, value, path)
            except Invalid as invalid:
                if part.get("type") != "null":
                    nearest = invalid if nearest is None else None
        raise nearest or self._invalid(path, "fits none of the alternatives")

    def _fits_text(self, schema: Schema, value: str, path: Path) -> None:
        self._within(schema, "minLength", "maxLength", len(value), "characters", path)
        pattern = _compiled(str(schema["pattern"])) if "pattern" in schema else None
        if pattern is not None and pattern.search(value) is None:
            raise self._invalid(path, f"should match {schema['pattern']}")
        if not _has_format(str(schema.get("format", "")), value):
            raise self._invalid(path, f"should be text in the format {schema['format']}")

    def _fits_number(self, schema: Schema, value: float, path: Path) -> None:
        for key, compare, words in _BOUNDS:
            bound = schema.get(key)
            if isinstance(bound, int | float) and not compare(value, bound):
                raise self._invalid(path, f"should be {words} {bound}")
        step = schema.get("multipleOf")
        if isinstance(step, int) and isinstance(value, int) and value % step:
            raise self._invalid(path, f"should be a multiple of {step}")

    def _fits_array(self, schema: Schema, value: list[JsonValue], path: Path) -> None:
        self._within(schema, "minItems", "maxItems", len(value), "items", path)
        prefix = cast("list[Schema]", schema.get("prefixItems", []))
        rest = cast(Schema, schema.get("items", ANYTHING))
        for index, item in enumerate(value):
            self.fits(prefix[index] if index < len(prefix) else rest, item, (*path, index))

    def _fits_object(self, schema: Schema, value: dict[str, JsonValue], path: Path) -> None:
        self._within(schema, "minProperties", "maxProperties", len(value), "members", path)
        for name in cast("list[str]", schema.get("required", [])):
            if name not in value:
                raise self._invalid((*path, name), "is required")
        properties = cast("dict[str, Schema]", schema.get("properties", {}))
        rest = cast(Schema, schema.get("additionalProperties", ANYTHING))
        names = cast(Schema, schema.get("propertyNames", ANYTHING))
        for name, member in value.items():
            inner = (*path, name)
            self._fits_name(names, name, inner)
            if rest == NOTHING and name not in properties:
                raise self._invalid(inner, "is not a field")
            self.fits(properties.get(name, rest), member, inner)

    def _fits_name(self, names: Schema, name: str, path: Path) -> None:
        """A key is text in JSON, whatever it is in Python: `1` may be written "1"."""
        try:
            self.fits(names, name, path)
        except Invalid as invalid:
            try:
                self.fits(names, decode(name.encode("utf-8", "replace")), path)
            except (Invalid, MayuraError):
                raise invalid from None

    def _within(
        self, schema: Schema, low: str, high: str, count: int, noun: str, path: Path
    ) -> None:
        minimum, maximum = schema.get(low), schema.get(high)
        if isinstance(minimum, int) and count < minimum:
            raise self._invalid(path, f"should have at least {minimum} {noun}")
        if isinstance(maximum, int) and count > maximum:
            raise self._invalid(path, f"should have at most {maximum} {noun}")

    def _invalid(self, path: Path, what: str) -> Invalid:
        return Invalid(f"{at(self._where, path)} {what}")


def _is_a(kind: str, value: JsonValue) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            if isinstance(value, float):
                return value.is_integer()
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern, or None where it is written in a dialect that Python cannot read."""
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _has_format(name: str, text: str) -> bool:
    """Formats that all spellings pydantic accepts share; of any other, nothing is claimed."""
    try:
        match name:
            case "date-time" | "date":
                if not text.isdecimal():
                    datetime.fromisoformat(text)
            case "time":
                time.fromisoformat(text)
            case "uuid":
                bytes.fromhex(text.removeprefix("urn:uuid:").strip("{}").replace("-", ""))
            case "decimal":
                Decimal(text)
            case _:
                return True
    except (ValueError, InvalidOperation):
        return False
    return True
