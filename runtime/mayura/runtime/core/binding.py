"""From bindings to values."""

from __future__ import annotations

from collections.abc import Callable

from mayura.runtime.core.definition import Binding, Constant, FromInput, FromStep, JsonValue
from mayura.runtime.core.values import at
from mayura.runtime.ids import NodeId


class Unresolved(Exception):
    """The value has no such part. The text names the place, never the value."""


def resolve(
    binding: Binding, run_input: JsonValue, output: Callable[[NodeId], JsonValue]
) -> JsonValue:
    """The value `binding` stands for. Raises Unresolved where its path ends early.

    `output` gives what the dependents of a step see: null for a bypassed one, and for a join the
    list of what it joins, which is never stored.
    """
    if isinstance(binding, Constant):
        return binding.value
    value = run_input if isinstance(binding, FromInput) else output(binding.node)
    try:
        for key in binding.path:
            value = _member(value, key)
    except LookupError:
        root = f"{binding.node}.output" if isinstance(binding, FromStep) else "input"
        raise Unresolved(f"{at(root, binding.path)} does not exist") from None
    return value


def _member(value: JsonValue, key: str | int) -> JsonValue:
    if isinstance(value, dict) and isinstance(key, str):
        return value[key]
    if isinstance(value, list) and isinstance(key, int):
        return value[key]
    raise LookupError
