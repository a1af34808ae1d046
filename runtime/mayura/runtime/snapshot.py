"""What anybody may see of a run: one reading, without a payload unless it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mayura.runtime.core.definition import Definition, JsonValue
from mayura.runtime.core.state import (
    SETTLED_RUNS,
    Acted,
    Cause,
    Receipt,
    Resolution,
    Run,
    RunStatus,
    Step,
    StepStatus,
)
from mayura.runtime.core.why import why
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId, RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step as a reader sees it."""

    status: StepStatus
    code: Code | None
    cause: Cause | None
    receipt: Receipt | None
    contradiction: Receipt | None
    resolution: Resolution | None  #: what was found out later, beside the receipt
    acted: Acted
    reserved_micros: int
    charged_micros: int
    key: str | None  #: of its call, for the provider; see `Inspection.inspect` for when it is None
    output: JsonValue = None  #: released and asked for; else None
    reason: str | None = None  #: why it did not succeed: a place and its rule, a limit, a grant
    refusal: str | None = None  #: why the tool, or the person who was asked, said no: their words


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """The run's money, in micros (G14)."""

    maximum_micros: int
    spent_micros: int
    reserved_micros: int
    overrun_micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One run at one revision."""

    id: RunId
    key: str
    workflow: str
    version: str
    status: RunStatus
    acted: Acted  #: whether anything outside may have changed (G10)
    steps: Mapping[NodeId, StepView]
    output: JsonValue
    code: Code | None  #: why a run whose steps all succeeded did not
    reason: str | None  #: in which place its result does not fit, or which limit that passes
    budget: BudgetView
    next_wake_at_us: int | None  #: when it is looked at again, due now included; None: when told
    revision: int
    settlement: int
    cancelled: bool
    pausing: bool
    why: str

    @property
    def settled(self) -> bool:
        """Whether the run has come to its end."""
        return self.status in SETTLED_RUNS


def snapshot(
    definition: Definition,
    run: Run,
    *,
    accepted: bool,
    output: JsonValue = None,
    outputs: Mapping[NodeId, JsonValue] | None = None,
    refusals: Mapping[NodeId, str],
    reasons: Mapping[NodeId, str],
    reason: str | None,
    keys: Mapping[NodeId, str],
) -> Snapshot:
    """Put a reading together.

    `outputs` holds the released step outputs that were asked for, `keys` the keys of the calls of
    its steps, `refusals` and `reasons` why those did not succeed, `reason` why the run did not.
    """
    shown = outputs or {}
    steps: dict[NodeId, StepView] = {
        node.id: _seen(
            run.step(node.id),
            key=keys.get(node.id),
            output=shown.get(node.id),
            reason=reasons.get(node.id),
            refusal=refusals.get(node.id),
        )
        for node in definition.nodes
    }
    return Snapshot(
        id=run.run_id,
        key=run.key,
        workflow=definition.id,
        version=definition.version,
        status=run.status,
        acted=acted(steps),
        steps=steps,
        output=output,
        code=run.result_code,
        reason=reason,
        budget=BudgetView(
            maximum_micros=run.maximum_micros,
            spent_micros=run.spent_micros,
            reserved_micros=run.reserved_micros,
            overrun_micros=run.overrun_micros,
        ),
        next_wake_at_us=run.wake_at_us,
        revision=run.version,
        settlement=run.settlement,
        cancelled=run.cancelled,
        pausing=run.paused_at_us is not None,
        why=why(
            definition,
            run,
            accepted=accepted,
            keys=keys,
            reasons={**refusals, **reasons},
            reason=reason,
        ),
    )


def _seen(
    step: Step, *, key: str | None, output: JsonValue, reason: str | None, refusal: str | None
) -> StepView:
    return StepView(
        status=step.status,
        code=step.code,
        cause=step.cause,
        receipt=step.receipt,
        contradiction=step.contradiction,
        resolution=step.resolution,
        acted=step.acted,
        reserved_micros=step.reserved_micros,
        charged_micros=step.charged_micros,
        key=key,
        output=output,
        reason=reason,
        refusal=refusal,
    )


def acted(steps: Mapping[NodeId, StepView]) -> Acted:
    """A run may have acted if one of its steps may have; `unknown` weighs most (G10)."""
    found = {step.acted for step in steps.values()}
    for weight in (Acted.UNKNOWN, Acted.YES):
        if weight in found:
            return weight
    return Acted.NO
