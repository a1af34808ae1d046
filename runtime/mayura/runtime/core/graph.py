"""From nodes to a definition: every rule a graph keeps, checked in one place.

Used for what is traced and for what is read back from a store alike.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from mayura.runtime.core.definition import (
    Binding,
    Constant,
    Definition,
    FromStep,
    HumanNode,
    JoinNode,
    JsonValue,
    Node,
    SignalNode,
    TimerNode,
    ToolNode,
    ToolSpec,
)
from mayura.runtime.core.mistake import DefinitionError, did_you_mean, limit
from mayura.runtime.core.symbols import PATH_SEGMENTS_MAX
from mayura.runtime.core.tool_options import TOOL_ID, is_id, refuse_version
from mayura.runtime.core.values import VALUE_BYTES_MAX, encode
from mayura.runtime.core.written import definition_digest
from mayura.runtime.errors import MayuraError
from mayura.runtime.ids import NodeId

NODES_MAX = 128
HUMANS_MAX = 32
TIMERS_MAX = 64
SIGNALS_MAX = 64
FAN_OUT_MAX = 64
PROMPT_BYTES_MAX = 1024

NODE_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,127}")
SHA256_HEX: Final = re.compile(r"[0-9a-f]{64}")
_NUMBER: Final = re.compile(r"(\d+)")


def assemble(
    workflow_id: str,
    version: str,
    input_schema: JsonValue,
    output_schema: JsonValue,
    nodes: Sequence[Node],
    result: Binding,
) -> Definition:
    """The definition of these nodes, in its one order, with its digest.

    Raises DefinitionError, naming workflow, node and field, for a graph that breaks a rule.
    """
    where = f"workflow {workflow_id!r}"
    if not is_id(workflow_id):
        raise DefinitionError(
            where, "an id is a letter, then at most 127 letters, digits or any of . _ / -"
        )
    refuse_version(where, version)
    _refuse_counts(where, nodes)
    index = _indexed(where, nodes)
    for node in nodes:
        _refuse_node(f"{where} node {node.id!r}", node, index)
    _refuse_two_tools(where, nodes)
    _refuse_binding(f"{where} result", result, set(index))
    ordered = _ordered(where, index)
    definition = Definition(
        id=workflow_id,
        version=version,
        input_schema=input_schema,
        output_schema=output_schema,
        nodes=ordered,
        result=result,
        digest=b"",
        index=MappingProxyType({node.id: node for node in ordered}),
        dependents=MappingProxyType(_dependents(ordered)),
    )
    try:
        return replace(definition, digest=definition_digest(definition))
    except MayuraError as error:
        raise DefinitionError(where, f"cannot be stored: {error}") from None


def bindings_of(node: Node) -> Iterator[tuple[str, Binding]]:
    """Every binding of a node with the name of its field."""
    if node.when is not None:
        yield "when", node.when
    match node:
        case ToolNode():
            yield from node.inputs
            if node.fan_out is not None:
                yield "items", node.fan_out.items
        case HumanNode():
            for name, binding in (
                ("context", node.context),
                ("subject_digest", node.subject_digest),
                ("deadline", node.deadline),
            ):
                if binding is not None:
                    yield name, binding
        case TimerNode():
            yield "fire_at", node.fire_at
        case SignalNode():
            if node.deadline is not None:
                yield "deadline", node.deadline
        case JoinNode():
            pass


def natural(node: NodeId) -> tuple[tuple[int, int, str], ...]:
    """A sorting key: `r.2` before `r.10`."""
    return tuple(
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in _NUMBER.split(node)
        if part
    )


def _refuse_counts(where: str, nodes: Sequence[Node]) -> None:
    if not nodes:
        raise DefinitionError(where, "has no nodes: add at least one step")
    counts = Counter(type(node) for node in nodes)
    for count, maximum, name in (
        (len(nodes), NODES_MAX, "the number of nodes"),
        (counts[HumanNode], HUMANS_MAX, "the number of human nodes"),
        (counts[TimerNode], TIMERS_MAX, "the number of timers"),
        (counts[SignalNode], SIGNALS_MAX, "the number of signals"),
    ):
        if count > maximum:
            raise limit(where, name, maximum, f"it has {count}; split it into two workflows")


def _indexed(where: str, nodes: Sequence[Node]) -> dict[NodeId, Node]:
    index: dict[NodeId, Node] = {}
    names: set[str] = set()
    for node in nodes:
        if not NODE_ID.fullmatch(node.id):
            raise DefinitionError(
                f"{where} node {node.id!r}",
                "a node id is a letter, then at most 127 letters, digits or any of . _ -",
            )
        if node.id in index:
            raise DefinitionError(f"{where} node {node.id!r}", "two nodes have this id")
        index[node.id] = node
        if isinstance(node, SignalNode):
            if node.name in names:
                raise DefinitionError(
                    f"{where} node {node.id!r}", f"two signals are named {node.name!r}"
                )
            names.add(node.name)
    return index


def _refuse_node(where: str, node: Node, index: dict[NodeId, Node]) -> None:
    if len(set(node.depends_on)) < len(node.depends_on):
        raise DefinitionError(where, "depends on a node twice")
    for needed in node.depends_on:
        if needed == node.id:
            raise DefinitionError(where, "depends on itself")
        if needed not in index:
            raise DefinitionError(
                where, f"depends on {needed!r}, which is no node{did_you_mean(needed, index)}"
            )
    for field, binding in bindings_of(node):
        _refuse_binding(f"{where} {field}", binding, set(node.depends_on))
    if isinstance(node, ToolNode):
        _refuse_tool_node(where, node)
    elif isinstance(node, JoinNode):
        _refuse_join(where, node)
    elif isinstance(node, HumanNode):
        _refuse_human(where, node)
    elif isinstance(node, SignalNode) and not NODE_ID.fullmatch(node.name):
        raise DefinitionError(f"{where} name", "is written like a node id")


def _refuse_join(where: str, node: JoinNode) -> None:
    if not node.slots or len(set(node.slots)) < len(node.slots):
        raise DefinitionError(where, "joins one or more different steps")
    if not set(node.slots) <= set(node.depends_on):
        raise DefinitionError(where, "joins a step it does not depend on")


def _refuse_tool_node(where: str, node: ToolNode) -> None:
    names = [name for name, _ in node.inputs]
    if names != sorted(set(names)):
        raise DefinitionError(where, "its inputs are not one binding a parameter, sorted by name")
    if node.fan_out is not None and not 1 <= node.fan_out.max <= FAN_OUT_MAX:
        raise limit(f"{where} max", "a fan-out", f"{FAN_OUT_MAX}, and at least 1")


def _refuse_human(where: str, node: HumanNode) -> None:
    if not TOOL_ID.fullmatch(node.schema_id):
        raise DefinitionError(f"{where} schema_id", "is written like a tool's id")
    if not node.prompt.strip():
        raise DefinitionError(f"{where} prompt", "is empty: say what the person should answer")
    if len(node.prompt.encode("utf-8", "replace")) > PROMPT_BYTES_MAX:
        raise limit(f"{where} prompt", "a prompt's length", f"{PROMPT_BYTES_MAX} bytes")
    if (node.kind == "correction") != (node.subject_digest is not None):
        raise DefinitionError(
            f"{where} subject_digest",
            "names what is corrected: needed for kind='correction' and for no other kind",
        )


def _refuse_binding(where: str, binding: Binding, reachable: set[NodeId]) -> None:
    if isinstance(binding, Constant):
        try:
            size = len(encode(binding.value, where))
        except MayuraError as error:
            raise DefinitionError(where, str(error)) from None
        if size > VALUE_BYTES_MAX:
            raise limit(where, "a value", f"{VALUE_BYTES_MAX} bytes", f"this one has {size}")
        return
    if len(binding.path) > PATH_SEGMENTS_MAX:
        raise limit(where, "the depth of a binding", PATH_SEGMENTS_MAX)
    if isinstance(binding, FromStep) and binding.node not in reachable:
        raise DefinitionError(where, f"takes {binding.node!r}, which is no dependency")


def _refuse_two_tools(where: str, nodes: Sequence[Node]) -> None:
    specs: dict[str, ToolSpec] = {}
    for node in nodes:
        if isinstance(node, ToolNode) and specs.setdefault(node.tool.id, node.tool) != node.tool:
            raise DefinitionError(
                f"{where} node {node.id!r}", f"two different tools are called {node.tool.id!r}"
            )


def _ordered(where: str, index: dict[NodeId, Node]) -> tuple[Node, ...]:
    """Dependencies first, and otherwise by id, however the workflow was written."""
    open_dependencies = {node.id: len(node.depends_on) for node in index.values()}
    dependents = _dependents(tuple(index.values()))
    ready = [(natural(name), name) for name, count in open_dependencies.items() if count == 0]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        _, name = heapq.heappop(ready)
        ordered.append(index[name])
        for dependent in dependents[name]:
            open_dependencies[dependent] -= 1
            if open_dependencies[dependent] == 0:
                heapq.heappush(ready, (natural(dependent), dependent))
    if len(ordered) < len(index):
        stuck = ", ".join(sorted(set(index) - {node.id for node in ordered}))
        raise DefinitionError(where, f"these nodes depend on each other in a circle: {stuck}")
    return tuple(ordered)


def _dependents(nodes: tuple[Node, ...]) -> dict[NodeId, tuple[NodeId, ...]]:
    found: dict[NodeId, list[NodeId]] = {node.id: [] for node in nodes}
    for node in nodes:
        for needed in node.depends_on:
            found[needed].append(node.id)
    return {name: tuple(names) for name, names in found.items()}
