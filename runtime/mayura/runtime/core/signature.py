"""What a function's signature says: its parameters, their types, what it returns."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from mayura.runtime.core.mistake import DefinitionError


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter after the first; `default` is `inspect.Parameter.empty` if it has none."""

    name: str
    declared: object
    default: object


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's first parameter (`call` or `flow`), the others, and the type it returns."""

    first: object
    parameters: tuple[Parameter, ...]
    returns: object


def read_signature(fn: Callable[..., object], where: str, names: Mapping[str, object]) -> Signature:
    """Read `fn`, resolving annotations with `names` where the module does not have them.

    Raises DefinitionError for what is missing or cannot be bound by name.
    """
    if not inspect.isroutine(fn):
        raise DefinitionError(where, "is not a function: decorate a `def` or an `async def`")
    if inspect.iscoroutinefunction(inspect.unwrap(fn)) and not inspect.iscoroutinefunction(fn):
        raise DefinitionError(where, "wraps an async function: make the wrapper `async def`, too")
    hints = _hints(fn, where, names)
    parameters = list(inspect.signature(fn).parameters.values())
    if not parameters:
        raise DefinitionError(where, "takes no parameters: the first is `call: Call`")
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DefinitionError(where, f"{parameter} cannot be bound: name each parameter")
        if parameter.name not in hints:
            raise DefinitionError(f"{where} parameter {parameter.name!r}", "has no annotation")
    if parameters[0].kind is parameters[0].KEYWORD_ONLY:
        raise DefinitionError(where, "its first parameter is keyword only: move the `*`")
    for parameter in parameters[1:]:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DefinitionError(
                f"{where} parameter {parameter.name!r}", "is positional only: move the `/`"
            )
    if "return" not in hints:
        raise DefinitionError(where, "has no return annotation: write `-> None` if it returns none")
    return Signature(
        first=hints[parameters[0].name],
        parameters=tuple(Parameter(p.name, hints[p.name], p.default) for p in parameters[1:]),
        returns=hints["return"],
    )


def names_around(depth: int) -> Mapping[str, object]:
    """Local names where a decorator is applied, so that types declared there are found."""
    frame = inspect.currentframe()
    for _ in range(depth + 1):
        frame = frame.f_back if frame is not None else None
    return dict(frame.f_locals) if frame is not None else {}


def returns_awaitable(returns: object) -> bool:
    """Whether a plain function promises something to await."""
    return (typing.get_origin(returns) or returns) in (Awaitable, Coroutine)


def _hints(fn: Callable[..., object], where: str, names: Mapping[str, object]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn, localns=dict(names), include_extras=True)
    except NameError as error:
        raise DefinitionError(
            where,
            f"the annotation {error.name!r} is not known when the function is declared: "
            "import it outside TYPE_CHECKING, or define it at the top of the module",
        ) from None
    except TypeError:
        raise DefinitionError(where, "has an annotation that is not a type") from None
