"""From a typed function to a frozen definition: `@workflow` traces it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from pydantic import ValidationError

from mayura.runtime.core.codec import Codec
from mayura.runtime.core.definition import Binding, Definition
from mayura.runtime.core.differing import first_difference
from mayura.runtime.core.flow import Flow
from mayura.runtime.core.graph import assemble
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.parts import Parts
from mayura.runtime.core.signature import names_around, read_signature
from mayura.runtime.core.symbols import Origin, Reference, Symbol, reference_of
from mayura.runtime.core.workflow import Workflow
from mayura.runtime.core.writing import Writing

I = TypeVar("I")  # noqa: E741 - the input
O = TypeVar("O")  # noqa: E741 - the output


class WorkflowDecorator(Protocol):
    def __call__(self, fn: Callable[[Flow, I], O], /) -> Workflow[I, O]: ...


def workflow(workflow_id: str, /, *, version: str) -> WorkflowDecorator:
    """Declare a workflow: the function takes `flow: Flow` and its typed input, and is traced.

    It writes the graph; it does not run with the workflow. Its input and the outputs of steps are
    symbols: fields and items of them can be bound, computing with them is an error. What it
    returns is bound as the run's result. Raises DefinitionError, naming workflow, node and field.

    It is traced twice, and what came out otherwise the second time, such as a timer that was set
    by `datetime.now()`, is an error; what changes only by the day is not found so.
    """

    def trace(fn: Callable[..., object], /) -> Workflow[Any, Any]:
        where = f"workflow {workflow_id!r}"
        if inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn):
            raise DefinitionError(where, "is traced, not run: declare it with a plain `def`")
        signature = read_signature(fn, where, names_around(1))
        if signature.first is not Flow or len(signature.parameters) != 1:
            raise DefinitionError(where, "takes (flow: Flow, <its one input>)")
        declared = signature.parameters[0].declared
        inputs: Codec[Any] = Codec(declared, f"{where} input", "input")
        outputs: Codec[Any] = Codec(signature.returns, f"{where} return type", "result")

        def traced() -> tuple[Definition, Parts]:
            parts = Parts()
            result = _result(workflow_id, fn, parts, declared, outputs)
            nodes = [*parts.nodes.values()]
            _refuse_two_concurrencies(where, parts)
            return (
                assemble(workflow_id, version, inputs.schema, outputs.schema, nodes, result),
                parts,
            )

        definition, parts = traced()
        _refuse_unstable(where, definition, traced()[0])
        return Workflow(definition, parts, inputs, outputs, inspect.getdoc(fn) or "")

    return cast(WorkflowDecorator, trace)


def _result(
    workflow_id: str,
    fn: Callable[..., object],
    parts: Parts,
    declared: object,
    outputs: Codec[Any],
) -> Binding:
    """Let `fn` write its nodes into `parts`; answers what it returned."""
    given = Symbol(Reference(Origin(parts, workflow_id, None), declared))
    try:
        returned = fn(Flow(workflow_id, parts), given)
    except ValidationError as error:
        _refuse_model_of_symbols(f"workflow {workflow_id!r}", error)
        raise
    finally:
        parts.open = False
    return Writing(parts, workflow_id, None).bind_result(returned, outputs)


def _refuse_unstable(where: str, definition: Definition, again: Definition) -> None:
    """What differs within this process would differ in each: no process could drive another's."""
    if definition.digest != again.digest:
        place = first_difference(definition, again)
        raise DefinitionError(
            f"{where} {place}",
            "is another each time the workflow is defined: take what changes (the time now, a "
            "random number, a new id) from the input or from a tool",
        )


def _refuse_two_concurrencies(where: str, parts: Parts) -> None:
    """A process counts the calls of a tool under its id, up to one number."""
    stated: dict[str, int | None] = {}
    for node, tool in parts.tools.items():
        first = stated.setdefault(tool.id, tool.concurrency)
        if first != tool.concurrency:
            raise DefinitionError(
                f"{where} node {node!r} tool {tool.id!r} concurrency",
                f"is {tool.concurrency}, and {first} in an earlier node: state the same",
            )


def _refuse_model_of_symbols(where: str, error: ValidationError) -> None:
    """A model was made of symbols: pydantic refused them as values; say what to do instead."""
    for one in error.errors(include_url=False, include_context=False):
        reference = reference_of(one["input"])
        if reference is not None:
            raise DefinitionError(
                where,
                f"{error.title} cannot be made of {reference.where.split(': ', 1)[1]}, which has "
                "no value yet: bind it to a parameter of its own, or make the model inside a tool",
            ) from None


__all__ = ["Flow", "Workflow", "WorkflowDecorator", "workflow"]
