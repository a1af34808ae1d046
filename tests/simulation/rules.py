"""What must hold between a run before a commit and after it, whoever wrote it.

Each rule is a sentence that the guarantee makes; it yields what is wrong. They are written here
once more, from the guarantee and not from the code, so that a mistake there is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator

from mayura.runtime.core.deadlines import due_us
from mayura.runtime.core.definition import Definition
from mayura.runtime.core.state import (
    TERMINAL_STEPS,
    Acted,
    Approval,
    Instant,
    Receipt,
    Run,
    RunStatus,
    Step,
    StepStatus,
)
from mayura.runtime.ids import NodeId

KNOWN = (Receipt.SUCCEEDED, Receipt.FAILED, Receipt.NOT_STARTED)
NOT_FAILED = (StepStatus.FAILED, StepStatus.SKIPPED)


def broken_rules(
    definition: Definition, approved: frozenset[str], before: Run, after: Run, now: Instant
) -> Iterator[str]:
    """Everything that is wrong with a commit."""
    if after.version != before.version + 1:
        yield f"the version went from {before.version} to {after.version} (G7)"
    if before.status is not after.status and not before.open:
        yield f"the run went from {before.status} to {after.status} after its end"
    amounts = (after.spent_micros, after.reserved_micros, after.overrun_micros)
    if min(amounts) < 0 or after.spent_micros + after.reserved_micros > after.maximum_micros:
        yield f"spent and reserved go beyond the maximum: {amounts} of {after.maximum_micros} (G14)"
    for node, step in after.steps.items():
        old = before.step(node)
        if step is not old:
            for wrong in _broken_by_step(old, step):
                yield f"step {node}: {wrong}"
            if step.dispatch is not None and old.dispatch is None:
                for wrong in _broken_by_dispatch(before, after, node, step, approved):
                    yield f"step {node}: {wrong}"
    for node in before.steps:
        if node not in after.steps:
            yield f"step {node} is gone"
    yield from _broken_by_rest(definition, after, now)


def _broken_by_step(old: Step, new: Step) -> Iterator[str]:
    if old.status in TERMINAL_STEPS and new.status is not old.status:
        yield f"it went from {old.status} to {new.status} after its end (G6)"
    if old.status is StepStatus.DISPATCHING and new.status not in (old.status, *TERMINAL_STEPS):
        yield f"it went from dispatching to {new.status} (G11)"
    if old.receipt in KNOWN and new.receipt is not old.receipt:
        yield f"its receipt went from {old.receipt} to {new.receipt} (G5)"
    if old.receipt is not None and new.receipt is None:
        yield "its receipt is gone (G5)"
    if new.contradiction is not None:
        yield f"its receipt {new.receipt} is contradicted by {new.contradiction} (G5)"
    if old.dispatch is not None and (
        new.dispatch is None or new.dispatch.nonce != old.dispatch.nonce
    ):
        yield "it has another dispatch (G1)"
    if new.status in NOT_FAILED and new.acted is not Acted.NO:
        yield f"it is {new.status} though it may have acted (G10)"
    if new.status is StepStatus.SUCCEEDED and new.dispatch and new.receipt is not Receipt.SUCCEEDED:
        yield "it succeeded without a receipt (G4)"


def _broken_by_dispatch(
    before: Run, after: Run, node: NodeId, step: Step, approved: frozenset[str]
) -> Iterator[str]:
    if before.paused_at_us is not None and after.paused_at_us is not None:
        yield "it was dispatched while the run was paused"
    if after.cancelled:
        yield "it was dispatched after the run was cancelled"
    said_yes = isinstance(step.detail, Approval) and step.detail.approved is True
    if node in approved and not said_yes:
        yield "it was dispatched without a person's yes"


def _broken_by_rest(definition: Definition, run: Run, now: Instant) -> Iterator[str]:
    if not run.open:
        left = [n.id for n in definition.nodes if run.step(n.id).status not in TERMINAL_STEPS]
        if left:
            yield f"the run ended as {run.status} with open steps {left}"
        return
    wake_us = run.wake_at_us
    dispatching = [s for s in run.steps.values() if s.status is StepStatus.DISPATCHING]
    if wake_us is None and (dispatching or run.status is RunStatus.RUNNING):
        yield f"the run is {run.status} and nothing wakes it (G13)"
    if run.paused_at_us is not None:
        return
    for node, step in run.steps.items():
        due = due_us(step) if step.status is StepStatus.WAITING else None
        if due is not None and (wake_us is None or wake_us > max(due, now.wall_us)):
            yield f"step {node} is due at {due} and the run wakes at {wake_us} (G13)"
