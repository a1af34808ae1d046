"""A traced workflow: its definition, and the Python types behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.codec import Codec
from mayura.runtime.core.definition import Definition, JsonValue, SignalNode
from mayura.runtime.core.mistake import DefinitionError, did_you_mean
from mayura.runtime.core.parts import Parts
from mayura.runtime.core.tool import Tool
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId

I = TypeVar("I")  # noqa: E741 - the input
O = TypeVar("O")  # noqa: E741 - the output


class Workflow(Generic[I, O]):
    """A workflow as declared. `definition` is what is stored; the rest checks values."""

    def __init__(
        self,
        definition: Definition,
        parts: Parts,
        inputs: Codec[I],
        outputs: Codec[O],
        description: str,
    ) -> None:
        self.definition = definition
        self.description = description
        self._tools = dict(parts.tools)
        self._answers = dict(parts.answers)
        self._signals = dict(parts.signals)
        self._input = inputs
        self._output = outputs

    if not TYPE_CHECKING:  # type checkers say it better: a workflow cannot be called

        def __call__(self, *args: object, **kwargs: object) -> NoReturn:
            text = "is not called: submit it, engine.submit(<workflow>, <input>, key=...)"
            raise DefinitionError(f"workflow {self.id!r}", text)

    def __repr__(self) -> str:
        return f"<workflow {self.id} {self.version}>"

    @property
    def id(self) -> str:
        return self.definition.id

    @property
    def version(self) -> str:
        return self.definition.version

    @property
    def tools(self) -> dict[str, Tool[..., Any]]:
        """The tools its steps call, by id."""
        return {tool.id: tool for tool in self._tools.values()}

    def tool(self, node: NodeId) -> Tool[..., Any]:
        """The tool that step `node` calls. Raises NOT_FOUND."""
        return _known(self, node, self._tools, "tool step")

    def input_json(self, value: I) -> JsonValue:
        """The stored form of an input. Raises INVALID_INPUT, naming the field."""
        try:
            return self._input.dump(value)
        except Invalid as invalid:
            raise _invalid_input(self, invalid) from None

    def check_input(self, value: JsonValue) -> JsonValue:
        """A JSON input in its stored form. Raises Invalid."""
        return self._input.check(value)

    def output_value(self, value: JsonValue) -> O:
        """The Python value of a stored result. Raises INVALID_OUTPUT."""
        try:
            return self._output.load(value)
        except Invalid as invalid:
            where = f"workflow {self.id!r} version {self.version!r}"
            raise MayuraError(Code.INVALID_OUTPUT, f"{where}: {invalid}") from None

    def answer_json(self, node: NodeId, value: object) -> JsonValue:
        """The stored form of a typed answer to human step `node`. Raises INVALID_INPUT."""
        return self._dumped(_known(self, node, self._answers, "human step"), value)

    def signal_json(self, name: str, value: object) -> JsonValue:
        """The stored form of a typed payload for the signal called `name`. INVALID_INPUT."""
        return self._dumped(self._signals[self.signal_node(name)], value)

    def signal_node(self, name: str) -> NodeId:
        """The step that waits for the signal called `name`. Raises NOT_FOUND."""
        names = {n.name: n.id for n in self.definition.nodes if isinstance(n, SignalNode)}
        if name not in names:
            hint = did_you_mean(name, names)
            raise MayuraError(
                Code.NOT_FOUND, f"workflow {self.id!r} waits for no signal {name!r}{hint}"
            )
        return names[name]

    def check_tool_input(self, node: NodeId, value: JsonValue) -> JsonValue:
        return self._tools[node].check_input(value)

    def check_tool_output(self, node: NodeId, value: JsonValue) -> JsonValue:
        return self._tools[node].check_output(value)

    def check_answer(self, node: NodeId, value: JsonValue) -> JsonValue:
        return self._answers[node].check(value)

    def check_signal(self, node: NodeId, value: JsonValue) -> JsonValue:
        return self._signals[node].check(value)

    def check_result(self, value: JsonValue) -> JsonValue:
        return self._output.check(value)

    def _dumped(self, codec: Codec[Any], value: object) -> JsonValue:
        try:
            return codec.dump(value)
        except Invalid as invalid:
            raise _invalid_input(self, invalid) from None


T = TypeVar("T")


def _known(workflow: Workflow[Any, Any], node: NodeId, known: dict[NodeId, T], what: str) -> T:
    if node not in known:
        hint = did_you_mean(node, known)
        raise MayuraError(Code.NOT_FOUND, f"workflow {workflow.id!r} has no {what} {node!r}{hint}")
    return known[node]


def _invalid_input(workflow: Workflow[Any, Any], invalid: Invalid) -> MayuraError:
    return MayuraError(Code.INVALID_INPUT, f"workflow {workflow.id!r}: {invalid}")
