"""Workflows written as data, for tests of the pure core: nodes, definitions and their code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.definition import (
    Binding,
    Constant,
    Definition,
    Effects,
    FanOut,
    FromInput,
    FromStep,
    HumanKind,
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
from mayura.runtime.core.policy import Policy
from mayura.runtime.ids import NodeId

ANY: Final[JsonValue] = {}  #: the schema that every value fits
WRONG: Final = "wrong"  #: the one value that no type here allows
BUDGET_MICROS: Final = 1_000_000
EFFECTS: Final[tuple[Effects, ...]] = ("none", "read", "write", "host")
CHANGING: Final[tuple[Effects, ...]] = ("write", "host")
UNCHANGING: Final[tuple[Effects, ...]] = ("none", "read")


def spec(
    effects: Effects = "write",
    *,
    cost_micros: int = 0,
    timeout_ms: int = 30_000,
    once: tuple[Path, ...] = (),
    version: str = "1",
    name: str = "",
) -> ToolSpec:
    """A tool; its id says what sets it apart, so that one workflow may use several."""
    return ToolSpec(
        id=name or f"shop.{effects}-{cost_micros}-{timeout_ms}-{len(once)}",
        version=version,
        effects=effects,
        capabilities=(),
        cost_micros=cost_micros,
        timeout_ms=timeout_ms,
        input_schema=ANY,
        output_schema=ANY,
        once=once,
    )


def tool(
    name: str,
    *after: str,
    effects: Effects = "write",
    cost_micros: int = 0,
    when: Binding | None = None,
    approval: bool = False,
    uses: ToolSpec | None = None,
    **inputs: Binding,
) -> ToolNode:
    """A tool step that depends on `after` and takes `inputs` by parameter."""
    return ToolNode(
        id=NodeId(name),
        depends_on=_ids(after),
        tool=uses or spec(effects, cost_micros=cost_micros),
        inputs=tuple(sorted(inputs.items())),
        approval=approval,
        when=when,
    )


def fan_out(
    name: str,
    items: FromInput | FromStep,
    slots_max: int,
    *after: str,
    surplus: str = "fail",
    when: Binding | None = None,
    uses: ToolSpec | None = None,
) -> tuple[Node, ...]:
    """The slots `<name>.1` .. `<name>.<max>` and the join `<name>`."""
    whole = FanOut(items, slots_max, "ignore" if surplus == "ignore" else "fail")
    slots: list[ToolNode] = []
    for number in range(slots_max):
        path = (*items.path, number)
        one = FromInput(path) if isinstance(items, FromInput) else FromStep(items.node, path)
        slots.append(
            ToolNode(
                id=NodeId(f"{name}.{number + 1}"),
                depends_on=_ids(after),
                tool=uses or spec("read"),
                inputs=(("item", one),),
                when=when,
                fan_out=whole,
            )
        )
    names = [slot.id for slot in slots]
    return (*slots, join(name, *names, when=when, after=tuple(after)))


def join(
    name: str, *slots: str, when: Binding | None = None, after: tuple[str, ...] = ()
) -> JoinNode:
    """Collects what `slots` came to."""
    return JoinNode(NodeId(name), _ids((*slots, *after)), _ids(slots), when)


def human(
    name: str,
    *after: str,
    kind: HumanKind = "information",
    deadline: Binding | None = None,
    context: Binding | None = None,
    subject: Binding | None = None,
    when: Binding | None = None,
    prompt: str = "Which size?",
) -> HumanNode:
    """A question to a person."""
    return HumanNode(
        id=NodeId(name),
        depends_on=_ids(after),
        kind=kind,
        schema_id="size",
        schema=ANY,
        prompt=prompt,
        context=context,
        subject_digest=subject,
        deadline=deadline,
        when=when,
    )


def timer(name: str, *after: str, at: Binding, when: Binding | None = None) -> TimerNode:
    """Waits until the absolute time that `at` stands for."""
    return TimerNode(NodeId(name), _ids(after), at, when)


def signal(
    name: str, *after: str, deadline: Binding | None = None, when: Binding | None = None
) -> SignalNode:
    """Waits for the signal of its own name."""
    return SignalNode(NodeId(name), _ids(after), name, ANY, deadline, when)


def workflow(*nodes: Node, result: Binding | None = None) -> Definition:
    """The definition of these nodes; its result is null unless said otherwise."""
    return assemble("shop.test", "1", ANY, ANY, nodes, result or Constant(None))


def policy(
    definition: Definition,
    *,
    budget_micros: int = BUDGET_MICROS,
    without: str | None = None,
    **settings: int | float | bool,
) -> Policy:
    """A policy that grants what the tools of `definition` need, except `without`."""
    tools = (node.tool for node in definition.nodes if isinstance(node, ToolNode))
    grants = {grant for one in tools for grant in one.grants}
    return Policy(
        version="1",
        allow=sorted(grant for grant in grants if grant != without),
        budget_micros=budget_micros,
        **settings,  # type: ignore[arg-type]  # each is a number or a flag of Policy's
    )


@dataclass(frozen=True, slots=True)
class Types:
    """The code of a workflow whose every type allows everything but WRONG."""

    definition: Definition

    def check_tool_input(self, node: NodeId, value: JsonValue) -> JsonValue:
        return _refuse_wrong(node, value)

    def check_tool_output(self, node: NodeId, value: JsonValue) -> JsonValue:
        return _refuse_wrong(node, value)

    def check_answer(self, node: NodeId, value: JsonValue) -> JsonValue:
        return _refuse_wrong(node, value)

    def check_signal(self, node: NodeId, value: JsonValue) -> JsonValue:
        return _refuse_wrong(node, value)

    def check_result(self, value: JsonValue) -> JsonValue:
        return _refuse_wrong(NodeId("result"), value)


def _refuse_wrong(node: NodeId, value: JsonValue) -> JsonValue:
    if value == WRONG or (isinstance(value, dict) and WRONG in value.values()):
        raise Invalid(f"{node} does not fit")
    return value


def _ids(names: tuple[str, ...]) -> tuple[NodeId, ...]:
    return tuple(NodeId(name) for name in names)
