"""What is stored of a workflow: nodes and bindings as data, enough to rebuild the graph (G12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from mayura.runtime.ids import NodeId

JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"
Effects: TypeAlias = Literal["none", "read", "write", "host"]
HumanKind: TypeAlias = Literal["information", "correction", "plan_selection"]
Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A value fixed in the definition."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class FromInput:
    """A part of the run's input."""

    path: Path = ()


@dataclass(frozen=True, slots=True)
class FromStep:
    """A part of a dependency's output; a bypassed step reads as null."""

    node: NodeId
    path: Path = ()


Binding: TypeAlias = Constant | FromInput | FromStep


@dataclass(frozen=True, slots=True)
class GuardSpec:
    """A guard's name and version, both part of the digest."""

    name: str
    version: str


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the manifest pins it. Schemas are in our own normal form."""

    id: str
    version: str
    effects: Effects
    capabilities: tuple[str, ...]
    cost_micros: int
    timeout_ms: int
    input_schema: JsonValue
    output_schema: JsonValue
    once: tuple[Path, ...] = ()  #: paths into the input, first segment a parameter (G16)
    key_lifetime_ms: int | None = None
    absent_after_ms: int | None = None
    lookup: bool = False
    input_guards: tuple[GuardSpec, ...] = ()
    output_guards: tuple[GuardSpec, ...] = ()

    @cached_property
    def grants(self) -> tuple[str, ...]:
        """What a policy must allow for this tool: exact strings, default deny."""
        effect = () if self.effects == "none" else (f"effect:{self.effects}",)
        return (f"tool:{self.id}", *self.capabilities, *effect)

    @property
    def changes_nothing(self) -> bool:
        """`none` and `read` tools: a failure of theirs is an ordinary failure."""
        return self.effects in ("none", "read")


@dataclass(frozen=True, slots=True)
class FanOut:
    """The array whose items the slots take, and what happens when there are more than slots."""

    items: Binding
    max: int
    surplus: Literal["fail", "ignore"] = "fail"


@dataclass(frozen=True, slots=True)
class ToolNode:
    id: NodeId
    depends_on: tuple[NodeId, ...]
    tool: ToolSpec
    inputs: tuple[tuple[str, Binding], ...]  #: one binding a parameter
    approval: bool = False
    when: Binding | None = None
    fan_out: FanOut | None = None  #: set on the slots `<id>.1` .. `<id>.<max>`


@dataclass(frozen=True, slots=True)
class JoinNode:
    """Collects `slots` in order, null for a bypassed one. Its output is never stored twice."""

    id: NodeId
    depends_on: tuple[NodeId, ...]
    slots: tuple[NodeId, ...]
    when: Binding | None = None


@dataclass(frozen=True, slots=True)
class HumanNode:
    id: NodeId
    depends_on: tuple[NodeId, ...]
    kind: HumanKind
    schema_id: str
    schema: JsonValue
    prompt: str
    context: Binding | None = None
    subject_digest: Binding | None = None
    deadline: Binding | None = None  #: an absolute time (ISO 8601 text as a model dumps it)
    when: Binding | None = None


@dataclass(frozen=True, slots=True)
class TimerNode:
    id: NodeId
    depends_on: tuple[NodeId, ...]
    fire_at: Binding
    when: Binding | None = None


@dataclass(frozen=True, slots=True)
class SignalNode:
    id: NodeId
    depends_on: tuple[NodeId, ...]
    name: str
    schema: JsonValue
    deadline: Binding | None = None
    when: Binding | None = None


Node: TypeAlias = ToolNode | JoinNode | HumanNode | TimerNode | SignalNode


@dataclass(frozen=True, slots=True)
class Definition:
    """A frozen workflow graph. `digest` covers everything that changes what a run would do."""

    id: str
    version: str
    input_schema: JsonValue
    output_schema: JsonValue
    nodes: tuple[Node, ...]  #: every node after the nodes it depends on
    result: Binding
    digest: bytes
    index: Mapping[NodeId, Node] = field(repr=False, compare=False)
    dependents: Mapping[NodeId, tuple[NodeId, ...]] = field(repr=False, compare=False)
