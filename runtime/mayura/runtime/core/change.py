"""What every transition is made of: a step taken from one status to another, and its event."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from mayura.runtime.core import transitions as t
from mayura.runtime.core.altering import altered
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.moves import legal
from mayura.runtime.core.state import Run, Signal, Step, StepStatus
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
    return altered(run, steps=steps)


def begin(run: Run, node: NodeId, move: str, target: StepStatus) -> Step:
    step = run.step(node)
    if not run.open or not legal(move, step.status, target):
        raise IllegalMove(move, node, step.status if run.open else f"in a {run.status} run")
    return step


def event_of(kind: str, node: NodeId | None = None, **data: JsonValue) -> t.Event:
    """An event whose data are plain JSON: canonical encoding takes no enum members."""
    plain = [
        (key, value.value if isinstance(value, StrEnum) else value)
        for key, value in data.items()
        if value is not None
    ]
    return t.Event(kind, node, tuple(plain))


def without_effect(node: NodeId, step: Step) -> tuple[t.Event, ...]:
    """Says that a signal which came is kept, and that this step will not use it (G13)."""
    if isinstance(step.detail, Signal) and step.detail.signal_id is not None:
        return (event_of("signal.without_effect", node, signal=step.detail.signal_id),)
    return ()


def person_data(person: t.Person) -> dict[str, JsonValue]:
    """What an event says of who decided; never the credential."""
    return {
        "person": person.id,
        "issuer": person.issuer or None,
        "method": person.method or None,
        "unverified": None if person.verified else True,
    }


def detail_of(step: Step, kind: type[T], move: str, node: NodeId) -> T:
    """What the step waits for, if it is of this kind; else the move is refused."""
    if not isinstance(step.detail, kind):
        raise IllegalMove(move, node, f"not waiting for {kind.__name__.lower()}")
    return step.detail
