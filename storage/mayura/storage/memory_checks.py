"""What the tables of the SQL stores refuse by their CHECKs, for the store that has no tables.

The conformance suite holds the three against each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from mayura.runtime.core.state import (
    Acted,
    Cause,
    Receipt,
    Resolution,
    Run,
    RunStatus,
    Step,
    StepStatus,
)
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId

_BEGUN = (StepStatus.DISPATCHING, StepStatus.UNKNOWN)
_UNBEGUN = (StepStatus.PENDING, StepStatus.WAITING)
_UNACTED_ENDS = (StepStatus.SKIPPED, StepStatus.BYPASSED, StepStatus.TIMED_OUT)
_CERTAIN_CAUSES = (Cause.COST_UNKNOWN, Cause.RECEIPT_UNCONFIRMED)


def check_run(run: Run) -> None:
    """INTEGRITY_VIOLATION, naming the constraint, where a run contradicts itself."""
    for name in _broken_by_run(run):
        raise violation(run, name)


def check_step(run: Run, node: NodeId, step: Step) -> None:
    """INTEGRITY_VIOLATION, naming the constraint, where a step contradicts itself."""
    for name in _broken_by_step(step):
        raise violation(run, f"{name} of step {node}")


def violation(run: Run, name: str) -> MayuraError:
    """INTEGRITY_VIOLATION that names a constraint."""
    return MayuraError(
        Code.INTEGRITY_VIOLATION,
        f"Run {run.run_id}: the store refused a write that contradicts what it holds ({name}).",
    )


def _broken_by_run(run: Run) -> Iterator[str]:
    amounts = (run.maximum_micros, run.spent_micros, run.reserved_micros, run.overrun_micros)
    if min(amounts) < 0 or run.spent_micros + run.reserved_micros > run.maximum_micros:
        yield "runs_within_budget"
    if run.open != (run.settled_at_us is None):
        yield "runs_settled_has_time"
    if run.settled_at_us is not None and run.wake_at_us is not None:
        yield "runs_settled_sleeps"
    if run.status is RunStatus.PAUSED and run.paused_at_us is None:
        yield "runs_paused_has_time"
    if run.status is RunStatus.CANCELLED and not run.cancelled:
        yield "runs_cancelled_was_asked"
    if len(run.chain) != 32:
        yield "chain"


def _broken_by_step(step: Step) -> Iterator[str]:
    status, receipt = step.status, step.receipt
    if status is StepStatus.WAITING and step.detail is None:
        yield "steps_waiting_says_for_what"
    if step.contradiction is not None and (
        receipt in (None, Receipt.UNKNOWN, step.contradiction)
        or step.contradiction is Receipt.UNKNOWN
    ):
        yield "steps_contradiction_is_of_known"
    contradicted = step.contradiction is not None  # then nobody knows, whatever the status says
    if status is StepStatus.FAILED and step.acted is not Acted.NO and not contradicted:
        yield "steps_failure_is_certain"
    if (
        not contradicted
        and step.resolution is None
        and (
            (receipt is Receipt.SUCCEEDED and step.acted is Acted.UNKNOWN)
            or (receipt is Receipt.NOT_STARTED and step.acted is not Acted.NO)
        )
    ):
        yield "steps_evidence_fits"
    if min(step.reserved_micros, step.charged_micros) < 0:
        yield "steps_amounts"
    yield from _broken_by_undispatched(step) if step.dispatch is None else _broken_by_call(step)


def _broken_by_undispatched(step: Step) -> Iterator[str]:
    if step.status in _BEGUN:
        yield "steps_begun_was_dispatched"
    evidence = (step.receipt, step.resolution) != (None, None)
    if evidence or step.acted is not Acted.NO or step.reserved_micros:
        yield "steps_evidence_is_of_a_dispatch"


def _broken_by_call(step: Step) -> Iterator[str]:
    status, receipt = step.status, step.receipt
    if status in _UNBEGUN:
        yield "steps_unbegun_was_not"
    proven = receipt is Receipt.SUCCEEDED or step.resolution is Resolution.HAPPENED
    if status is StepStatus.SUCCEEDED and not (proven and step.released):
        yield "steps_success_has_evidence"
    if status in _UNACTED_ENDS and receipt is not Receipt.NOT_STARTED:
        yield "steps_unacted_end_has_evidence"
    if (
        status is StepStatus.UNKNOWN
        and step.acted is not Acted.UNKNOWN
        and receipt in (None, Receipt.UNKNOWN)
        and step.cause not in _CERTAIN_CAUSES
    ):
        yield "steps_unknown_says_why"
