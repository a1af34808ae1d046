"""A definition as the JSON that is stored, and the digest that pins it (G12).

The digest covers the manifest, and the manifest everything that changes what a run would do.
Cosmetic, because it is not in the manifest: docstrings; titles, descriptions and examples of
types; names of classes, functions and variables; a tool's `concurrency`; the order in which nodes
that do not depend on each other, parameters, fields, capabilities, guards and alternatives of a
type are written; a parameter's default that the workflow binds over. Everything else is real:
ids, versions, effects, capabilities, costs, timeouts, `once`, key lifetimes, guards by name and
version, having a lookup, prompts, schemas with their constraints and defaults, bindings,
conditions, approvals, deadlines, limits of a fan-out, dependencies.
"""

from __future__ import annotations

from mayura.runtime.core.definition import (
    Binding,
    Constant,
    Definition,
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
from mayura.runtime.core.digest import DEFINITION, digest
from mayura.runtime.core.values import encode

FORMAT = 1

Written = dict[str, JsonValue]


def to_manifest(definition: Definition) -> Written:
    """Everything needed to rebuild `definition`, as JSON. Each tool is written once."""
    tools = {n.tool.id: n.tool for n in definition.nodes if isinstance(n, ToolNode)}
    return {
        "format": FORMAT,
        "id": definition.id,
        "version": definition.version,
        "input": definition.input_schema,
        "output": definition.output_schema,
        "tools": {tool_id: _tool(spec) for tool_id, spec in tools.items()},
        "nodes": [_node(node) for node in definition.nodes],
        "result": _binding(definition.result),
    }


def definition_digest(definition: Definition) -> bytes:
    """The digest of a definition's manifest; its own `digest` field is not looked at."""
    return digest(DEFINITION, encode(to_manifest(definition), "manifest"))


def _tool(spec: ToolSpec) -> Written:
    return {
        "version": spec.version,
        "effects": spec.effects,
        "capabilities": list(spec.capabilities),
        "cost_micros": spec.cost_micros,
        "timeout_ms": spec.timeout_ms,
        "input": spec.input_schema,
        "output": spec.output_schema,
        "once": [_path(path) for path in spec.once],
        "key_lifetime_ms": spec.key_lifetime_ms,
        "absent_after_ms": spec.absent_after_ms,
        "lookup": spec.lookup,
        "input_guards": [_guard(guard) for guard in spec.input_guards],
        "output_guards": [_guard(guard) for guard in spec.output_guards],
    }


def _guard(guard: GuardSpec) -> JsonValue:
    return {"name": guard.name, "version": guard.version}


def _node(node: Node) -> Written:
    written: Written = {
        "id": node.id,
        "depends_on": list(node.depends_on),
        "when": None if node.when is None else _binding(node.when),
    }
    match node:
        case ToolNode():
            written |= _tool_node(node)
        case JoinNode():
            written |= {"kind": "join", "slots": list(node.slots)}
        case HumanNode():
            written |= {
                "kind": "human",
                "asks": node.kind,
                "schema_id": node.schema_id,
                "schema": node.schema,
                "prompt": node.prompt,
                "context": _optional(node.context),
                "subject_digest": _optional(node.subject_digest),
                "deadline": _optional(node.deadline),
            }
        case TimerNode():
            written |= {"kind": "timer", "fire_at": _binding(node.fire_at)}
        case SignalNode():
            written |= {
                "kind": "signal",
                "name": node.name,
                "schema": node.schema,
                "deadline": _optional(node.deadline),
            }
    return written


def _tool_node(node: ToolNode) -> Written:
    fan_out: Written | None = None
    if node.fan_out is not None:
        fan_out = {
            "items": _binding(node.fan_out.items),
            "max": node.fan_out.max,
            "surplus": node.fan_out.surplus,
        }
    return {
        "kind": "tool",
        "tool": node.tool.id,
        "inputs": {name: _binding(binding) for name, binding in node.inputs},
        "approval": node.approval,
        "fan_out": fan_out,
    }


def _optional(binding: Binding | None) -> JsonValue:
    return None if binding is None else _binding(binding)


def _binding(binding: Binding) -> JsonValue:
    match binding:
        case Constant():
            return {"constant": binding.value}
        case FromInput():
            return {"input": _path(binding.path)}
        case FromStep():
            return {"step": binding.node, "path": _path(binding.path)}


def _path(path: Path) -> JsonValue:
    return list(path)
