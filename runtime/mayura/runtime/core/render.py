"""A definition drawn: as Mermaid for a page, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from mayura.runtime.core.definition import (
    Binding,
    Constant,
    Definition,
    FromInput,
    FromStep,
    HumanNode,
    JoinNode,
    Node,
    SignalNode,
    TimerNode,
    ToolNode,
)
from mayura.runtime.core.graph import bindings_of
from mayura.runtime.core.values import at, encode
from mayura.runtime.ids import NodeId

CONSTANT_CHARS_MAX = 40
_SHAPES = {
    ToolNode: ("[", "]"),
    JoinNode: ("[[", "]]"),
    HumanNode: ("{{", "}}"),
    TimerNode: ("([", "])"),
    SignalNode: (">", "]"),
}


def as_mermaid(definition: Definition) -> str:
    """A Mermaid flowchart. A fan-out is one box; a dotted arrow leads to what depends on `when`."""
    slots = _slots(definition)
    boxes = [node for node in definition.nodes if node.id not in slots]
    names = {node.id: f"n{number}" for number, node in enumerate(boxes, 1)}
    lines = ["flowchart TD", "  input([input])"]
    for node in boxes:
        left, right = _SHAPES[type(node)]
        label = "<br/>".join(_escaped(line) for line in (node.id, *_titles(definition, node)))
        lines.append(f'  {names[node.id]}{left}"{label}"{right}')
    for node in boxes:
        condition = node.when.node if isinstance(node.when, FromStep) else None
        needed = _needed(definition, node, slots)
        for name in needed:
            arrow = "-. when .->" if name == condition else "-->"
            lines.append(f"  {names[name]} {arrow} {names[node.id]}")
        if not needed:
            lines.append(f"  input --> {names[node.id]}")
    if isinstance(definition.result, FromStep):
        source = slots.get(definition.result.node, definition.result.node)
        lines.append(f"  {names[source]} --> result([result])")
    return "\n".join(lines) + "\n"


def as_text(definition: Definition) -> str:
    """Node by node, in order: what it is, what it takes, what it waits for."""
    slots = _slots(definition)
    lines = [f"{definition.id} {definition.version}"]
    for node in definition.nodes:
        if node.id in slots:
            continue
        lines.append(f"  {node.id}: {', '.join(_titles(definition, node))}")
        lines.extend(f"    {line}" for line in _details(definition, node, slots))
    lines.append(f"  result = {_said(definition.result)}")
    return "\n".join(lines) + "\n"


def _slots(definition: Definition) -> dict[NodeId, NodeId]:
    """The slots of fan-outs, each with the join that stands for it."""
    return {
        slot: join.id
        for join in definition.nodes
        if isinstance(join, JoinNode)
        for slot in join.slots
        if _is_slot(definition, slot)
    }


def _is_slot(definition: Definition, node: NodeId) -> bool:
    found = definition.index[node]
    return isinstance(found, ToolNode) and found.fan_out is not None


def _first_slot(definition: Definition, join: JoinNode) -> ToolNode | None:
    first = definition.index[join.slots[0]]
    return first if isinstance(first, ToolNode) and first.fan_out is not None else None


def _needed(definition: Definition, node: Node, slots: dict[NodeId, NodeId]) -> list[NodeId]:
    """The boxes a box waits for: those of its slots, and never itself."""
    needed = list(node.depends_on)
    if isinstance(node, JoinNode) and (first := _first_slot(definition, node)) is not None:
        needed = [*first.depends_on, *needed]
    boxes = dict.fromkeys(slots.get(name, name) for name in needed)
    return [name for name in boxes if name != node.id]


def _titles(definition: Definition, node: Node) -> Iterator[str]:
    match node:
        case ToolNode():
            yield _tool(node)
            if node.approval:
                yield "with approval"
        case JoinNode():
            slot = _first_slot(definition, node)
            if slot is None or slot.fan_out is None:
                yield "join"
                return
            yield f"at most {slot.fan_out.max} times {_tool(slot)}"
            if slot.approval:
                yield "with approval"
        case HumanNode():
            yield f"asks a person ({node.kind.replace('_', ' ')})"
        case TimerNode():
            yield "timer"
        case SignalNode():
            yield "signal" if node.name == node.id else f"signal {node.name}"
        case _:
            assert_never(node)


def _tool(node: ToolNode) -> str:
    return f"{node.tool.id} {node.tool.version} ({node.tool.effects})"


def _details(definition: Definition, node: Node, slots: dict[NodeId, NodeId]) -> Iterator[str]:
    if isinstance(node, HumanNode):
        yield f"prompt: {_on_one_line(node.prompt)}"
    if isinstance(node, ToolNode) and node.tool.once:
        yield "once per " + ", ".join(at(str(path[0]), path[1:]) for path in node.tool.once)
    shown: set[NodeId] = set()
    if isinstance(node, JoinNode):
        slot = _first_slot(definition, node)
        if slot is not None and slot.fan_out is not None:
            shown.update(_sources(slot.fan_out.items))
            surplus = ", more are ignored" if slot.fan_out.surplus == "ignore" else ""
            yield f"each of {_said(slot.fan_out.items)}{surplus}"
        else:
            shown.update(node.slots)
            yield "collects " + ", ".join(node.slots)
    for name, binding in bindings_of(node):
        shown.update(_sources(binding))
        yield f"when {_said(binding)}" if name == "when" else f"{name} = {_said(binding)}"
    if others := [name for name in _needed(definition, node, slots) if name not in shown]:
        yield "after " + ", ".join(others)


def _sources(binding: Binding) -> tuple[NodeId, ...]:
    return (binding.node,) if isinstance(binding, FromStep) else ()


def _on_one_line(text: str) -> str:
    """The text as a terminal may show it: no line breaks, no control characters."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def _said(binding: Binding) -> str:
    match binding:
        case Constant():
            text = encode(binding.value).decode()
            return text if len(text) <= CONSTANT_CHARS_MAX else f"{text[:CONSTANT_CHARS_MAX]}..."
        case FromInput():
            return at("input", binding.path)
        case FromStep():
            return at(f"{binding.node}.output", binding.path)


def _escaped(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;")
