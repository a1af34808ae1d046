"""What every transition is made of: a step taken from one status to another, and its event."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from mayura.runtime.core import transitions as t
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.moves import legal
from mayura.runtime.core.state import Run, Step, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId

Applied = tuple[Run, tuple[t.Event, ...]]
T = TypeVar("T")


class IllegalMove(MayuraError):
    """The step is not where this move starts: somebody else was faster. Read again."""

    def __init__(self, move: str, node: NodeId, status: str) -> None:
        super().__init__(Code.CONFLICT, f"step {node!r} is {status}: it cannot {move}; read again")


def put(run: Run, node: NodeId, step: Step) -> Run:
    steps = dict(run.steps)
    steps[node] = step
    return replace(run, steps=steps)


def begin(run: Run, node: NodeId, move: str, target: StepStatus) -> Step:
    step = run.step(node)
    if not run.open or not legal(move, step.status, target):
        raise IllegalMove(move, node, step.status if run.open else f"in a {run.status} run")
    return step


def event_of(kind: str, node: NodeId | None = None, **data: JsonValue) -> t.Event:
    return t.Event(kind, node, tuple((k, v) for k, v in data.items() if v is not None))


def detail_of(step: Step, kind: type[T], node: NodeId) -> T:
    if not isinstance(step.detail, kind):
        raise IllegalMove(f"take a decision for {kind.__name__.lower()}", node, step.status)
    return step.detail
