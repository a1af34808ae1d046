"""From a typed function to a frozen definition: `@workflow` traces it once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from pydantic import ValidationError

from mayura.runtime.core.codec import Codec
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
    """Declare a workflow: the function takes `flow: Flow` and its typed input, and is traced once.

    It writes the graph; it does not run with the workflow. Its input and the outputs of steps are
    symbols: fields and items of them can be bound, computing with them is an error. What it
    returns is bound as the run's result. Raises DefinitionError, naming workflow, node and field.
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
        parts = Parts()
        given = Symbol(Reference(Origin(parts, workflow_id, None), declared))
        try:
            returned = fn(Flow(workflow_id, parts), given)
        except ValidationError as error:
            _refuse_model_of_symbols(where, error)
            raise
        finally:
            parts.open = False
        result = Writing(parts, workflow_id, None).bind("result", returned, outputs)
        definition = assemble(
            workflow_id, version, inputs.schema, outputs.schema, [*parts.nodes.values()], result
        )
        return Workflow(definition, parts, inputs, outputs, inspect.getdoc(fn) or "")

    return cast(WorkflowDecorator, trace)


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
