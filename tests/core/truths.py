"""What is true of a step whatever happens, and of two readings of it."""

from __future__ import annotations

from typing import Final

from mayura.runtime.core.state import (
    TERMINAL_STEPS,
    Acted,
    Receipt,
    Resolution,
    Run,
    Step,
    StepStatus,
)
from mayura.runtime.ids import NodeId
from mayura.runtime.journal import EventRecord

S = StepStatus


def calls_of(run: Run) -> set[NodeId]:
    return {node for node, step in run.steps.items() if step.dispatch is not None}


def refuse_going_back(before: Step, after: Step) -> None:
    """A dispatch, a known receipt, a contradiction and an end stay what they are.

    But for what was found out later: a resolution, what opposes it, and what it opens again.
    """
    if before.dispatch is not None:
        assert after.dispatch == before.dispatch
    if before.receipt not in (None, Receipt.UNKNOWN):
        assert after.receipt is before.receipt
    if before.contradiction is not None:
        assert after.contradiction is before.contradiction
    if before.status is S.DISPATCHING:
        assert after.status is S.DISPATCHING or after.status in TERMINAL_STEPS
    if before.resolution is not None:
        assert after.resolution is not None
    found_out = after.resolution is not None and before.status in (S.UNKNOWN, S.BLOCKED)
    opposed = before.resolution is not None and after.receipt is not before.receipt
    reopened = before.status is S.SKIPPED and before.dispatch is None
    if before.status in TERMINAL_STEPS and not (found_out or opposed or reopened):
        assert (after.status, after.code) == (before.status, before.code)
        assert after.released is before.released
    assert after.charged_micros >= before.charged_micros


def refuse_a_lie(step: Step) -> None:
    """What must be so of a step in its status (G4, G10)."""
    if step.status in (S.FAILED, S.SKIPPED):
        assert step.acted is Acted.NO or step.contradiction is not None
    if step.status is S.SUCCEEDED and step.dispatch is not None:
        proven = step.receipt is Receipt.SUCCEEDED
        assert proven or step.resolution is Resolution.HAPPENED
        assert step.released
    if step.status is S.DISPATCHING:
        assert step.dispatch is not None
    if step.dispatch is None:
        assert (step.receipt, step.acted, step.reserved_micros) == (None, Acted.NO, 0)
    if step.status in (S.PENDING, S.WAITING):
        assert step.dispatch is None


AFTER_A_DISPATCH: Final = {
    "step.receipt", "step.succeeded", "step.failed", "step.blocked", "step.unknown",
    "step.declined", "step.abandoned", "budget.overrun", "integrity.contradiction",
    "step.resolved",
}  # fmt: skip


def refuse_a_way_back(events: list[EventRecord], node: NodeId) -> None:
    """After its dispatch a step's events are of its call and its end, and it ends once."""
    own = [event.type for event in events if event.data.get("node") == node]
    later = own[own.index("step.dispatching") + 1 :]
    assert set(later) <= AFTER_A_DISPATCH
    evidence = {"step.receipt", "budget.overrun", "integrity.contradiction", "step.resolved"}
    assert len([kind for kind in later if kind not in evidence]) <= 1
