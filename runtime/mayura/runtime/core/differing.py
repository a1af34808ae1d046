"""Where two definitions differ first, in the words in which a workflow is written."""

from __future__ import annotations

from typing import Final, cast

from mayura.runtime.core.definition import Definition, JsonValue
from mayura.runtime.core.values import encode
from mayura.runtime.core.written import Written, to_manifest

_NAMES: Final = {
    "fire_at": "at",
    "asks": "kind",
    "fan_out": "items, max or surplus",
    "input": "input type",
    "output": "output type",
    "timeout_ms": "timeout",
    "key_lifetime_ms": "key_lifetime",
    "absent_after_ms": "absent_after",
}
"""What is written otherwise than it is stored."""


def first_difference(one: Definition, other: Definition) -> str:
    """The node and its field, or the part of the workflow, that is not the same in both.

    Empty where nothing differs that is stored.
    """
    first, second = to_manifest(one), to_manifest(other)
    nodes, others = _by_id(first), _by_id(second)
    for name in (*nodes, *others):
        if name not in nodes or name not in others:
            return f"node {name!r}"
        if field := _field(nodes[name], others[name]):
            return f"node {name!r} {field}"
        tool = str(nodes[name].get("tool"))
        if field := _field(_tool(first, tool), _tool(second, tool)):
            return f"node {name!r} tool {tool!r} {field}"
    return _field(first, second)


def _tool(manifest: Written, tool_id: str) -> Written:
    return cast(Written, cast(Written, manifest["tools"]).get(tool_id, {}))


def _by_id(manifest: Written) -> dict[str, Written]:
    nodes = cast("list[Written]", manifest["nodes"])
    return {str(node["id"]): node for node in nodes}


def _field(one: Written, other: Written) -> str:
    for name in (*one, *other):
        if not _same(one.get(name), other.get(name)):
            if name == "inputs":
                return _field(cast(Written, one[name]), cast(Written, other[name]))
            return _NAMES.get(name, name)
    return ""


def _same(one: JsonValue, other: JsonValue) -> bool:
    return encode(one) == encode(other)  # to Python, 1 and True are equal
