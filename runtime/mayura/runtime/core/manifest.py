"""Reading a stored manifest back into the definition it was written from."""

from __future__ import annotations

from typing import Any, Final, Literal, cast

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.conformance import conforms
from mayura.runtime.core.definition import (
    Binding,
    Constant,
    Definition,
    FanOut,
    FromInput,
    FromStep,
    GuardSpec,
    HumanNode,
    JoinNode,
    JsonValue,
    Node,
    Path,
    SignalNode,
    TimerNode,
    ToolNode,
    ToolSpec,
)
from mayura.runtime.core.graph import assemble
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.written import FORMAT, definition_digest, to_manifest
from mayura.runtime.ids import NodeId

__all__ = ["FORMAT", "definition_digest", "from_manifest", "to_manifest"]

Stored = dict[str, Any]


def from_manifest(manifest: JsonValue) -> Definition:
    """The definition that `manifest` was written from, with every rule checked again.

    Raises DefinitionError for a manifest that no workflow could have written.
    """
    try:
        conforms(_SCHEMA, manifest, "manifest")
    except Invalid as invalid:
        raise DefinitionError("stored definition", str(invalid)) from None
    stored = cast(Stored, manifest)
    tools = {tool_id: _tool(tool_id, spec) for tool_id, spec in stored["tools"].items()}
    for node in stored["nodes"]:
        if node["kind"] == "tool" and node["tool"] not in tools:
            raise DefinitionError("stored definition", f"tool {node['tool']!r} is not described")
    return assemble(
        stored["id"],
        stored["version"],
        stored["input"],
        stored["output"],
        [_node(node, tools) for node in stored["nodes"]],
        _binding(stored["result"]),
    )


def _tool(tool_id: str, stored: Stored) -> ToolSpec:
    return ToolSpec(
        id=tool_id,
        version=stored["version"],
        effects=stored["effects"],
        capabilities=tuple(stored["capabilities"]),
        cost_micros=stored["cost_micros"],
        timeout_ms=stored["timeout_ms"],
        input_schema=stored["input"],
        output_schema=stored["output"],
        once=tuple(tuple(path) for path in stored["once"]),
        key_lifetime_ms=stored["key_lifetime_ms"],
        absent_after_ms=stored["absent_after_ms"],
        lookup=stored["lookup"],
        input_guards=tuple(GuardSpec(g["name"], g["version"]) for g in stored["input_guards"]),
        output_guards=tuple(GuardSpec(g["name"], g["version"]) for g in stored["output_guards"]),
    )


def _node(stored: Stored, tools: dict[str, ToolSpec]) -> Node:
    name = NodeId(stored["id"])
    depends_on = tuple(NodeId(needed) for needed in stored["depends_on"])
    when = _optional(stored["when"])
    match stored["kind"]:
        case "tool":
            return ToolNode(
                name,
                depends_on,
                tools[stored["tool"]],
                tuple((key, _binding(stored["inputs"][key])) for key in sorted(stored["inputs"])),
                stored["approval"],
                when,
                _fan_out(stored["fan_out"]),
            )
        case "join":
            return JoinNode(name, depends_on, tuple(NodeId(s) for s in stored["slots"]), when)
        case "human":
            return HumanNode(
                name,
                depends_on,
                stored["asks"],
                stored["schema_id"],
                stored["schema"],
                stored["prompt"],
                _optional(stored["context"]),
                _optional(stored["subject_digest"]),
                _optional(stored["deadline"]),
                when,
            )
        case "timer":
            return TimerNode(name, depends_on, _binding(stored["fire_at"]), when)
        case _:
            deadline = _optional(stored["deadline"])
            return SignalNode(name, depends_on, stored["name"], stored["schema"], deadline, when)


def _fan_out(stored: Stored | None) -> FanOut | None:
    if stored is None:
        return None
    surplus: Literal["fail", "ignore"] = stored["surplus"]
    return FanOut(_binding(stored["items"]), stored["max"], surplus)


def _optional(stored: Stored | None) -> Binding | None:
    return None if stored is None else _binding(stored)


def _binding(stored: Stored) -> Binding:
    if "constant" in stored:
        return Constant(stored["constant"])
    if "input" in stored:
        return FromInput(_path(stored["input"]))
    return FromStep(NodeId(stored["step"]), _path(stored["path"]))


def _path(stored: list[Any]) -> Path:
    return tuple(stored)


def _closed(**members: JsonValue) -> JsonValue:
    """An object with exactly these members."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": {"enum": []},
    }


def _list_of(items: JsonValue) -> JsonValue:
    return {"type": "array", "items": items}


def _null_or(other: JsonValue) -> JsonValue:
    return {"anyOf": [other, {"type": "null"}]}


_TEXT: Final[JsonValue] = {"type": "string"}
_FLAG: Final[JsonValue] = {"type": "boolean"}
_ANY: Final[JsonValue] = {}
_COUNT: Final[JsonValue] = {"type": "integer", "minimum": 0}
_DURATION: Final[JsonValue] = {"type": "integer", "minimum": 1}
_PLACE: Final[JsonValue] = _list_of({"anyOf": [_TEXT, _COUNT]})
_BINDING: Final[JsonValue] = {
    "anyOf": [_closed(constant=_ANY), _closed(input=_PLACE), _closed(step=_TEXT, path=_PLACE)]
}
_GUARDS: Final[JsonValue] = _list_of(_closed(name=_TEXT, version=_TEXT))
_TOOL: Final[JsonValue] = _closed(
    version=_TEXT,
    effects={"enum": ["host", "none", "read", "write"]},
    capabilities=_list_of(_TEXT),
    cost_micros=_COUNT,
    timeout_ms=_DURATION,
    input=_ANY,
    output=_ANY,
    once=_list_of(_PLACE),
    key_lifetime_ms=_null_or(_DURATION),
    absent_after_ms=_null_or(_DURATION),
    lookup=_FLAG,
    input_guards=_GUARDS,
    output_guards=_GUARDS,
)
_FAN_OUT: Final[JsonValue] = _closed(
    items=_BINDING, max=_COUNT, surplus={"enum": ["fail", "ignore"]}
)


def _node_schema(kind: str, **members: JsonValue) -> JsonValue:
    return _closed(
        kind={"enum": [kind]},
        id=_TEXT,
        depends_on=_list_of(_TEXT),
        when=_null_or(_BINDING),
        **members,
    )


_NODE: Final[JsonValue] = {
    "anyOf": [
        _node_schema(
            "tool",
            tool=_TEXT,
            inputs={"type": "object", "additionalProperties": _BINDING},
            approval=_FLAG,
            fan_out=_null_or(_FAN_OUT),
        ),
        _node_schema("join", slots=_list_of(_TEXT)),
        _node_schema(
            "human",
            asks={"enum": ["correction", "information", "plan_selection"]},
            schema_id=_TEXT,
            schema=_ANY,
            prompt=_TEXT,
            context=_null_or(_BINDING),
            subject_digest=_null_or(_BINDING),
            deadline=_null_or(_BINDING),
        ),
        _node_schema("timer", fire_at=_BINDING),
        _node_schema("signal", name=_TEXT, schema=_ANY, deadline=_null_or(_BINDING)),
    ]
}
_SCHEMA: Final[JsonValue] = _closed(
    format={"enum": [FORMAT]},
    id=_TEXT,
    version=_TEXT,
    input=_ANY,
    output=_ANY,
    tools={"type": "object", "additionalProperties": _TOOL},
    nodes=_list_of(_NODE),
    result=_BINDING,
)
