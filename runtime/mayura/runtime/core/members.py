"""Fields and items of a declared type, and where they stand in its JSON form."""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import typing
from types import GenericAlias
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, Union, cast

from pydantic import BaseModel, RootModel
from pydantic.fields import FieldInfo

from mayura.runtime.core.coming_back import (
    hints_of,
    is_typed_dict,
    model_fields_of,
    union_members,
)
from mayura.runtime.core.definition import Path
from mayura.runtime.core.mistake import did_you_mean
from mayura.runtime.core.type_names import name_of

NONE_TYPE: Final = type(None)
_ARRAYS: Final = (list, set, frozenset, abc.Sequence, abc.Set, abc.MutableSequence)
_OBJECTS: Final = (dict, abc.Mapping, abc.MutableMapping)


class Member(NamedTuple):
    """A part of a type: what it is declared as, and its place below the whole in JSON."""

    declared: object
    path: Path


class NoSuchMember(Exception):
    """The type has no such part. The text says what to write instead."""


Found: TypeAlias = Member | None


def attribute(declared: object, name: str) -> Member:
    """The field `name` of a model or dataclass. Raises NoSuchMember."""
    return _of_union(declared, lambda one: _attribute(one, name), f"field {name!r}", name)


def item(declared: object, key: str | int) -> Member:
    """The member under a key or an index. Raises NoSuchMember."""
    if isinstance(key, int) and key < 0:
        raise NoSuchMember("an index counts from the front: only a tool sees the end of a list")
    return _of_union(declared, lambda one: _item(one, key), f"item {key!r}", None)


def follow(declared: object, dotted: str) -> Member:
    """The part that `a.b.c` names: fields, or keys where there are no fields."""
    path: Path = ()
    for segment in dotted.split("."):
        try:
            found = attribute(declared, segment)
        except NoSuchMember as missing:
            try:
                found = item(declared, segment)
            except NoSuchMember:
                raise missing from None
        declared, path = found.declared, (*path, *found.path)
    return Member(declared, path)


def may_be_null(declared: object) -> bool:
    """Whether null is among the values, as far as the declaration says."""
    return NONE_TYPE in union_members(declared) or None in union_members(declared)


def union_of(kinds: list[object]) -> object:
    """The type of a value that is of one of these."""
    unique = [kind for i, kind in enumerate(kinds) if kind not in kinds[:i]]
    return unique[0] if len(unique) == 1 else Union[tuple(unique)]  # noqa: UP007 - made of data


def list_of(declared: object) -> object:
    """The type of a list of such values."""
    return GenericAlias(list, (declared,))


def _of_union(
    declared: object, find: abc.Callable[[object], Found], what: str, name: str | None
) -> Member:
    members = [one for one in union_members(declared) if one not in (None, NONE_TYPE)]
    found = [member for member in map(find, members) if member is not None]
    if not found:
        raise NoSuchMember(_why_missing(declared, members, what, name))
    path = found[0].path
    if any(member.path != path for member in found):
        raise NoSuchMember(f"{name_of(declared)} has its {what} in more than one place")
    kinds = [member.declared for member in found]
    if may_be_null(declared) or len(found) < len(members):
        kinds.append(None)
    return Member(union_of(kinds), path)


def _attribute(declared: object, name: str) -> Found:
    kind = typing.get_origin(declared) or declared
    if not isinstance(kind, type):
        return None
    if issubclass(kind, RootModel) and name == "root":
        return Member(kind.model_fields["root"].annotation, ())
    fields = _fields_of(kind)
    if name not in fields:
        return None
    return fields[name]


def _item(declared: object, key: str | int) -> Found:
    kind, arguments = typing.get_origin(declared) or declared, typing.get_args(declared)
    if kind in (Any, object) or isinstance(kind, TypeVar):
        return Member(object, (key,))
    if not isinstance(kind, type):
        return None
    if is_typed_dict(kind):
        hints = typing.get_type_hints(kind)
        return Member(hints[key], (key,)) if isinstance(key, str) and key in hints else None
    if kind is tuple and isinstance(key, int):
        return _tuple_item(arguments, key)
    if kind in _ARRAYS and isinstance(key, int):
        return Member(arguments[0] if arguments else object, (key,))
    if kind in _OBJECTS:
        declared_key = arguments[0] if arguments else str
        if type(key) is declared_key or (isinstance(key, str) and declared_key in (str, Any)):
            return Member(arguments[1] if arguments else object, (str(key),))
    return None


def _tuple_item(arguments: tuple[object, ...], key: int) -> Found:
    if not arguments or arguments[-1] is Ellipsis:
        return Member(arguments[0] if arguments else object, (key,))
    return Member(arguments[key], (key,)) if key < len(arguments) else None


def _fields_of(kind: type) -> dict[str, Member]:
    """The fields of a model, dataclass or named tuple, under their names in Python."""
    if issubclass(kind, BaseModel):
        return {
            name: Member(field.annotation, (field.serialization_alias or name,))
            for name, field in model_fields_of(kind).items()
        }
    hints = hints_of(kind)
    if dataclasses.is_dataclass(kind):
        return {
            field.name: Member(hints.get(field.name, object), (_alias(field),))
            for field in dataclasses.fields(kind)
        }
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        names = cast("tuple[str, ...]", vars(kind)["_fields"])
        return {name: Member(hints.get(name, object), (i,)) for i, name in enumerate(names)}
    return {}


def _alias(field: dataclasses.Field[Any]) -> str:
    default = field.default
    alias = default.serialization_alias if isinstance(default, FieldInfo) else None
    return alias or field.name


def _why_missing(declared: object, members: list[object], what: str, name: str | None) -> str:
    names = [n for one in members if isinstance(one, type) for n in _fields_of(one)]
    keys = [k for one in members if is_typed_dict(one) for k in hints_of(cast(type, one))]
    if name is None:
        advice = f": its fields are {', '.join(names)}" if names else ""
        return f"{name_of(declared)} has no {what}{advice}"
    if name in keys:
        return f"{name_of(declared)} is an object with keys: write [{name!r}]"
    if not names and not keys:
        return f"{name_of(declared)} has no fields to take: compute {name!r} inside a tool"
    owned = any(isinstance(one, type) and hasattr(one, name) for one in members)
    if owned and name not in names:
        return f"{name!r} of {name_of(declared)} is computed: compute it inside a tool"
    return f"{name_of(declared)} has no {what}{did_you_mean(name, [*names, *keys])}"
