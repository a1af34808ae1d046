"""From Python values to stored JSON and back, through one declared type.

Everything that is stored goes through JSON, so a value counts as valid only if what comes back
from JSON is equal to it. What cannot come back equal is refused where it is declared
(`coming_back`), or, where only the value shows it, when it is dumped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, Generic, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.coming_back import refuse_what_cannot_come_back
from mayura.runtime.core.conformance import Schema
from mayura.runtime.core.definition import JsonValue, Path
from mayura.runtime.core.invalid import explained
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.schema import schema_of
from mayura.runtime.core.sets import has_sets, sorted_sets
from mayura.runtime.core.type_names import name_of
from mayura.runtime.core.values import at, encode
from mayura.runtime.errors import MayuraError

T = TypeVar("T")


class Codec(Generic[T]):
    """One declared type: its schema, and the checks of values against it, built once."""

    def __init__(self, declared: object, where: str, noun: str = "value") -> None:
        """Raises DefinitionError, beginning with `where`, if values cannot come back equal."""
        refuse_what_cannot_come_back(declared, where)
        try:
            adapter: TypeAdapter[T] = TypeAdapter(cast("type[T]", declared))
        except (PydanticUserError, TypeError, NameError) as error:
            advice = ""
            if isinstance(error, PydanticUserError) and error.code == "typed-dict-version":
                advice = ": before Python 3.12, take TypedDict from typing_extensions"
            raise DefinitionError(
                where, f"{name_of(declared)} is no type that pydantic can check{advice}"
            ) from None
        self.declared = declared
        self.schema: Schema = schema_of(adapter, where)
        self._noun = noun
        self._load = adapter.validator.validate_json
        self._dump = adapter.serializer.to_python
        self._accepts = adapter.validator.validate_python
        self._plain = _is_plain(cast("dict[str, Any]", adapter.core_schema))
        self._sets = has_sets(self.schema)

    def load(self, value: JsonValue) -> T:
        """The Python value behind stored JSON. Raises Invalid."""
        return self._loaded(self._encoded(value))

    def check(self, value: JsonValue) -> JsonValue:
        """`value` in its stored form, which checks to itself. Raises Invalid."""
        loaded = self._loaded(self._encoded(value))
        dumped = self._dumped(loaded)
        if not self._plain:
            self._must_come_back(loaded, dumped)
        return dumped

    def dump(self, value: object) -> JsonValue:
        """The stored form of a Python value. Raises Invalid, and nothing else.

        Whatever a user's serializer, comparison or `repr` does, its text goes nowhere.
        """
        try:
            dumped = self._dumped(value)
            self._must_come_back(value, dumped)
        except Invalid:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - a result's own code may raise anything at all
            raise Invalid(f"{self._noun} cannot be turned into JSON") from None
        return dumped

    def _encoded(self, value: JsonValue) -> bytes:
        try:
            return encode(value, self._noun)
        except MayuraError as error:
            raise Invalid(str(error)) from None

    def _loaded(self, data: bytes) -> T:
        try:
            loaded: T = self._load(data)
        except ValidationError as error:
            raise Invalid(explained(error, self._noun)) from None
        except Exception:  # noqa: BLE001 - a user's validator may raise anything
            raise Invalid(f"{self._noun} is refused by a validator that failed") from None
        return loaded

    def _dumped(self, value: object) -> JsonValue:
        try:
            dumped = self._dump(value, mode="json", by_alias=True, warnings="error")
        except Exception:  # noqa: BLE001 - pydantic's errors, and those of a user's serializer
            raise Invalid(self._why_not_of_the_type(value)) from None
        return cast(JsonValue, sorted_sets(self.schema, dumped) if self._sets else dumped)

    def _must_come_back(self, value: object, dumped: JsonValue) -> None:
        found = difference(value, self._loaded(self._encoded(dumped)))
        if found is not None:
            path, part = found
            what = "does not come back equal from JSON: return exactly the declared type"
            if isinstance(part, float) and not isfinite(part):
                what = "is not a finite number"
            raise Invalid(f"{at(self._noun, path)} {what}")

    def _why_not_of_the_type(self, value: object) -> str:
        """Where a value that pydantic would not dump departs from the type, if that can be said."""
        try:
            self._accepts(value, strict=True)
            self._load(encode(self._dump(value, mode="json", by_alias=True, warnings="none")))
        except ValidationError as error:
            return explained(error, self._noun)
        except Exception:  # noqa: BLE001 - only the explanation is lost
            pass
        declared = name_of(self.declared)
        if isinstance(self.declared, type) and not isinstance(value, self.declared):
            return f"{self._noun} is a {type(value).__name__}: hand over one of type {declared}"
        return f"{self._noun} cannot be turned into JSON as {declared}"


def difference(value: object, back: object) -> tuple[Path, object] | None:
    """The first place where two values differ, and what stands there in the first of them.

    None where only list and tuple differ: a `Sequence` may hold either, and comes back as a list.
    """
    if _equal(value, back):
        return None
    if type(value) is type(back) and (isinstance(value, BaseModel) or is_dataclass(value)):
        return _first_difference(value, _members(value), _members(back))
    if isinstance(value, Mapping) and isinstance(back, Mapping):
        return _first_difference(value, dict(value), dict(back))
    if isinstance(value, datetime) and isinstance(back, datetime):
        return None if _same_instant(value, back) else ((), value)
    if isinstance(value, list | tuple) and isinstance(back, list | tuple):
        return _first_difference(value, dict(enumerate(value)), dict(enumerate(back)))
    return (), value


def _first_difference(
    whole: object, values: dict[Any, Any], backs: dict[Any, Any]
) -> tuple[Path, object] | None:
    if values.keys() != backs.keys():
        return (), whole
    for key, value in values.items():
        found = difference(value, backs[key])
        if found is not None:
            return (key if isinstance(key, int) else str(key), *found[0]), found[1]
    return None


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - values that cannot be compared are not known to be equal
        return False


def _same_instant(value: datetime, back: datetime) -> bool:
    """Times an hour before clocks go back are equal to no time of another zone, says Python."""
    if value.tzinfo is None or back.tzinfo is None:
        return False
    return value.astimezone(UTC) == back.astimezone(UTC)


def _members(value: object) -> dict[str, Any]:
    """Everything that takes part in the comparison of two models or dataclasses."""
    if not isinstance(value, BaseModel):
        return {field.name: getattr(value, field.name) for field in fields(cast(Any, value))}
    hidden = value.__pydantic_private__ or {}
    return {**vars(value), **(value.__pydantic_extra__ or {}), **hidden}


_PLAIN: Final = frozenset(
    [
        "bool",
        "bytes",
        "dataclass",
        "dataclass-args",
        "dataclass-field",
        "date",
        "datetime",
        "decimal",
        "default",
        "definitions",
        "definition-ref",
        "dict",
        "enum",
        "float",
        "frozenset",
        "int",
        "list",
        "literal",
        "model",
        "model-field",
        "model-fields",
        "none",
        "nullable",
        "set",
        "str",
        "time",
        "timedelta",
        "tuple",
        "typed-dict",
        "typed-dict-field",
        "uuid",
    ]
)
#: Keys of a core schema that hold a user's values rather than schemas.
_NO_SCHEMAS: Final = frozenset({"default", "metadata", "members", "expected"})


def _is_plain(schema: object) -> bool:
    """Whether every part is of a kind that is known to come back as the same value and JSON.

    Unions, `Any`, computed defaults and everything with a function in it may not: their values
    are looked at one by one.
    """
    if isinstance(schema, list | tuple):
        return all(map(_is_plain, schema))
    if not isinstance(schema, Mapping):
        return True
    kind = schema.get("type")
    if not isinstance(kind, str):
        return all(map(_is_plain, schema.values()))  # the fields of a model, by name
    if kind not in _PLAIN or "serialization" in schema or schema.get("computed_fields"):
        return False
    if kind == "default" and not _is_plain_default(schema):
        return False
    return all(_is_plain(part) for key, part in schema.items() if key not in _NO_SCHEMAS)


def _is_plain_default(schema: Mapping[str, object]) -> bool:
    if "default_factory" in schema:
        return False
    default = schema.get("default")
    if default is not None and type(default) not in (bool, int, float, str):
        return False
    try:
        encode(cast(JsonValue, default))
    except MayuraError:
        return False
    return True
