"""What a workflow function writes its graph with while it is traced."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, overload

from mayura.runtime.core.codec import Codec
from mayura.runtime.core.definition import (
    Binding,
    FromStep,
    HumanKind,
    HumanNode,
    JoinNode,
    Node,
    SignalNode,
    TimerNode,
    ToolNode,
)
from mayura.runtime.core.fan_out import Slot
from mayura.runtime.core.graph import NODE_ID, NODES_MAX, natural
from mayura.runtime.core.members import list_of, union_of
from mayura.runtime.core.mistake import DefinitionError, did_you_mean, limit
from mayura.runtime.core.parts import Parts, TimerFired
from mayura.runtime.core.symbols import Origin
from mayura.runtime.core.tool import Bound, Tool
from mayura.runtime.core.writing import Step, Writing
from mayura.runtime.ids import NodeId

I = TypeVar("I")  # noqa: E741 - an item
O = TypeVar("O")  # noqa: E741 - the output
T = TypeVar("T")

Steps: TypeAlias = Sequence[Step[object]]
Surplus: TypeAlias = Literal["fail", "ignore"]


class _Always:
    """The default of `when`."""


ALWAYS: Final = _Always()


class Flow:
    """Writes the graph of one workflow: each method adds a node and returns its step.

    Ids are unique in the workflow. `when` is a part of the input or of a step's output: the step
    runs unless that is null, false or missing, else it is bypassed and its output is null.
    `after` names steps to wait for whose output is not bound. Every method raises DefinitionError,
    naming workflow, node and field, for what does not hold.
    """

    def __init__(self, workflow_id: str, parts: Parts) -> None:
        self._workflow = workflow_id
        self._parts = parts

    @overload
    def tool(
        self, node: str, bound: Bound[O], /, *, approval: bool = ..., after: Steps = ...
    ) -> Step[O]: ...

    @overload
    def tool(
        self,
        node: str,
        bound: Bound[O],
        /,
        *,
        when: object,
        approval: bool = ...,
        after: Steps = ...,
    ) -> Step[O | None]: ...

    def tool(
        self,
        node: str,
        bound: Bound[O],
        /,
        *,
        when: object = ALWAYS,
        approval: bool = False,
        after: Steps = (),
    ) -> Step[O] | Step[O | None]:
        """Call a tool once: `flow.tool("charge", charge.on(order))`.

        With `approval`, a person approves the exact call before it is made.
        """
        writing = self._writing(node)
        if type(bound) is not Bound:
            raise DefinitionError(writing.where, "takes a tool with its parameters: tool.on(...)")
        _refuse_flag(f"{writing.where} approval", approval)
        tool = bound.tool
        inputs = tuple(
            (name, writing.bind(name, value, tool.parameters[name]))
            for name, value in sorted(bound.arguments)
        )
        condition = None if when is ALWAYS else writing.bind_condition(when)
        depends_on = writing.depends_on(after)
        name = NodeId(node)
        self._add(ToolNode(name, depends_on, tool.pinned(), inputs, approval, condition))
        self._parts.tools[name] = tool
        return self._step(name, tool.output.declared, when)

    @overload
    def fan_out(
        self,
        node: str,
        tool: Tool[[I], O],
        items: Sequence[I],
        /,
        *,
        max: int,
        surplus: Surplus = ...,
        approval: bool = ...,
        after: Steps = ...,
    ) -> Step[list[O | None]]: ...

    @overload
    def fan_out(
        self,
        node: str,
        tool: Tool[[I], O],
        items: Sequence[I],
        /,
        *,
        max: int,
        when: object,
        surplus: Surplus = ...,
        approval: bool = ...,
        after: Steps = ...,
    ) -> Step[list[O | None] | None]: ...

    def fan_out(
        self,
        node: str,
        tool: Tool[[I], O],
        items: Sequence[I],
        /,
        *,
        max: int,  # noqa: A002 - the word for it
        when: object = ALWAYS,
        surplus: Surplus = "fail",
        approval: bool = False,
        after: Steps = (),
    ) -> Step[list[O | None]] | Step[list[O | None] | None]:
        """Call a tool for each item of a list, in parallel, in slots `<node>.1` to `<node>.<max>`.

        The output has `max` entries in order, null where there was no item. With more items than
        slots the slots fail, unless `surplus` is "ignore".
        """
        writing = self._writing(node)
        slot = Slot(writing, NodeId(node), tool, items, max, surplus)
        _refuse_flag(f"{writing.where} approval", approval)
        condition = None if when is ALWAYS else writing.bind_condition(when)
        depends_on = writing.depends_on(after)
        slots = [slot.node(number, depends_on, approval, condition) for number in slot.numbers]
        for one in slots:
            self._add(one)
            self._parts.tools[one.id] = tool
        return self._join(NodeId(node), [one.id for one in slots], condition, slot.output, when)

    @overload
    def join(
        self, node: str, steps: Sequence[Step[O]], /, *, after: Steps = ...
    ) -> Step[list[O]]: ...

    @overload
    def join(
        self, node: str, steps: Sequence[Step[O]], /, *, when: object, after: Steps = ...
    ) -> Step[list[O] | None]: ...

    def join(
        self,
        node: str,
        steps: Sequence[Step[O]],
        /,
        *,
        when: object = ALWAYS,
        after: Steps = (),
    ) -> Step[list[O]] | Step[list[O] | None]:
        """Collect the outputs of `steps` in order, null for a bypassed one."""
        writing = self._writing(node)
        if isinstance(steps, Step) or not steps:
            raise DefinitionError(writing.where, "takes a list of one or more steps")
        condition = None if when is ALWAYS else writing.bind_condition(when)
        needed = writing.depends_on([*steps, *after])
        join = JoinNode(NodeId(node), needed, tuple(step.id for step in steps), condition)
        self._add(join)
        return self._step(join.id, list_of(union_of([step._declared for step in steps])), when)

    @overload
    def human(
        self,
        node: str,
        response: type[T],
        /,
        *,
        prompt: str,
        kind: HumanKind = ...,
        schema_id: str | None = ...,
        context: object = ...,
        subject_digest: str | None = ...,
        deadline: datetime | None = ...,
        after: Steps = ...,
    ) -> Step[T]: ...

    @overload
    def human(
        self,
        node: str,
        response: type[T],
        /,
        *,
        prompt: str,
        when: object,
        kind: HumanKind = ...,
        schema_id: str | None = ...,
        context: object = ...,
        subject_digest: str | None = ...,
        deadline: datetime | None = ...,
        after: Steps = ...,
    ) -> Step[T | None]: ...

    def human(
        self,
        node: str,
        response: type[T],
        /,
        *,
        prompt: str,
        kind: HumanKind = "information",
        schema_id: str | None = None,
        context: object = None,
        subject_digest: str | None = None,
        deadline: datetime | None = None,
        when: object = ALWAYS,
        after: Steps = (),
    ) -> Step[T] | Step[T | None]:
        """Ask a person for a `response`; the answer is data and grants nothing.

        `context` is shown with the prompt. A `correction` names what it corrects by
        `subject_digest` (SHA-256, hex). After `deadline`, an absolute time, the step has timed
        out. `schema_id` names the form of the answer; by default it is the node's id.
        """
        writing = self._writing(node)
        if kind not in get_args(HumanKind):
            hint = did_you_mean(str(kind), get_args(HumanKind))
            kinds = ", ".join(get_args(HumanKind))
            raise DefinitionError(f"{writing.where} kind", f"is none of {kinds}{hint}")
        codec: Codec[T] = Codec(response, f"{writing.where} response", "answer")
        asked = HumanNode(
            id=NodeId(node),
            kind=kind,
            schema_id=node if schema_id is None else schema_id,
            schema=codec.schema,
            prompt=_text(f"{writing.where} prompt", prompt),
            context=writing.bind_anything("context", context),
            subject_digest=writing.bind_digest("subject_digest", subject_digest),
            deadline=None if deadline is None else writing.bind_time("deadline", deadline),
            when=None if when is ALWAYS else writing.bind_condition(when),
            depends_on=writing.depends_on(after),
        )
        self._add(asked)
        self._parts.answers[asked.id] = codec
        return self._step(asked.id, response, when)

    @overload
    def timer(self, node: str, at: datetime, /, *, after: Steps = ...) -> Step[TimerFired]: ...

    @overload
    def timer(
        self, node: str, at: datetime, /, *, when: object, after: Steps = ...
    ) -> Step[TimerFired | None]: ...

    def timer(
        self, node: str, at: datetime, /, *, when: object = ALWAYS, after: Steps = ()
    ) -> Step[TimerFired] | Step[TimerFired | None]:
        """Wait until an absolute time; a past one is due at once."""
        writing = self._writing(node)
        timer = TimerNode(
            id=NodeId(node),
            fire_at=writing.bind_time("at", at),
            when=None if when is ALWAYS else writing.bind_condition(when),
            depends_on=writing.depends_on(after),
        )
        self._add(timer)
        return self._step(timer.id, TimerFired, when)

    @overload
    def signal(
        self,
        node: str,
        payload: type[T],
        /,
        *,
        name: str | None = ...,
        deadline: datetime | None = ...,
        after: Steps = ...,
    ) -> Step[T]: ...

    @overload
    def signal(
        self,
        node: str,
        payload: type[T],
        /,
        *,
        when: object,
        name: str | None = ...,
        deadline: datetime | None = ...,
        after: Steps = ...,
    ) -> Step[T | None]: ...

    def signal(
        self,
        node: str,
        payload: type[T],
        /,
        *,
        name: str | None = None,
        deadline: datetime | None = None,
        when: object = ALWAYS,
        after: Steps = (),
    ) -> Step[T] | Step[T | None]:
        """Wait for one message of another system, sent under `name` (the node's id by default)."""
        writing = self._writing(node)
        codec: Codec[T] = Codec(payload, f"{writing.where} payload", "payload")
        signal = SignalNode(
            id=NodeId(node),
            name=node if name is None else _text(f"{writing.where} name", name),
            schema=codec.schema,
            deadline=None if deadline is None else writing.bind_time("deadline", deadline),
            when=None if when is ALWAYS else writing.bind_condition(when),
            depends_on=writing.depends_on(after),
        )
        self._add(signal)
        self._parts.signals[signal.id] = codec
        return self._step(signal.id, payload, when)

    def _writing(self, node: object) -> Writing:
        if not self._parts.open:
            raise DefinitionError(
                f"workflow {self._workflow!r}", "is complete: flow is of use only inside it"
            )
        if type(node) is not str or not NODE_ID.fullmatch(node):
            raise DefinitionError(
                f"workflow {self._workflow!r} node {node!r}",
                "a node id is a letter, then at most 127 letters, digits or any of . _ -",
            )
        return Writing(self._parts, self._workflow, node)

    def _add(self, node: Node) -> None:
        where = f"workflow {self._workflow!r}"
        if node.id in self._parts.nodes:
            raise DefinitionError(f"{where} node {node.id!r}", "two nodes have this id")
        if len(self._parts.nodes) >= NODES_MAX:
            raise limit(where, "the number of nodes", NODES_MAX, "split it into two workflows")
        self._parts.nodes[node.id] = node

    def _join(
        self,
        node: NodeId,
        slots: Sequence[NodeId],
        condition: Binding | None,
        declared: object,
        when: object,
    ) -> Step[Any]:
        needed = {*slots, *([condition.node] if isinstance(condition, FromStep) else [])}
        depends_on = tuple(sorted(needed, key=natural))
        self._add(JoinNode(node, depends_on, tuple(slots), condition))
        return self._step(node, declared, when)

    def _step(self, node: NodeId, declared: object, when: object) -> Step[Any]:
        whole = declared if when is ALWAYS else union_of([declared, None])
        return Step(node, Origin(self._parts, self._workflow, node), whole)


def _refuse_flag(where: str, value: object) -> None:
    if type(value) is not bool:  # a symbol answers isinstance with an error of its own
        raise DefinitionError(where, "is True or False; a condition belongs into when=")


def _text(where: str, value: object) -> str:
    if type(value) is not str:
        raise DefinitionError(where, "is a text known when the workflow is defined")
    return value
