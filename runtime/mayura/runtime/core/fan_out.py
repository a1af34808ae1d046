"""The slots of a fan-out: one tool node for each place in a list, and what they have in common."""

from __future__ import annotations

from typing import Any, Literal, get_args

from mayura.runtime.core.codec import Codec
from mayura.runtime.core.definition import (
    Binding,
    FanOut,
    FromInput,
    FromStep,
    ToolNode,
)
from mayura.runtime.core.graph import FAN_OUT_MAX
from mayura.runtime.core.members import NoSuchMember, item, list_of, union_of
from mayura.runtime.core.mistake import DefinitionError, did_you_mean, limit
from mayura.runtime.core.tool import Tool
from mayura.runtime.core.type_names import name_of
from mayura.runtime.core.writing import Writing, mismatch_of
from mayura.runtime.ids import NodeId

SURPLUS = Literal["fail", "ignore"]


class Slot:
    """What the slots of one fan-out share. Raises DefinitionError for what does not hold."""

    def __init__(
        self,
        writing: Writing,
        join: NodeId,
        tool: Tool[..., Any],
        items: object,
        slots_max: int,
        surplus: Literal["fail", "ignore"],
    ) -> None:
        if type(tool) is not Tool or len(tool.parameters) != 1:
            raise DefinitionError(writing.where, "takes a tool with one parameter besides `call`")
        _refuse_size(f"{writing.where} max", slots_max)
        if surplus not in get_args(SURPLUS):
            hint = did_you_mean(str(surplus), get_args(SURPLUS))
            raise DefinitionError(f"{writing.where} surplus", f'is "fail" or "ignore"{hint}')
        source, declared = writing.bind_symbol(
            "items", items, "takes a list out of the input or of a step's output"
        )
        self.numbers = range(1, slots_max + 1)
        self.output = list_of(union_of([tool.output.declared, None]))
        self._join = join
        self._source = source
        self._tool = tool
        self._fan_out = FanOut(source, slots_max, surplus)
        self._parameter, codec = next(iter(tool.parameters.items()))
        _refuse_items(f"{writing.where} items", declared, codec)

    def node(
        self,
        number: int,
        depends_on: tuple[NodeId, ...],
        approval: bool,
        condition: Binding | None,
    ) -> ToolNode:
        """The slot `<join>.<number>`; numbers begin at 1, places in the list at 0."""
        place = (*self._source.path, number - 1)
        binding: Binding = FromInput(place)
        if isinstance(self._source, FromStep):
            binding = FromStep(self._source.node, place)
        return ToolNode(
            id=NodeId(f"{self._join}.{number}"),
            depends_on=depends_on,
            tool=self._tool.pinned(),
            inputs=((self._parameter, binding),),
            approval=approval,
            when=condition,
            fan_out=self._fan_out,
        )


def _refuse_size(where: str, slots_max: object) -> None:
    if type(slots_max) is not int or slots_max < 1:
        raise DefinitionError(where, "is a whole number of at least 1")
    if slots_max > FAN_OUT_MAX:
        raise limit(where, "a fan-out", FAN_OUT_MAX)


def _refuse_items(where: str, declared: object, codec: Codec[Any]) -> None:
    try:
        one = item(declared, 0).declared
    except NoSuchMember:
        raise DefinitionError(where, f"is {name_of(declared)}, not a list") from None
    wrong = mismatch_of(one, codec)
    if wrong is not None:
        raise DefinitionError(where, f"each item: {wrong}")
