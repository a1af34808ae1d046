"""What a loaded workflow knows beyond its manifest: pure checks of values against its types."""

from __future__ import annotations

from typing import Protocol

from mayura.runtime.core.definition import Definition, JsonValue
from mayura.runtime.ids import NodeId


class Invalid(Exception):
    """A value does not fit. The text names the place and what was expected, never the value."""


class Code(Protocol):
    """The types behind a definition. Each check returns the value in its stored form.

    Each raises `Invalid`. None of them reads a clock, awaits, or calls a tool.
    """

    @property
    def definition(self) -> Definition: ...

    def check_tool_input(self, node: NodeId, value: JsonValue) -> JsonValue:
        """`value` is an object with one member a parameter."""
        ...

    def check_tool_output(self, node: NodeId, value: JsonValue) -> JsonValue: ...

    def check_answer(self, node: NodeId, value: JsonValue) -> JsonValue: ...

    def check_signal(self, node: NodeId, value: JsonValue) -> JsonValue: ...

    def check_result(self, value: JsonValue) -> JsonValue: ...
