"""Whether a binding can ever fit its parameter, decided on schemas before anything runs.

Only a clear mismatch counts: no value but null that the source can have would be accepted. A
source that fits sometimes is checked when it has a value.
"""

from __future__ import annotations

from typing import Final, cast

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.conformance import NULL, Schema, conforms
from mayura.runtime.core.definition import JsonValue, Path
from mayura.runtime.core.values import at

DEPTH_MAX = 8  #: recursive types are compared this far
_NUMBERS: Final = frozenset({"integer", "number"})


def mismatch(source: JsonValue, target: JsonValue) -> str | None:
    """Why no value of `source` fits `target`, or None where one might."""
    return _Comparison(cast(Schema, source), cast(Schema, target)).between(
        cast(Schema, source), cast(Schema, target), ()
    )


def null_for(source: JsonValue, target: JsonValue) -> Path | None:
    """The first place where `source` says that it may be null, and `target` takes none."""
    return _Comparison(cast(Schema, source), cast(Schema, target)).null_between(
        cast(Schema, source), cast(Schema, target)
    )


class _Comparison:
    def __init__(self, source: Schema, target: Schema) -> None:
        self._sources = cast("dict[str, Schema]", source.get("$defs", {}))
        self._targets = cast("dict[str, Schema]", target.get("$defs", {}))
        self._nulls: dict[tuple[int, int], Path | None] = {}

    def between(self, source: Schema, target: Schema, path: Path) -> str | None:
        if len(path) > DEPTH_MAX:
            return None
        sources = _alternatives(source, self._sources)
        targets = _alternatives(target, self._targets)
        sources = [one for one in sources if one != NULL] or sources
        reason: str | None = None
        for one in sources:
            for other in targets:
                reason = self._single(one, other, path)
                if reason is None:
                    return None
        if len(sources) * len(targets) == 1:
            return reason
        return f"{_place(path)} is {_said(sources)} where {_said(targets)} is expected"

    def null_between(self, source: Schema, target: Schema) -> Path | None:
        """As `null_for`. Where a value has several alternatives, one that takes it is enough."""
        targets = _alternatives(target, self._targets)
        if any(not one or "allOf" in one for one in targets):
            return None
        for one in _alternatives(source, self._sources):
            if one == NULL or None in cast("list[JsonValue]", one.get("enum", [])):
                if not any(_fits(other, None, self._targets) for other in targets):
                    return ()
                continue
            alike = [
                other for other in targets if "type" in one and one["type"] == other.get("type")
            ]
            found = [self._null_inside(one, other) for other in alike]
            if found and None not in found:
                return found[0]
        return None

    def _null_inside(self, source: Schema, target: Schema) -> Path | None:
        """Looked up once for two types, however often a type holds itself."""
        asked = id(source), id(target)
        if asked not in self._nulls:
            self._nulls[asked] = None
            for name, one, other in _members(source, target):
                found = self.null_between(one, other)
                if found is not None:
                    self._nulls[asked] = (name, *found)
                    break
        return self._nulls[asked]

    def _single(self, source: Schema, target: Schema, path: Path) -> str | None:
        if "allOf" in source or "allOf" in target or not source or not target:
            return None
        if "enum" in source:
            return self._of_constants(source, target, path)
        if "enum" in target:
            options = cast("list[JsonValue]", target["enum"])
            fits = any(_fits(source, option, self._sources) for option in options)
            return None if fits else self._differ(source, target, path)
        kinds = {str(source["type"]), str(target["type"])}
        if len(kinds) > 1 and kinds != _NUMBERS:
            return self._differ(source, target, path)
        if target["type"] == "object":
            return self._of_objects(source, target, path)
        if target["type"] == "array":
            return self._of_arrays(source, target, path)
        return None

    def _of_constants(self, source: Schema, target: Schema, path: Path) -> str | None:
        options = cast("list[JsonValue]", source["enum"])
        if not options or any(_fits(target, option, self._targets) for option in options):
            return None
        return self._differ(source, target, path)

    def _of_objects(self, source: Schema, target: Schema, path: Path) -> str | None:
        has = cast("dict[str, Schema]", source.get("properties", {}))
        rest = cast(Schema, source.get("additionalProperties", {}))
        takes = cast("dict[str, Schema]", target.get("properties", {}))
        open_ended = not has or ("additionalProperties" in source and rest != {"enum": []})
        for name in cast("list[str]", target.get("required", [])):
            if name not in has and not open_ended:
                return f"{_place((*path, name))} is required and missing"
        for name in cast("list[str]", target.get("required", [])):
            if name in has:
                reason = self.between(has[name], takes.get(name, {}), (*path, name))
                if reason is not None:
                    return reason
        return None

    def _of_arrays(self, source: Schema, target: Schema, path: Path) -> str | None:
        if "prefixItems" in source or "prefixItems" in target:
            return None
        items = cast(Schema, source.get("items", {}))
        return self.between(items, cast(Schema, target.get("items", {})), (*path, 0))

    def _differ(self, source: Schema, target: Schema, path: Path) -> str:
        return f"{_place(path)} is {_said([source])} where {_said([target])} is expected"


def _members(source: Schema, target: Schema) -> list[tuple[str | int, Schema, Schema]]:
    """The parts that two arrays, or two objects, both declare."""
    pairs: list[tuple[str | int, JsonValue, JsonValue]] = [
        (0, source.get("items"), target.get("items")),
        ("*", source.get("additionalProperties"), target.get("additionalProperties")),
    ]
    has = cast("dict[str, JsonValue]", source.get("properties", {}))
    takes = cast("dict[str, JsonValue]", target.get("properties", {}))
    pairs.extend((name, has[name], takes[name]) for name in has if name in takes)
    return [(n, a, b) for n, a, b in pairs if isinstance(a, dict) and isinstance(b, dict)]


def _alternatives(schema: Schema, definitions: dict[str, Schema]) -> list[Schema]:
    while "$ref" in schema:
        schema = definitions[str(schema["$ref"])]
    if "anyOf" not in schema:
        return [schema]
    parts = cast("list[Schema]", schema["anyOf"])
    return [one for part in parts for one in _alternatives(part, definitions)]


def _fits(schema: Schema, value: JsonValue, definitions: dict[str, Schema]) -> bool:
    try:
        conforms({**schema, "$defs": cast(JsonValue, definitions)}, value)
    except Invalid:
        return False
    return True


def _place(path: Path) -> str:
    return at("the value", path)


def _said(schemas: list[Schema]) -> str:
    names = ["one of a few constants" if "enum" in s else str(s.get("type")) for s in schemas]
    names.sort(key=lambda name: name == "null")
    return " or ".join(dict.fromkeys(names))
