"""Transitions of what is found out later: a resolution, what it opens again, what contradicts it.

A resolution never changes a receipt, and none of this calls a tool.
"""

from __future__ import annotations

from mayura.runtime.core import budget
from mayura.runtime.core import transitions as t
from mayura.runtime.core.altering import altered
from mayura.runtime.core.change import Applied, IllegalMove, begin, event_of, person_data, put
from mayura.runtime.core.moves import legal
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
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId

_OPPOSED = {
    Resolution.HAPPENED: (Receipt.FAILED, Receipt.NOT_STARTED),
    Resolution.NEVER: (Receipt.SUCCEEDED,),
}


def resolve(run: Run, x: t.Resolve) -> Applied:
    step = run.step(x.node)
    happened = x.resolution is Resolution.HAPPENED
    target = StepStatus.SUCCEEDED if happened else StepStatus.FAILED
    if step.dispatch is None or step.acted is Acted.NO or not legal("resolve", step.status, target):
        raise IllegalMove("resolve", x.node, step.status)
    if not happened and Receipt.SUCCEEDED in (step.receipt, step.contradiction):
        raise MayuraError(Code.CONFLICT, f"step {x.node!r}: its receipt says that it happened")
    after = altered(
        step,
        status=target,
        code=None if happened else Code.TOOL_FAILED,
        cause=None if happened else step.cause,
        acted=Acted.YES if happened else Acted.NO,
        output=step.output or x.output,
        released=happened,
        resolution=x.resolution,
        reserved_micros=0,
        charged_micros=step.charged_micros + x.charge_micros,
    )
    run = budget.settle(put(run, x.node, after), step.reserved_micros, x.charge_micros)
    event = event_of(
        "step.resolved",
        x.node,
        resolution=x.resolution,
        charged=x.charge_micros or None,
        command=x.command_id,
        **({} if x.person is None else person_data(x.person)),
    )
    return _going_on(run, (event,))


def reopen(run: Run, x: t.Reopen) -> Applied:
    step = begin(run, x.node, "reopen", StepStatus.PENDING)
    if run.cancelled or step.dispatch is not None:
        raise IllegalMove("reopen", x.node, step.status)
    return put(run, x.node, altered(step, status=StepStatus.PENDING)), (
        event_of("step.reopened", x.node),
    )


def contradicts(step: Step, receipt: Receipt) -> bool:
    """Whether a receipt says otherwise than what was found out before it came."""
    return step.resolution is not None and receipt in _OPPOSED[step.resolution]


def contradict(run: Run, node: NodeId) -> Applied:
    """Evidence came that opposes the resolution: nobody knows any more, and a person must look."""
    step = run.step(node)
    if not legal("contradict", step.status, StepStatus.UNKNOWN):
        return run, ()
    after = altered(
        step,
        status=StepStatus.UNKNOWN,
        code=Code.OUTCOME_UNKNOWN,
        cause=Cause.CONTRADICTED,
        acted=Acted.UNKNOWN,
        released=False,
    )
    event = event_of(
        "integrity.contradiction", node, receipt=step.receipt, resolution=step.resolution
    )
    return _going_on(put(run, node, after), (event,))


def _going_on(run: Run, events: tuple[t.Event, ...]) -> Applied:
    """An ended run whose step changed goes on, to settle again; a cancelled one does not."""
    if run.status not in SETTLED_RUNS or run.cancelled:
        return run, events
    run = altered(run, status=RunStatus.RUNNING, settled_at_us=None, result_code=None)
    return run, (*events, event_of("run.reopened"))
