"""What has to say yes before a dispatch is written: guards, `once`, slots (G3, G16).

Nothing here is waited for inside a commit. A step that cannot go on yet is *held*; when it may, the
driver is told to look at it again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from mayura.runtime.call import Call
from mayura.runtime.core import transitions as t
from mayura.runtime.core.decision import Ready
from mayura.runtime.draft import Draft
from mayura.runtime.errors import Code
from mayura.runtime.guarding import guard_verdict
from mayura.runtime.ids import NodeId
from mayura.runtime.loaded import AnyTool
from mayura.runtime.process import Process

Verdict: TypeAlias = t.Block | Literal["go", "held", "next"]
"""`go`: dispatch now. `held`: the driver is told later. `next`: not in this commit."""


@dataclass(slots=True)
class Admission:
    """Admits the steps of one run."""

    process: Process
    context: Context
    tell: Callable[[NodeId], None]  #: look at this step again
    failed: Callable[[BaseException], None]
    _held: set[NodeId] = field(default_factory=set)
    _granted: dict[NodeId, AnyTool] = field(default_factory=dict)  #: slots taken while it waited
    _guarded: dict[NodeId, bytes] = field(default_factory=dict)  #: input digests guards allowed
    _free: set[NodeId] = field(default_factory=set)  #: `once` subjects found free before asking
    _verdicts: dict[NodeId, t.Block] = field(default_factory=dict)

    @property
    def waiting(self) -> bool:
        """Whether a step waits for a guard, a lookup or a slot."""
        return bool(self._held)

    def holds(self, node: NodeId) -> bool:
        return node in self._held

    def admit(
        self, ready: Ready, tool: AnyTool, call: Call, once: bytes | None, draft: Draft
    ) -> Verdict:
        """Whether `ready` may go into `draft` now. With `go` the slots are taken."""
        node = ready.node.id
        verdict = self._verdicts.pop(node, None)
        if verdict is not None:
            return verdict
        if ready.ask is not None:
            assert once is not None
            if node not in self._free:
                return self._hold(node, self._look_up(node, once))
            self._free.discard(node)  # found free for this question, not for a later one
            return "go"
        if tool.input_guards and self._guarded.get(node) != ready.digest:
            return self._hold(node, self._guard(ready, tool, call))
        alone = not draft.dispatches and not draft.once_released  # as a claim must be (ports)
        if draft.once is not None or (once is not None and not alone):
            return "next"
        return "go" if self._take(node, tool) else "held"

    def pass_on(self) -> None:
        """Give back the slots that came for steps which do not begin now after all.

        A subject that was found free is looked up again: whoever asks later asks anew.
        """
        self._free.clear()
        while self._granted:
            _, tool = self._granted.popitem()
            self.release(tool)

    def release(self, tool: AnyTool) -> None:
        """Give the slots of one call back."""
        thread = not tool.is_async
        self.process.slots.release(tool.id, concurrency=tool.concurrency, thread=thread)

    def refuse_once(self, node: NodeId, once: bytes) -> None:
        """The dispatch commit found the subject taken: find out by whom.

        Found free, it is claimed again; no question that comes later goes by this answer.
        """
        self._hold(node, self._find_holder(node, once))

    def _take(self, node: NodeId, tool: AnyTool) -> bool:
        if self._granted.pop(node, None) is not None:
            return True
        slots, thread = self.process.slots, not tool.is_async
        if slots.try_take(tool.id, concurrency=tool.concurrency, thread=thread):
            return True

        def granted() -> None:
            self._granted[node] = tool
            self._again(node)

        self._held.add(node)
        slots.wait(tool.id, concurrency=tool.concurrency, thread=thread, granted=granted)
        return False

    def _hold(self, node: NodeId, work: Coroutine[object, object, object]) -> Verdict:
        self._held.add(node)
        self.process.start(self._watched(node, work), self.context)
        return "held"

    async def _watched(self, node: NodeId, work: Coroutine[object, object, object]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - reaches whoever drives the run; the step stays pending
            self.failed(error)
        self._again(node)

    def _again(self, node: NodeId) -> None:
        self._held.discard(node)
        self.tell(node)

    async def _guard(self, ready: Ready, tool: AnyTool, call: Call) -> None:
        refused = await guard_verdict(tool.input_guards, ready.input, call, "input")
        if refused is None:
            self._guarded[ready.node.id] = ready.digest
        else:
            self._verdicts[ready.node.id] = t.Block(ready.node.id, *refused)

    async def _look_up(self, node: NodeId, once: bytes) -> None:
        """Before a person is asked (G16)."""
        if await self._find_holder(node, once):
            self._free.add(node)

    async def _find_holder(self, node: NodeId, once: bytes) -> bool:
        """Whether the subject is free; else its step is refused, and names the first call."""
        holder = await self.process.store.once_holder(once)
        if holder is not None:
            first = f"run {holder.run_id}, step {holder.node}"
            self._verdicts[node] = t.Block(node, Code.ALREADY_DONE, first)
        return holder is None
