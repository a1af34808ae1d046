"""Tools: typed functions with declared effects, the only place where anything outside happens."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from pydantic import BaseModel, ConfigDict, Field, create_model

from mayura.runtime.call import Call
from mayura.runtime.core.answers import Answer
from mayura.runtime.core.codec import Codec
from mayura.runtime.core.definition import Effects, JsonValue, ToolSpec
from mayura.runtime.core.guards import Guard
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.signature import (
    Parameter,
    Signature,
    names_around,
    read_signature,
    returns_awaitable,
)
from mayura.runtime.core.tool_options import ToolOptions, spec_of
from mayura.runtime.core.type_names import name_of

P = ParamSpec("P")
O = TypeVar("O")  # noqa: E741 - the output
O_co = TypeVar("O_co", covariant=True)

TIMEOUT_SECONDS_DEFAULT = 30.0


@dataclass(frozen=True, slots=True)
class Bound(Generic[O_co]):
    """A tool with its parameters bound to values or parts of a workflow; a node is made of it."""

    tool: Tool[..., O_co]
    arguments: tuple[tuple[str, object], ...]


class Tool(Generic[P, O_co]):
    """A declared tool.

    `tool.on(...)` binds its parameters for a workflow; `tool.fn` is the plain function, for unit
    tests; `tool.grants` is what a policy must allow.
    """

    def __init__(
        self, fn: Callable[..., object], signature: Signature, options: ToolOptions
    ) -> None:
        self.fn = fn
        self.is_async = inspect.iscoroutinefunction(fn)
        self.concurrency = options.concurrency
        self.input_guards: tuple[Guard, ...] = tuple(options.input_guards)
        self.output_guards: tuple[Guard, ...] = tuple(options.output_guards)
        self.lookup_fn: Callable[..., object] | None = None
        where = f"tool {options.id!r}"
        self.parameters: dict[str, Codec[Any]] = {
            parameter.name: Codec(parameter.declared, f"{where} parameter {parameter.name!r}")
            for parameter in signature.parameters
        }
        self.output: Codec[O_co] = Codec(signature.returns, f"{where} return type", "output")
        self._signature = signature
        self._traced = False
        fields = {f"p{i}": p for i, p in enumerate(signature.parameters)}
        self._names = tuple((field, p.name) for field, p in fields.items())
        self._input: Codec[BaseModel] = Codec(_input_model(fields), where, "input")
        self.spec = spec_of(options, signature, self._input.schema, self.output.schema)

    def __repr__(self) -> str:
        return f"<tool {self.id} {self.spec.version}>"

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def description(self) -> str:
        """The function's docstring; no part of the definition."""
        return inspect.getdoc(self.fn) or ""

    @property
    def grants(self) -> tuple[str, ...]:
        """What a policy must allow: exact strings, default deny."""
        return self.spec.grants

    def on(self, *args: P.args, **kwargs: P.kwargs) -> Bound[O_co]:
        """Bind the parameters after `call`, each to a value or to a part of a workflow.

        Raises DefinitionError for a parameter that is missing, unknown or bound twice.
        """
        signature = inspect.Signature(
            [
                inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                if p.default is inspect.Parameter.empty
                else inspect.Parameter(
                    p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=p.default
                )
                for p in self._signature.parameters
            ],
            __validate_parameters__=False,
        )
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise DefinitionError(f"tool {self.id!r}", f"{error} in .on(...)") from None
        bound.apply_defaults()
        return Bound(self, tuple(bound.arguments.items()))

    if not TYPE_CHECKING:  # type checkers say it better: a tool cannot be called

        def __call__(self, *args: object, **kwargs: object) -> NoReturn:
            name = self.fn.__name__
            text = f"is not called: in a workflow write flow.tool(<node>, {name}.on(...)); "
            raise DefinitionError(f"tool {self.id!r}", f"{text}in a unit test, {name}.fn(...)")

    def lookup(
        self: Tool[P, O],
        fn: Callable[Concatenate[Call, P], Awaitable[Answer[O]]]
        | Callable[Concatenate[Call, P], Answer[O]],
        /,
    ) -> Callable[Concatenate[Call, P], Awaitable[Answer[O]] | Answer[O]]:
        """Declare how to ask the provider what became of a call: a decorator.

        The function takes what the tool takes, reads, changes nothing, and answers Happened,
        Absent, Never or Unclear. Raises DefinitionError if it takes something else, if the tool
        changes nothing outside, or if a workflow was already made with the tool.
        """
        where = f"lookup of tool {self.id!r}"
        if self.spec.changes_nothing:
            raise DefinitionError(where, f"a tool with effects={self.spec.effects!r} needs none")
        if self.lookup_fn is not None:
            raise DefinitionError(where, "is declared twice")
        if self._traced:
            raise DefinitionError(where, "comes after a workflow that uses the tool: move it up")
        signature = read_signature(fn, where, names_around(1))
        wanted = [p.name for p in self._signature.parameters]
        if [p.name for p in signature.parameters] != wanted:
            raise DefinitionError(where, f"takes (call, {', '.join(wanted)}), as the tool does")
        self.lookup_fn = fn
        self.spec = replace(self.spec, lookup=True)
        return fn

    def pinned(self) -> ToolSpec:
        """The spec as a workflow takes it; from then on it does not change."""
        where = f"tool {self.id!r}"
        if self.spec.absent_after_ms is not None and not self.spec.lookup:
            raise DefinitionError(where, "has absent_after but no lookup that could say Absent")
        self._traced = True
        return self.spec

    def arguments(self, value: JsonValue) -> dict[str, object]:
        """The Python values of the parameters behind a stored input. Raises Invalid."""
        loaded = vars(self._input.load(value))
        return {name: loaded[field] for field, name in self._names}

    def check_input(self, value: JsonValue) -> JsonValue:
        """`value` (an object, one member a parameter) in its stored form. Raises Invalid."""
        return self._input.check(value)

    def dump_output(self, result: object) -> JsonValue:
        """The stored form of what the function returned.

        Raises Invalid, and nothing else, if it is not of the declared type, cannot be turned into
        JSON, or would not come back equal.
        """
        return self.output.dump(result)

    def check_output(self, value: JsonValue) -> JsonValue:
        """A JSON output in its stored form. Raises Invalid."""
        return self.output.check(value)


