"""What happens to one run: define workflows and tools, submit runs, drive and command them."""

from __future__ import annotations

from mayura.runtime.call import Call, Refusal
from mayura.runtime.core.answers import Absent, Happened, Never, Unclear
from mayura.runtime.core.flow import Flow
from mayura.runtime.core.guards import Guard, GuardContext
from mayura.runtime.core.parts import TimerFired
from mayura.runtime.core.policy import Policy
from mayura.runtime.core.tool import Tool, tool
from mayura.runtime.core.tracing import workflow
from mayura.runtime.core.transitions import Person
from mayura.runtime.core.workflow import Workflow
from mayura.runtime.core.writing import Step
from mayura.runtime.engine import Drained, Engine, Submitted, Swept
from mayura.runtime.errors import Code, MayuraError, SubmitConflict
from mayura.runtime.ids import RunId, Scope
from mayura.runtime.snapshot import Snapshot, StepView
from mayura.runtime.stores import open_store

__all__ = [
    "Absent",
    "Call",
    "Code",
    "Drained",
    "Engine",
    "Flow",
    "Guard",
    "GuardContext",
    "Happened",
    "MayuraError",
    "Never",
    "Person",
    "Policy",
    "Refusal",
    "RunId",
    "Scope",
    "Snapshot",
    "Step",
    "StepView",
    "SubmitConflict",
    "Submitted",
    "Swept",
    "TimerFired",
    "Tool",
    "Unclear",
    "Workflow",
    "open_store",
    "tool",
    "workflow",
]
