"""How a call ended, and what that makes of its step (G4, G9, G10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mayura.runtime.core.definition import ToolSpec
from mayura.runtime.core.state import Acted, Cause, Receipt, RunStatus, Step, StepStatus
from mayura.runtime.errors import Code

Ending = Literal["returned", "refused", "raised", "timed_out", "cancelled"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the receipt of a call says, decided before anybody looks at the output (G4)."""

    receipt: Receipt
    acted: Acted
    cause: Cause | None
    charge_micros: int | None  #: None: the reservation stays (G14)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of the step."""

    status: StepStatus
    code: Code | None
    cause: Cause | None
    acted: Acted
    detail: str = ""  #: why an output was not released: its place and rule, a guard or a limit


_CAUSES: dict[Ending, Cause] = {
    "raised": Cause.EXCEPTION,
    "timed_out": Cause.TIMEOUT,
    "cancelled": Cause.CANCELLED,
}
_FAILURES: dict[Ending, Code] = {
    "refused": Code.TOOL_FAILED,
    "raised": Code.TOOL_FAILED,
    "timed_out": Code.TIMEOUT,
    "cancelled": Code.CANCELLED,
}


def evidence(
    spec: ToolSpec, ending: Ending, known_micros: int | None, unknown_micros: int
) -> Evidence:
    """The receipt of a call that ended so and reported that it cost so much (None: nothing).

    A refusal after usage was reported is an ordinary exception: it did something.
    """
    if ending == "refused" and (known_micros is not None or unknown_micros > 0):
        ending = "raised"
    if ending == "refused":
        return Evidence(Receipt.NOT_STARTED, Acted.NO, Cause.REFUSED, 0)
    charge = spec.cost_micros if known_micros is None else known_micros
    if unknown_micros > 0:
        acted = Acted.NO if spec.changes_nothing else Acted.UNKNOWN
        returned = ending == "returned"
        if returned and not spec.changes_nothing:
            acted = Acted.YES
        receipt = Receipt.SUCCEEDED if returned else Receipt.UNKNOWN
        return Evidence(receipt, acted, Cause.COST_UNKNOWN, None)
    if ending == "returned":
        acted = Acted.NO if spec.changes_nothing else Acted.YES
        return Evidence(Receipt.SUCCEEDED, acted, None, charge)
    if spec.changes_nothing:
        return Evidence(Receipt.FAILED, Acted.NO, _CAUSES[ending], charge)
    return Evidence(Receipt.UNKNOWN, Acted.UNKNOWN, _CAUSES[ending], None)


def without_output(spec: ToolSpec, ending: Ending, found: Evidence) -> Outcome:
    """The step of a call that did not return, or whose cost nobody knows."""
    if found.cause is Cause.COST_UNKNOWN or found.receipt is Receipt.UNKNOWN:
        return Outcome(StepStatus.UNKNOWN, Code.OUTCOME_UNKNOWN, found.cause, found.acted)
    return Outcome(StepStatus.FAILED, _FAILURES[ending], found.cause, found.acted)


def succeeded(spec: ToolSpec) -> Outcome:
    """The step of a call whose output is released."""
    acted = Acted.NO if spec.changes_nothing else Acted.YES
    return Outcome(StepStatus.SUCCEEDED, None, None, acted)


def withheld(spec: ToolSpec, code: Code, detail: str = "") -> Outcome:
    """The step of a call that succeeded with an output that may not be released.

    What may have acted never ends `failed` (G10); a guard's no is `blocked` for every tool.
    """
    if spec.changes_nothing:
        blocked = code in (Code.GUARD_BLOCKED, Code.GUARD_UNAVAILABLE)
        status = StepStatus.BLOCKED if blocked else StepStatus.FAILED
        return Outcome(status, code, None, Acted.NO, detail)
    return Outcome(StepStatus.BLOCKED, code, None, Acted.YES, detail)


def abandoned(spec: ToolSpec, step: Step) -> tuple[Outcome, int | None]:
    """The step of a call that nobody has any more, and what it is charged (G9, G14)."""
    if step.contradiction is not None:
        unknown = StepStatus.UNKNOWN, Code.OUTCOME_UNKNOWN
        return Outcome(*unknown, Cause.CONTRADICTED, step.acted), None
    if step.receipt is Receipt.SUCCEEDED:
        acted = Acted.NO if spec.changes_nothing else Acted.YES
        return Outcome(StepStatus.BLOCKED, Code.ABANDONED, Cause.ABANDONED, acted), None
    if step.receipt in (Receipt.FAILED, Receipt.NOT_STARTED):
        return Outcome(StepStatus.FAILED, Code.ABANDONED, Cause.ABANDONED, Acted.NO), None
    if spec.changes_nothing:
        outcome = Outcome(StepStatus.FAILED, Code.ABANDONED, Cause.ABANDONED, Acted.NO)
        return outcome, step.reserved_micros
    outcome = Outcome(StepStatus.UNKNOWN, Code.OUTCOME_UNKNOWN, Cause.ABANDONED, Acted.UNKNOWN)
    return outcome, None


def of_run(statuses: frozenset[StepStatus], *, cancelled: bool) -> RunStatus:
    """The settled status is that of the worst step: unknown > blocked > failed."""
    if cancelled:
        return RunStatus.CANCELLED
    if StepStatus.UNKNOWN in statuses:
        return RunStatus.OUTCOME_UNKNOWN
    if StepStatus.BLOCKED in statuses:
        return RunStatus.BLOCKED
    if statuses & {StepStatus.FAILED, StepStatus.TIMED_OUT, StepStatus.SKIPPED}:
        return RunStatus.FAILED
    return RunStatus.SUCCEEDED