class ToolDecorator(Protocol):
    @overload
    def __call__(self, fn: Callable[Concatenate[Call, P], Awaitable[O]], /) -> Tool[P, O]: ...

    @overload
    def __call__(self, fn: Callable[Concatenate[Call, P], O], /) -> Tool[P, O]: ...


def tool(
    tool_id: str,
    /,
    *,
    version: str,
    effects: Effects,
    capabilities: Sequence[str] = (),
    cost_micros: int = 0,
    timeout: float = TIMEOUT_SECONDS_DEFAULT,
    once: str | Sequence[str] | None = None,
    key_lifetime: float | None = None,
    absent_after: float | None = None,
    input_guards: Sequence[Guard] = (),
    output_guards: Sequence[Guard] = (),
    concurrency: int | None = None,
) -> ToolDecorator:
    """Declare a tool: the decorated function takes `call: Call` and its typed parameters.

    `effects` says what a call may change: `none` computes, `read` looks, `write` changes something
    outside, `host` changes our own infrastructure. `cost_micros` is the most one call may cost, of
    the run's budget. Times are in seconds: `timeout` is how long a call is waited for (it stops no
    code), `key_lifetime` how long the provider remembers a call's key, `absent_after` how long
    after the settle deadline a lookup's Absent is believed. `once` names the input fields, such as
    "order.order_id", for whose value the tool acts at most once (G16). `concurrency` is the most
    calls at one time in one process; like the docstring, it is no part of the definition.

    Raises DefinitionError, naming the field, for anything that does not hold.
    """
    options = ToolOptions(
        id=tool_id,
        version=version,
        effects=effects,
        capabilities=capabilities,
        cost_micros=cost_micros,
        timeout=timeout,
        once=once,
        key_lifetime=key_lifetime,
        absent_after=absent_after,
        input_guards=input_guards,
        output_guards=output_guards,
        concurrency=concurrency,
    )

    def declare(fn: Callable[..., object], /) -> Tool[..., Any]:
        options.refuse_mistakes()
        where = f"tool {tool_id!r}"
        signature = read_signature(fn, where, names_around(1))
        if signature.first is not Call:
            raise DefinitionError(
                where, f"the first parameter is {name_of(signature.first)}: make it `call: Call`"
            )
        if not signature.parameters:
            raise DefinitionError(where, "takes nothing but `call`: give it a parameter to bind")
        if not inspect.iscoroutinefunction(fn) and returns_awaitable(signature.returns):
            raise DefinitionError(where, "returns an awaitable: declare it with `async def`")
        return Tool(fn, signature, options)

    return cast(ToolDecorator, declare)


def _input_model(fields: dict[str, Parameter]) -> type[BaseModel]:
    """One model for the whole input; `p0`, `p1` keep parameter names off the model's own."""
    declared: dict[str, Any] = {
        field: (parameter.declared, Field(alias=parameter.name))
        for field, parameter in fields.items()
    }
    return create_model("Input", __config__=ConfigDict(extra="forbid"), **declared)
