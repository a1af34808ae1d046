"""From bindings to values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from mayura.runtime.core.definition import (
    Binding,
    Constant,
    Definition,
    FromInput,
    FromStep,
    JoinNode,
    JsonValue,
    Node,
)
from mayura.runtime.core.graph import bindings_of
from mayura.runtime.core.values import at
from mayura.runtime.ids import NodeId

Outputs: TypeAlias = Mapping[NodeId, JsonValue] | Callable[[NodeId], JsonValue]

INPUT_PAYLOAD = "input"
OUTPUT_PAYLOAD_PREFIX = "output:"


class Unresolved(Exception):
    """The value has no such part. The text names the place, never the value."""


def resolve(binding: Binding, input_value: JsonValue, outputs: Outputs) -> JsonValue:
    """The value `binding` stands for. Raises Unresolved where its path ends early.

    `outputs` gives a step's output, null for a bypassed one; a mapping may leave those out.
    `outputs_of` makes it out of stored outputs, with joins in place.
    """
    if isinstance(binding, Constant):
        return binding.value
    if isinstance(binding, FromInput):
        value = input_value
    elif isinstance(outputs, Mapping):
        value = outputs.get(binding.node)
    else:
        value = outputs(binding.node)
    for key in binding.path:
        if isinstance(key, str) and isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(key, int) and isinstance(value, list) and 0 <= key < len(value):
            value = value[key]
        else:
            raise Unresolved(f"{place_of(binding)} does not exist")
    return value


def wanted(when: Binding | None, input_value: JsonValue, outputs: Outputs) -> bool:
    """Whether a step with this `when` runs: not where it is null, false or missing."""
    if when is None:
        return True
    try:
        value = resolve(when, input_value, outputs)
    except Unresolved:
        return False
    return value is not None and value is not False


def outputs_of(
    definition: Definition,
    stored: Mapping[NodeId, JsonValue],
    bypassed: Collection[NodeId] = (),
) -> Callable[[NodeId], JsonValue]:
    """Outputs by node, read from the stored ones: a join is the list of what it joins.

    `bypassed` names at least the joins that were; every bypassed step reads as null.
    """

    def output(node: NodeId) -> JsonValue:
        found = definition.index.get(node)
        if isinstance(found, JoinNode) and node not in bypassed:
            return [output(slot) for slot in found.slots]
        return stored.get(node)

    return output


def needs(definition: Definition, node: Node) -> frozenset[str]:
    """The names of the payloads that the node's bindings read: `input`, `output:<node>`."""
    return needs_of(definition, *(binding for _, binding in bindings_of(node)))


def needs_of(definition: Definition, *bindings: Binding) -> frozenset[str]:
    """The names of the payloads that these bindings read; those of a join are its steps'."""
    names: set[str] = set()
    for binding in bindings:
        if isinstance(binding, FromInput):
            names.add(INPUT_PAYLOAD)
        elif isinstance(binding, FromStep):
            names.update(_stored_outputs(definition, binding.node))
    return frozenset(names)


def _stored_outputs(definition: Definition, node: NodeId) -> list[str]:
    found = definition.index.get(node)
    if isinstance(found, JoinNode):
        return [name for slot in found.slots for name in _stored_outputs(definition, slot)]
    return [f"{OUTPUT_PAYLOAD_PREFIX}{node}"]


def place_of(binding: FromInput | FromStep) -> str:
    """How a message names what a binding takes."""
    root = "input" if isinstance(binding, FromInput) else f"{binding.node}.output"
    return at(root, binding.path)
