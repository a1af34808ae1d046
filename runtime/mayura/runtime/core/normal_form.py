"""The normal form of a schema: one spelling for one meaning, so that digests compare meanings.

- constants and enumerations are `enum`, sorted; `null` stands apart from them, in `anyOf`
- `anyOf` is flat, sorted and without repetitions; so are `oneOf` and a list of types
- definitions are written where they are used; those that contain themselves are named by what
  they say (`r1`, `r2`, ...), not by their class
- of every other keyword only those are kept that decide whether a value fits, and `default`
"""

from __future__ import annotations

from typing import Any, Final, cast

from mayura.runtime.core.conformance import ANYTHING, NOTHING, NULL, Schema
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.digest import SCHEMA, digest
from mayura.runtime.core.mistake import limit
from mayura.runtime.core.sets import sorted_sets
from mayura.runtime.core.values import VALUE_NODES_MAX, encode

_KEPT: Final = {
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": (
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "maxDigits",
        "decimalPlaces",
    ),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "array": ("minItems", "maxItems", "uniqueItems"),
    "object": ("minProperties", "maxProperties"),
    "boolean": (),
    "null": (),
}
_REF = "#/$defs/"


def normal_form(raw: JsonValue, where: str = "schema") -> Schema:
    """The one spelling of a JSON schema as pydantic writes it."""
    document = _object(raw)
    form = _Normal({name: _object(d) for name, d in _object(document.get("$defs")).items()}, where)
    root = form.of({key: member for key, member in document.items() if key != "$defs"})
    named = {name: form.of_definition(name) for name in sorted(form.recursive)}
    sorted_root = _with_sorted_defaults(root, named)
    return _with_stable_names(
        sorted_root, {name: _with_sorted_defaults(one, named) for name, one in named.items()}
    )


class _Normal:
    """One pass over a schema document; each definition is worked out once."""

    def __init__(self, definitions: dict[str, Schema], where: str) -> None:
        self._definitions = definitions
        self._where = where
        self._done: dict[str, Schema] = {}
        self._nodes = 0
        self.recursive = _recursive_names(definitions)

    def of_definition(self, name: str) -> Schema:
        if name not in self._done:
            self._done[name] = self.of(self._definitions[name])
        return self._done[name]

    def of(self, raw: JsonValue) -> Schema:
        self._nodes += 1
        if self._nodes > VALUE_NODES_MAX:
            raise limit(self._where, "the size of a schema", f"{VALUE_NODES_MAX:,} parts")
        if raw is False:
            return NOTHING
        node = _object(raw)
        form = self._without_default(node)
        if "default" in node:
            form = {**form, "default": node["default"]}
        return form

    def _without_default(self, node: Schema) -> Schema:
        if "$ref" in node:
            name = str(node["$ref"]).removeprefix(_REF)
            return {"$ref": name} if name in self.recursive else self.of_definition(name)
        if "allOf" in node:
            parts = [self.of(part) for part in _array(node["allOf"])]
            return parts[0] if len(parts) == 1 else {"allOf": _sorted_unique(parts)}
        for key in ("anyOf", "oneOf"):
            if key in node:
                return any_of([self.of(part) for part in _array(node[key])])
        if "const" in node:
            return any_of([{"enum": [node["const"]]}])
        if "enum" in node:
            return any_of([{"enum": node["enum"]}])
        if node.get("not") == {}:
            return NOTHING
        kinds = node.get("type")
        if isinstance(kinds, list):
            return any_of([self._of_kind(str(kind), node) for kind in kinds])
        return ANYTHING if kinds is None else self._of_kind(str(kinds), node)

    def _of_kind(self, kind: str, node: Schema) -> Schema:
        form: Schema = {"type": kind}
        for key in _KEPT.get(kind, ()):
            if key in node:
                form[key] = node[key]
        if kind == "array":
            self._add_items(form, node)
        if kind == "object":
            self._add_members(form, node)
        return form

    def _add_items(self, form: Schema, node: Schema) -> None:
        if "prefixItems" in node:
            form["prefixItems"] = [self.of(item) for item in _array(node["prefixItems"])]
        items = self.of(node.get("items", True))
        if items != ANYTHING:
            form["items"] = items

    def _add_members(self, form: Schema, node: Schema) -> None:
        properties = _object(node.get("properties"))
        if properties:
            form["properties"] = {name: self.of(properties[name]) for name in sorted(properties)}
        if node.get("required"):
            required: list[JsonValue] = [*sorted(str(name) for name in _array(node["required"]))]
            form["required"] = required
        rest = self.of(node.get("additionalProperties", True))
        if rest != ANYTHING or (properties and "additionalProperties" in node):
            form["additionalProperties"] = rest  # `{}` after fields: more of them are kept
        names = self.of(node.get("propertyNames", True))
        if names not in (ANYTHING, {"type": "string"}):
            form["propertyNames"] = names


