"""Which declared types come back equal from JSON, decided before anything runs.

A type is refused here where its declaration alone shows that a value would lose something:
secrets, excluded fields, two different aliases, no notion of equality. What only a value can show
(a subclass with more fields, NaN, an object under `Any`) is refused when that value is dumped.
"""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import types
import typing
from enum import Enum
from typing import Annotated, Any, Final, Literal, TypeVar, Union

from pydantic import (
    AliasChoices,
    AliasPath,
    AwareDatetime,
    BaseModel,
    FutureDate,
    FutureDatetime,
    NaiveDatetime,
    PastDate,
    PastDatetime,
    SecretBytes,
    SecretStr,
    TypeAdapter,
)
from pydantic.fields import FieldInfo
from pydantic.types import Secret

from mayura.runtime.core.mistake import DefinitionError

_SECRETS: Final = (SecretStr, SecretBytes, Secret)
_STAND_INS: Final = frozenset(
    {AwareDatetime, NaiveDatetime, PastDatetime, FutureDatetime, PastDate, FutureDate}
)
"""Classes of pydantic in whose place a date or a datetime stands."""
_STREAMS: Final = (
    abc.Iterable,
    abc.Iterator,
    abc.Generator,
    abc.AsyncIterator,
    abc.AsyncIterable,
    abc.AsyncGenerator,
    abc.Awaitable,
    abc.Coroutine,
)


def refuse_what_cannot_come_back(declared: object, where: str) -> None:
    """Raise DefinitionError, naming the field below `where`, for a type that would lose values."""
    _Look(where).at(declared, "")


def without_annotations(declared: object) -> object:
    """The type under `Annotated` and `type X = ...`."""
    while True:
        if typing.get_origin(declared) is Annotated:
            declared = typing.get_args(declared)[0]
        elif type(declared).__name__ == "TypeAliasType":
            declared = getattr(declared, "__value__", object)
        else:
            return declared


def union_members(declared: object) -> tuple[object, ...]:
    """The alternatives of a union, or the type alone."""
    declared = without_annotations(declared)
    if typing.get_origin(declared) in (Union, types.UnionType):
        return tuple(m for a in typing.get_args(declared) for m in union_members(a))
    return (declared,)


class _Look:
    """A walk over a type; each class is looked at once."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen: set[object] = set()

    def at(self, declared: object, path: str) -> None:
        if typing.get_origin(declared) is Annotated:
            self._at_metadata(typing.get_args(declared)[1:], path)
        declared = without_annotations(declared)
        origin = typing.get_origin(declared)
        kind = origin or declared
        if origin is Literal or declared is Any or isinstance(declared, str | TypeVar):
            return
        if kind in _STREAMS:
            self._refuse(path, "is a stream, not a value: declare list[...]")
        arguments = () if origin is abc.Callable else typing.get_args(declared)
        for argument in arguments:
            self.at(argument, path)
        if isinstance(kind, type) and declared not in self._seen:
            self._seen.add(declared)
            self._at_class(kind, declared, path)

    def _at_class(self, kind: type, declared: object, path: str) -> None:
        if issubclass(kind, _SECRETS):
            self._refuse(path, "is a secret and would be stored as asterisks: pass a reference")
        if issubclass(kind, Enum):
            self._at_enum(kind, path)
        elif issubclass(kind, BaseModel):
            self._at_model(kind, path)
        elif dataclasses.is_dataclass(kind):
            self._at_dataclass(kind, path)
        elif is_typed_dict(kind) or issubclass(kind, tuple):
            for name, member in hints_of(kind).items():
                self.at(member, f"{path}.{name}")
        elif kind not in _STAND_INS and not _has_equality(kind):
            self._refuse(path, f"is of type {kind.__name__}, whose values are equal to nothing")

    def _at_enum(self, kind: type[Enum], path: str) -> None:
        adapter = TypeAdapter(kind)
        for member in kind:
            try:
                same = adapter.validate_json(adapter.dump_json(member)) is member
            except Exception:  # noqa: BLE001 - whatever it is, the member does not come back
                same = False
            if not same:
                self._refuse(path, f"is {kind.__name__}, whose {member.name} is not plain JSON")

    def _at_model(self, kind: type[BaseModel], path: str) -> None:
        for name, field in model_fields_of(kind).items():
            self._at_field(name, field, f"{path}.{name}", kind)
        if kind.model_computed_fields and kind.model_config.get("extra") == "forbid":
            names = ", ".join(kind.model_computed_fields)
            self._refuse(path, f"is {kind.__name__}, which forbids its own computed field {names}")

    def _at_dataclass(self, kind: type, path: str) -> None:
        if not _has_equality(kind):
            self._refuse(path, f"is {kind.__name__}, a dataclass with eq=False")
        hints = hints_of(kind)
        for field in dataclasses.fields(kind):
            if isinstance(field.default, FieldInfo):
                self._at_field(field.name, field.default, f"{path}.{field.name}", kind)
            self.at(hints.get(field.name, field.type), f"{path}.{field.name}")

    def _at_field(self, name: str, field: FieldInfo, path: str, kind: type) -> None:
        if field.exclude or getattr(field, "exclude_if", None) is not None:
            self._refuse(path, "is excluded from what is stored, so it would be lost")
        if _is_lopsided(name, field, kind):
            self._refuse(path, "is read under one alias and written under another")
        default = field.default
        if isinstance(default, BaseModel) and type(default) not in union_members(field.annotation):
            self._refuse(
                path, f"has a default of type {type(default).__name__}, which loses fields"
            )
        self._at_metadata(field.metadata, path)
        self.at(field.annotation, path)

    def _at_metadata(self, metadata: abc.Iterable[object], path: str) -> None:
        for item in metadata:
            if type(item).__name__ == "SerializeAsAny":
                self._refuse(path, "is SerializeAsAny: what a subclass adds would not come back")
            if isinstance(item, FieldInfo) and item.exclude:
                self._refuse(path, "is excluded from what is stored, so it would be lost")

    def _refuse(self, path: str, what: str) -> None:
        place = f" field {path.removeprefix('.')}" if path else ""
        raise DefinitionError(f"{self._where}{place}", what)


def _has_equality(kind: type) -> bool:
    if kind in (object, type(None)) or kind.__module__ == "collections.abc":
        return True
    return any("__eq__" in vars(one) for one in kind.__mro__[:-1])


def _is_lopsided(name: str, field: FieldInfo, kind: type) -> bool:
    """Whether a field is written under a name it is not read under."""
    written = field.serialization_alias or name
    read = field.validation_alias
    config: Any = getattr(kind, "model_config", {})
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    if by_name and written == name:
        return False
    if read is None:
        return written != name
    if isinstance(read, AliasChoices):
        return written not in read.choices
    if isinstance(read, AliasPath):
        return True
    return read != written


def is_typed_dict(declared: object) -> bool:
    """Whether it is a TypedDict, of whichever module."""
    return (
        isinstance(declared, type)
        and issubclass(declared, dict)
        and hasattr(declared, "__required_keys__")
    )


def model_fields_of(kind: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model, after names declared below it were resolved."""
    if not kind.__pydantic_complete__:
        kind.model_rebuild(raise_errors=False)
    return kind.model_fields


def hints_of(kind: type) -> dict[str, Any]:
    """The annotations of a class, or nothing where a name in them cannot be resolved."""
    try:
        hints: dict[str, Any] = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - a name that cannot be resolved is reported by pydantic
        return {}
    return hints
