"""What the engine needs of a workflow's code, whatever its input and output types are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mayura.runtime.core.code import Code
from mayura.runtime.core.definition import Definition
from mayura.runtime.core.policy import Policy
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


@dataclass(frozen=True, slots=True)
class Pinned:
    """The exact definition and policy of a run, and the code if it is loaded (G12)."""

    definition: Definition
    policy: Policy
    workflow: AnyWorkflow | None
