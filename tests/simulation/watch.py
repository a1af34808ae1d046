"""Looks at every commit, every check and every call as it happens, and remembers what was wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from mayura.runtime.core import values
from mayura.runtime.core.deadlines import LAST_CHECK_MARGIN_SHARE
from mayura.runtime.core.definition import ToolNode
from mayura.runtime.core.state import (
    TERMINAL_STEPS,
    Cause,
    Receipt,
    Run,
    Step,
    StepStatus,
)
from mayura.runtime.ids import CallId, NodeId, RunId, call_id_of
from mayura.runtime.ports import CallRef, LastCheck, RunWrite, Won, WriteAnswer
from tests.simulation.provider import Entry
from tests.simulation.rules import broken_rules

if TYPE_CHECKING:
    from tests.simulation.process import SimulatedProcess
    from tests.simulation.world import World

CHECK_AGE_S_MAX: Final = 0.1
MAY_HAVE_ACTED: Final = (
    StepStatus.DISPATCHING, StepStatus.SUCCEEDED, StepStatus.BLOCKED, StepStatus.UNKNOWN,
)  # fmt: skip
ROUNDING_S: Final = 1e-6


class Watch:
    """The checks that need to see it happen; `verdict` adds those of the end."""

    def __init__(self, world: World) -> None:
        self.objections: list[str] = []
        self._world = world
        self._checked: dict[tuple[int, CallId], float] = {}
        self._begun: dict[CallId, float] = {}

    def object(self, text: str) -> None:
        """Something is wrong."""
        self.objections.append(text)
        self._world.tell("OBJECTION", text)

    # --- commits ----------------------------------------------------------------------------

    def answered(
        self, process: SimulatedProcess, before: Run | None, write: RunWrite, answer: WriteAnswer
    ) -> None:
        """The database has answered a write."""
        world = self._world
        kept = world.database.runs[write.before.run_id]
        said = "won" if isinstance(answer, Won) else answer.reason
        world.tell(
            "write", process.number, kept.run.key, write.after.version, said, *_types_of(write)
        )
        if kept.run is before or before is None:
            if isinstance(answer, Won) and kept.journal[write.after.version - 1].nonce != (
                write.nonce
            ):
                self.object("a write was won that the journal does not have (G7)")
            return
        after = kept.run
        for wrong in broken_rules(
            world.definition(after), world.needs_approval(after), before, after, world.clock()
        ):
            self.object(f"run {after.key} at version {after.version}: {wrong}")
        for node, step in after.steps.items():
            old = before.step(node)
            if step is not old:
                self._step_changed(process, after, node, old, step, write)

    def _step_changed(
        self,
        process: SimulatedProcess,
        run: Run,
        node: NodeId,
        old: Step,
        new: Step,
        write: RunWrite,
    ) -> None:
        call = call_id_of(run.run_id, node)
        where = f"run {run.key} step {node}"
        if new.dispatch is not None and old.dispatch is None:
            self._begun[call] = self._world.loop.time()
        entry = self._world.provider.ledger.get(call)
        if new.receipt is not old.receipt:
            self._receipt_changed(where, new.receipt, entry)
        if new.status is old.status or new.status not in TERMINAL_STEPS:
            return
        if new.status not in MAY_HAVE_ACTED and entry is not None and entry.acted:
            self._object_if_acted(where, run, node, new.status)
        if new.cause is Cause.ABANDONED:
            self._abandoned(process, where, new, entry)

    def _receipt_changed(self, where: str, receipt: Receipt | None, entry: Entry | None) -> None:
        if receipt is Receipt.SUCCEEDED and (entry is None or not entry.acted):
            self.object(f"{where}: a receipt says succeeded, and the ledger knows nothing of it")
        if receipt is Receipt.NOT_STARTED and entry is not None and entry.manner != "refuses":
            self.object(f"{where}: a receipt says not started, and the ledger has the call")

    def _abandoned(
        self, process: SimulatedProcess, where: str, step: Step, entry: Entry | None
    ) -> None:
        assert step.dispatch is not None, "the rules see to it"
        now, settle = self._world.clock(), step.dispatch.settle
        if settle.epoch == now.epoch and now.steady_us < settle.at_us:
            self.object(f"{where}: it was settled before its deadline (G9)")
        in_hand = step.dispatch.nonce in process.in_flight
        running = entry is not None and entry.process is process and not entry.ended
        if process.alive and (in_hand or running):
            self.object(f"{where}: it was settled by the process that has it in hand (G9)")

    # --- checks and calls -------------------------------------------------------------------

    def checked(
        self,
        process: SimulatedProcess,
        calls: Sequence[CallRef],
        found: Sequence[LastCheck | None],
    ) -> None:
        """The database has answered a last check."""
        for call, check in zip(calls, found, strict=True):
            if check is not None and check.nonce is not None and check.open and not check.cancelled:
                key = (process.number, call_id_of(call.run_id, call.node))
                self._checked[key] = self._world.loop.time()

    def entered(self, entry: Entry) -> None:
        """A tool's body has been entered."""
        call, number = entry.call, entry.process.number
        run, node = self._run_and_node(call)
        where = f"run {run.key} step {node}"
        self._world.tell("enters", number, run.key, node, entry.manner)
        if call in self._world.provider.ledger:
            self.object(f"{where}: the body was entered twice (G1)")
        if node not in self._world.database.runs[run.run_id].dispatches:
            self.object(f"{where}: the body was entered before its dispatch was stored (G2)")
        if run.step(node).receipt is Receipt.NOT_STARTED:
            self.object(f"{where}: the body was entered after it was declined (G3)")
        # A process may freeze between the check and the body's first line; but not before it
        # has decided to enter.
        decided_s = self._world.loop.made_at()
        checked_s = self._checked.get((number, call))
        if checked_s is None:
            self.object(f"{where}: the body was entered without a last check (G3)")
        elif decided_s - checked_s > CHECK_AGE_S_MAX + ROUNDING_S:
            self.object(f"{where}: its last check was {decided_s - checked_s:.3f} s old (G3)")
        age_s = decided_s - self._begun.get(call, decided_s)
        if age_s > self._world.margin_s / LAST_CHECK_MARGIN_SHARE + CHECK_AGE_S_MAX + ROUNDING_S:
            self.object(f"{where}: it was entered {age_s:.3f} s after its dispatch (G3)")

    def acted(self, entry: Entry) -> None:
        """A call has had its effect."""
        run, node = self._run_and_node(entry.call)
        self._world.tell("acts", entry.process.number, run.key, node)
        status = run.step(node).status
        if status not in MAY_HAVE_ACTED:
            self._object_if_acted(f"run {run.key} step {node}", run, node, status)
        if entry.subject is not None:
            acted = [e for e in self._world.provider.ledger.values() if e.acted]
            same = {e.call for e in (*acted, entry) if e.subject == entry.subject}
            if len(same) > 1:
                self.object(f"subject {entry.subject}: {len(same)} calls acted on it (G16)")

    def _object_if_acted(self, where: str, run: Run, node: NodeId, status: StepStatus) -> None:
        asked = self._world.definition(run).index[node]
        if isinstance(asked, ToolNode) and not asked.tool.changes_nothing:
            self.object(f"{where}: it is {status}, and the ledger says that it acted (G10)")

    def _run_and_node(self, call: CallId) -> tuple[Run, NodeId]:
        run_id, _, node = call.partition("/step:")
        return self._world.database.runs[RunId(run_id)].run, NodeId(node)


def _types_of(write: RunWrite) -> list[str]:
    """What a write says, without what differs from one playing of the story to the next."""
    events = cast("list[dict[str, str]]", values.decode(write.entries))
    return [" ".join(filter(None, (event["type"], event.get("node")))) for event in events]
