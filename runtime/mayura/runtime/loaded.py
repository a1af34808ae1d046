"""What the engine needs of a workflow's code, whatever its input and output types are."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from mayura.runtime.core.code import Code
from mayura.runtime.core.tool import Tool
from mayura.runtime.ids import NodeId

AnyTool: TypeAlias = Tool[..., object]


class AnyWorkflow(Code, Protocol):
    """A traced workflow that this process has loaded."""

    @property
    def id(self) -> str: ...

    @property
    def version(self) -> str: ...

    def tool(self, node: NodeId) -> AnyTool:
        """The tool behind a tool node."""
        ...
