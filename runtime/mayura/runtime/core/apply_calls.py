"""Transitions of calls: dispatch, receipt, completion, and what replaces a completion."""

from __future__ import annotations

from dataclasses import replace

from mayura.runtime.core import apply_resolutions as resolutions
from mayura.runtime.core import budget, receipts
from mayura.runtime.core import transitions as t
from mayura.runtime.core.altering import altered
from mayura.runtime.core.change import Applied, IllegalMove, begin, event_of, person_data, put
from mayura.runtime.core.state import Acted, Cause, Receipt, Run, Step, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, Nonce


def dispatch(run: Run, x: t.Begin) -> Applied:
    step = begin(run, x.node, "dispatch", StepStatus.DISPATCHING)
    if step.dispatch is not None:
        raise MayuraError(
            Code.INTEGRITY_VIOLATION, f"step {x.node!r} was dispatched before: its id is spent (G1)"
        )
    if run.cancelled or run.paused_at_us is not None:
        raise IllegalMove("dispatch", x.node, "in a run that is cancelled or paused")
    if not budget.affordable(run, x.reserved_micros):
        raise MayuraError(Code.BUDGET_EXCEEDED, f"step {x.node!r} does not fit the budget")
    after = altered(
        step,
        status=StepStatus.DISPATCHING,
        dispatch=x.dispatch,
        acted=x.acted,
        reserved_micros=x.reserved_micros,
    )
    event = event_of(
        "step.dispatching",
        x.node,
        call=x.call_id,
        key=x.key,
        nonce=x.dispatch.nonce.hex(),
        once=None if x.once is None else x.once.hex(),
        reserved=x.reserved_micros or None,
    )
    return budget.reserve(put(run, x.node, after), x.reserved_micros), (event,)


def _own(run: Run, node: NodeId, nonce: Nonce) -> Step:
    step = run.step(node)
    if step.dispatch is None or step.dispatch.nonce != nonce:
        raise MayuraError(
            Code.INTEGRITY_VIOLATION,
            f"step {node!r} knows no dispatch of this nonce; the receipt was not stored",
        )
    return step


def decline(run: Run, x: t.Decline) -> Applied:
    step = _own(run, x.node, x.nonce)
    run, events = record(
        run, t.RecordReceipt(x.node, x.nonce, Receipt.NOT_STARTED, Acted.NO, None, 0, False)
    )
    if step.status is not StepStatus.DISPATCHING or run.step(x.node).contradiction is not None:
        return run, events
    target = StepStatus.SKIPPED if run.cancelled else StepStatus.BLOCKED
    step = begin(run, x.node, "decline", target)
    after = altered(
        step,
        status=target,
        code=Code.CANCELLED if run.cancelled else x.code,
        cause=Cause.DECLINED,
        acted=Acted.NO,
    )
    event = event_of("step.declined", x.node, code=x.code)
    return put(run, x.node, after), (*events, event)


def record(run: Run, x: t.RecordReceipt) -> Applied:
    step = _own(run, x.node, x.nonce)
    merged = receipts.merge(step.receipt, x.receipt)
    if merged in ("same", "ignored"):
        return run, ()
    if merged == "contradiction":
        if step.contradiction is not None:
            return run, ()
        event = event_of(
            "integrity.contradiction", x.node, receipt=step.receipt, contradicted_by=x.receipt
        )
        acted = step.acted if step.acted is x.acted else Acted.UNKNOWN
        return put(run, x.node, altered(step, contradiction=x.receipt, acted=acted)), (event,)
    charge_micros = x.charge_micros
    resolved = step.resolution is not None  # what was found out stands until this opposes it
    after = altered(
        step,
        receipt=x.receipt,
        acted=step.acted if resolved else x.acted,
        cause=step.cause if resolved else x.cause or step.cause,
        output=step.output or x.output,
    )
    events: tuple[t.Event, ...] = (
        event_of(
            "step.receipt",
            x.node,
            receipt=x.receipt,
            cause=x.cause,
            charged=charge_micros or None,
            usage="rejected" if x.usage_rejected else None,
        ),
    )
    run = put(run, x.node, after)
    if charge_micros is not None:
        run, overrun = _charge(run, x.node, after, charge_micros)
        events += overrun
    if resolutions.contradicts(after, x.receipt):
        run, contradicted = resolutions.contradict(run, x.node)
        events += contradicted
    return run, events


def _charge(run: Run, node: NodeId, step: Step, charge_micros: int) -> Applied:
    """Settle what a call cost; what its abandonment charged already is not charged again."""
    reserved_micros, charged_micros = step.reserved_micros, step.charged_micros
    more_micros = max(0, charge_micros - charged_micros)
    after = altered(step, reserved_micros=0, charged_micros=charged_micros + more_micros)
    run = budget.settle(put(run, node, after), reserved_micros, more_micros)
    over_micros = more_micros - reserved_micros
    if over_micros <= 0:
        return run, ()
    return run, (event_of("budget.overrun", node, over=over_micros),)


def complete(run: Run, x: t.Complete) -> Applied:
    step = _own(run, x.node, x.nonce)
    if step.contradiction is not None:
        x = replace(
            x,
            status=StepStatus.UNKNOWN,
            code=Code.OUTCOME_UNKNOWN,
            cause=Cause.CONTRADICTED,
            acted=step.acted,
        )
    elif x.acted is Acted.UNKNOWN and step.receipt not in (None, Receipt.UNKNOWN):
        x = replace(x, acted=step.acted)  # evidence came from elsewhere, and it says more
    step = begin(run, x.node, "complete", x.status)
    _refuse_false_end(step, x)
    after = altered(
        step,
        status=x.status,
        code=x.code,
        cause=x.cause,
        acted=x.acted,
        released=x.status is StepStatus.SUCCEEDED,
    )
    event = event_of(
        f"step.{x.status}",
        x.node,
        code=x.code,
        cause=x.cause,
        acted=None if x.status is StepStatus.SUCCEEDED else x.acted,
    )
    return put(run, x.node, after), (event,)


def _refuse_false_end(step: Step, x: t.Complete | t.Abandon) -> None:
    """What may have acted never ends `failed` (G10); what succeeded has the evidence (G4)."""
    unproven = x.status is StepStatus.SUCCEEDED and step.receipt is not Receipt.SUCCEEDED
    if unproven or (x.status is StepStatus.FAILED and x.acted is not Acted.NO):
        raise MayuraError(
            Code.INTEGRITY_VIOLATION, f"step {x.node!r} cannot end {x.status}: its receipt differs"
        )


def abandon(run: Run, x: t.Abandon) -> Applied:
    _own(run, x.node, x.nonce)
    step = begin(run, x.node, "abandon", x.status)
    _refuse_false_end(step, x)
    cause = Cause.ABANDONED if step.contradiction is None else Cause.CONTRADICTED
    after = altered(step, status=x.status, code=x.code, cause=cause, acted=x.acted)
    events: tuple[t.Event, ...] = (
        event_of(
            "step.abandoned",
            x.node,
            status=x.status,
            receipt=step.receipt,
            acted=x.acted,
            command=x.command_id,
            **({} if x.person is None else person_data(x.person)),
        ),
    )
    if x.charge_micros is None:
        return put(run, x.node, after), events
    run, overrun = _charge(run, x.node, after, x.charge_micros)
    return run, events + overrun
