"""Keeps schemas shallow: what is nested deep in one is moved into its `$defs`.

A schema is nested about twice as deep as the values it describes, and is stored inside a manifest
and a question, each of which is a value, too. Parts are named by what they say, so that the folded
form, like the normal form it is made from, is the same everywhere.
"""

from __future__ import annotations

from typing import Final, cast

from mayura.runtime.core.conformance import Schema
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.digest import SCHEMA, digest
from mayura.runtime.core.values import encode

PART_LEVELS_MAX: Final = 12  #: of JSON, in one part of a folded schema
_NAME_CHARS: Final = 16
_ONE: Final = frozenset({"items", "additionalProperties", "propertyNames"})
_SEVERAL: Final = frozenset({"anyOf", "allOf", "prefixItems"})


def folded(schema: Schema) -> Schema:
    """The same schema with no part of it nested deeper than 12 levels, defaults aside."""
    definitions: dict[str, JsonValue] = {}
    named = cast("dict[str, Schema]", schema.get("$defs", {}))
    whole, _ = _fold({key: part for key, part in schema.items() if key != "$defs"}, definitions)
    for name, form in named.items():
        definitions[name], _ = _fold(form, definitions)
    return {**whole, "$defs": dict(sorted(definitions.items()))} if definitions else whole


def _fold(schema: Schema, definitions: dict[str, JsonValue]) -> tuple[Schema, int]:
    """The schema or a reference to it, and how many levels that has."""
    form, levels = dict(schema), 1
    for key, part in schema.items():
        if key in _ONE:
            form[key], below = _fold(cast(Schema, part), definitions)
            levels = max(levels, 1 + below)
        elif key in _SEVERAL:
            folds = [_fold(one, definitions) for one in cast("list[Schema]", part)]
            form[key] = [one for one, _ in folds]
            levels = max(levels, *(2 + below for _, below in folds))
        elif key == "properties":
            members = cast("dict[str, Schema]", part)
            named = {name: _fold(one, definitions) for name, one in members.items()}
            form[key] = {name: one for name, (one, _) in named.items()}
            levels = max(levels, *(2 + below for _, below in named.values()))
    if levels < PART_LEVELS_MAX:
        return form, levels
    name = digest(SCHEMA, encode(form, "schema")).hex()[:_NAME_CHARS]
    definitions[name] = form
    return {"$ref": name}, 1
