"""Reads bindings against what a run has got so far; joins and timers are computed, never stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from mayura.runtime.core.binding import resolve
from mayura.runtime.core.definition import (
    Binding,
    Definition,
    FromInput,
    FromStep,
    HumanNode,
    JoinNode,
    JsonValue,
    Node,
    SignalNode,
    ToolNode,
)
from mayura.runtime.core.graph import bindings_of
from mayura.runtime.core.state import Run, StepStatus, Timer
from mayura.runtime.ids import NodeId, PayloadName

INPUT: Final = PayloadName("input")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def payload_of(node: Node) -> PayloadName | None:
    """The payload row that holds this node's output; None where it is computed."""
    match node:
        case ToolNode(id=name):
            return PayloadName(f"output:{name}")
        case HumanNode(id=name):
            return PayloadName(f"answer:{name}")
        case SignalNode(id=name):
            return PayloadName(f"signal:{name}")
        case _:
            return None


def read_by(node: Node) -> Iterator[Binding]:
    """Every binding that deciding about this node may read."""
    return (binding for _, binding in bindings_of(node))


def sources(definition: Definition, run: Run, bindings: Iterable[Binding]) -> Iterator[PayloadName]:
    """The payload rows that resolving `bindings` will read."""
    for binding in bindings:
        if isinstance(binding, FromInput):
            yield INPUT
        elif isinstance(binding, FromStep):
            yield from _stored(definition, run, binding.node)


def _stored(definition: Definition, run: Run, name: NodeId) -> Iterator[PayloadName]:
    node = definition.index[name]
    if isinstance(node, JoinNode):
        for slot in node.slots:
            yield from _stored(definition, run, slot)
        return
    payload = payload_of(node)
    if payload is not None and run.step(name).status is StepStatus.SUCCEEDED:
        yield payload


class Reading:
    """What a run's bindings stand for now. Missing payloads raise KeyError: load them first."""

    def __init__(
        self, definition: Definition, run: Run, payloads: Mapping[PayloadName, JsonValue]
    ) -> None:
        self._definition = definition
        self._run = run
        self._payloads = payloads

    def resolve(self, binding: Binding) -> JsonValue:
        """The bound value; raises `Unresolved` where the path does not exist."""
        run_input = self._payloads[INPUT] if isinstance(binding, FromInput) else None
        return resolve(binding, run_input, self.output)

    def output(self, name: NodeId) -> JsonValue:
        """What the dependents of this step see; a bypassed step reads as null."""
        step = self._run.step(name)
        node = self._definition.index[name]
        if step.status is StepStatus.BYPASSED:
            return None
        if isinstance(node, JoinNode):
            return [self.output(slot) for slot in node.slots]
        if isinstance(step.detail, Timer):
            fired_at_us = step.detail.fired_at_us
            return {
                "fire_at": iso(step.detail.fire_at_us),
                "fired_at": None if fired_at_us is None else iso(fired_at_us),
            }
        payload = payload_of(node)
        assert payload is not None
        return self._payloads[payload]


def iso(at_us: int) -> str:
    """Microseconds since 1970 as ISO 8601 in UTC."""
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat()