def any_of(alternatives: list[Schema]) -> Schema:
    """The alternatives as one flat, sorted choice; constants of all of them in one `enum`."""
    flat: list[Schema] = []
    constants: list[JsonValue] = []
    for alternative in alternatives:
        if "anyOf" in alternative and "default" not in alternative:
            parts = [_object(part) for part in _array(alternative["anyOf"])]
        else:
            parts = [alternative]
        for part in parts:
            if "enum" not in part:
                flat.append(part)
                continue
            for constant in _array(part["enum"]):
                if constant is None:
                    flat.append(NULL)
                else:
                    constants.append(constant)
    if ANYTHING in flat:
        return ANYTHING
    if constants or not flat:
        flat.append({"enum": _sorted_unique(constants)})
    flat = cast("list[Schema]", _sorted_unique(flat))
    return flat[0] if len(flat) == 1 else {"anyOf": cast("list[JsonValue]", flat)}


def _sorted_unique(values: list[Any]) -> list[JsonValue]:
    by_bytes = {encode(value, "schema"): value for value in values}
    return [by_bytes[key] for key in sorted(by_bytes)]


def _with_sorted_defaults(schema: Schema, named: dict[str, Schema]) -> Schema:
    """`schema` with the items of each default that is or holds a set in their one order."""

    def walked(node: JsonValue) -> JsonValue:
        if isinstance(node, list):
            return [walked(member) for member in node]
        if not isinstance(node, dict):
            return node
        form = {
            key: member if key in ("default", "enum") else walked(member)
            for key, member in node.items()
        }
        if "default" in node:
            rules: Schema = {**form, "$defs": cast(JsonValue, named)}
            form["default"] = sorted_sets(rules, node["default"])
        return form

    return _object(walked(schema))


def _recursive_names(definitions: dict[str, Schema]) -> frozenset[str]:
    """The definitions that contain themselves, directly or through others."""
    uses = {name: _refs(definition) for name, definition in definitions.items()}
    recursive: set[str] = set()
    for name in definitions:
        seen: set[str] = set()
        ahead = list(uses[name])
        while ahead:
            used = ahead.pop()
            if used not in seen:
                seen.add(used)
                ahead.extend(uses.get(used, ()))
        if name in seen:
            recursive.add(name)
    return frozenset(recursive)


def _refs(node: JsonValue) -> set[str]:
    if isinstance(node, list):
        return {ref for member in node for ref in _refs(member)}
    if not isinstance(node, dict):
        return set()
    found = {ref for key, member in node.items() if key != "default" for ref in _refs(member)}
    if isinstance(node.get("$ref"), str):
        found.add(str(node["$ref"]).removeprefix(_REF))
    return found


def _with_stable_names(root: Schema, named: dict[str, Schema]) -> Schema:
    """Name recursive definitions by what they say, however their classes are called.

    Each round replaces every reference by the last round's digest of what it refers to; after as
    many rounds as there are definitions, equal digests mean equal definitions.
    """
    if not named:
        return root
    digests = dict.fromkeys(named, "")
    for _ in named:
        digests = {
            name: digest(SCHEMA, encode(_renamed(form, digests))).hex()
            for name, form in named.items()
        }
    order = {value: f"r{i}" for i, value in enumerate(sorted(set(digests.values())), 1)}
    names = {name: order[value] for name, value in digests.items()}
    definitions = {names[name]: _renamed(form, names) for name, form in named.items()}
    return {**_object(_renamed(root, names)), "$defs": dict(sorted(definitions.items()))}


def _renamed(node: JsonValue, names: dict[str, str]) -> JsonValue:
    """`node` with its references renamed; choices are sorted again."""
    if isinstance(node, list):
        return [_renamed(member, names) for member in node]
    if not isinstance(node, dict):
        return node
    renamed = {
        key: member if key in ("default", "enum") else _renamed(member, names)
        for key, member in node.items()
    }
    if isinstance(node.get("$ref"), str):
        renamed["$ref"] = names[str(node["$ref"])]
    if isinstance(renamed.get("anyOf"), list):
        renamed["anyOf"] = _sorted_unique(_array(renamed["anyOf"]))
    return renamed


def _object(node: JsonValue) -> Schema:
    return node if isinstance(node, dict) else {}


def _array(node: JsonValue) -> list[JsonValue]:
    return node if isinstance(node, list) else []
