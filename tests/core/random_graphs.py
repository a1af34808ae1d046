"""Random workflows of every kind of node, for property tests."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from mayura.runtime.core.definition import (
    Binding,
    Constant,
    Definition,
    FromInput,
    FromStep,
    Node,
)
from mayura.runtime.core.reading import iso
from mayura.runtime.ids import NodeId
from tests.core.drive import SECOND_US, START
from tests.core.graphs import (
    EFFECTS,
    WRONG,
    fan_out,
    human,
    join,
    signal,
    timer,
    tool,
    workflow,
)

NODES_DRAWN_MAX: Final = 9
COST_MICROS_MAX: Final = 40
PAST: Final = iso(START.wall_us - SECOND_US)
SOON: Final = iso(START.wall_us + 50 * SECOND_US)
DUE: Final = FromInput(("due",))
KINDS: Final = (
    *("tool", "tool", "tool", "approval", "human", "human"),
    *("join", "timer", "signal", "fan_out"),
)

outputs: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [{"go": True}, {"go": True}, 1, None, [1], {"go": False}, WRONG]
)
inputs: Final[st.SearchStrategy[Any]] = st.fixed_dictionaries(
    {
        "go": st.sampled_from([True, True, True, False, None]),
        "items": st.sampled_from([[1, 2], [1, 2], [1], [], [1, 2, 3, 4], [None, WRONG], None]),
        "due": st.sampled_from([SOON, SOON, SOON, SOON, PAST, "soon", None]),
    }
)


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """A workflow of up to nine nodes (and the slots of its fan-outs), in any shape."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, NODES_DRAWN_MAX).map(_seldom_few))):
        nodes.extend(_drawn(draw, f"n{number}", [node.id for node in nodes]))
    ends: list[Binding] = [Constant(None), FromInput(), FromInput(("missing",))]
    ends.extend(FromStep(node.id) for node in nodes)
    return workflow(*nodes, result=draw(st.sampled_from(ends)))


def _drawn(draw: st.DrawFn, name: str, earlier: list[NodeId]) -> tuple[Node, ...]:
    kind = draw(st.sampled_from(KINDS))
    after: list[NodeId] = []
    if earlier:
        after = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=3))
    when = draw(st.sampled_from(_conditions(after)))
    deadline = draw(st.sampled_from([None, DUE]))
    if kind == "join" and after:
        return (join(name, *after, when=when),)
    if kind == "human":
        return (human(name, *after, deadline=deadline, when=when, context=FromInput()),)
    if kind == "timer":
        return (timer(name, *after, at=DUE, when=when),)
    if kind == "signal":
        return (signal(name, *after, deadline=deadline, when=when),)
    if kind == "fan_out":
        surplus = draw(st.sampled_from(["fail", "ignore"]))
        return fan_out(name, FromInput(("items",)), 2, *after, surplus=surplus, when=when)
    sources: list[Binding] = [FromInput(), *map(FromStep, after)]
    return (
        tool(
            name,
            *after,
            effects=draw(st.sampled_from(EFFECTS)),
            cost_micros=draw(st.sampled_from([0, 10, COST_MICROS_MAX])),
            when=when,
            approval=kind == "approval",
            value=draw(st.sampled_from(sources)),
        ),
    )


def _seldom_few(number: int) -> int:
    """Small workflows end before anything can happen to them: most are larger."""
    return number if number % 3 == 0 else NODES_DRAWN_MAX - number // 3


def _conditions(after: list[NodeId]) -> list[Binding | None]:
    """What `when` may be; most often nothing."""
    some: list[Binding | None] = [None, None, None, None, None, None]
    return [
        *some,
        Constant(False),
        FromInput(("go",)),
        *(FromStep(node, ("go",)) for node in after),
    ]
