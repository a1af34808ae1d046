"""Where a run stands: at rest while steps are open, and how it ends when none is."""

from __future__ import annotations

from mayura.runtime.core import deadlines, outcome, values
from mayura.runtime.core import transitions as t
from mayura.runtime.core.binding import Unresolved
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.decision import SATISFIED, View
from mayura.runtime.core.definition import Definition
from mayura.runtime.core.reading import Reading, sources
from mayura.runtime.core.state import TERMINAL_STEPS, Instant, Run, RunStatus, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import PayloadName


def ended(definition: Definition, run: Run) -> bool:
    """Whether no step is open. Looks from the end: the last nodes end last."""
    return all(run.step(node.id).status in TERMINAL_STEPS for node in reversed(definition.nodes))


def end_reads(definition: Definition, run: Run) -> frozenset[PayloadName]:
    """The payloads that the end of a run with no open step reads: those of its result, if any."""
    if run.cancelled or any(run.step(n.id).status not in SATISFIED for n in definition.nodes):
        return frozenset()
    return frozenset(sources(definition, run, (definition.result,)))


def settled(view: View) -> t.Settle | None:
    """The end of a run with no open step; None where only the code can judge the result."""
    run = view.run
    statuses = frozenset(run.step(node.id).status for node in view.definition.nodes)
    status = outcome.of_run(statuses, cancelled=run.cancelled)
    if status is not RunStatus.SUCCEEDED:
        return t.Settle(status, None, view.now.wall_us)
    if view.code is None:
        return None
    try:
        reading = Reading(view.definition, run, view.payloads)
        result = view.code.check_result(reading.resolve(view.definition.result))
        size = len(values.encode(result))
    except (Invalid, Unresolved, MayuraError) as invalid:
        code, now_us = Code.INVALID_OUTPUT, view.now.wall_us
        return t.Settle(RunStatus.FAILED, code, now_us, str(invalid))
    if size > view.policy.output_bytes_max:
        detail = f"the result has {size} bytes; the limit is {view.policy.output_bytes_max}"
        return t.Settle(RunStatus.FAILED, Code.LIMIT_EXCEEDED, view.now.wall_us, detail)
    return t.Settle(status, None, view.now.wall_us)


def rest(run: Run, now: Instant, *, due_now: bool) -> t.Rest:
    """Where the run stands while steps are open. `due_now`: a call is ready but not admitted."""
    due_now = due_now and run.paused_at_us is None
    dispatching = StepStatus.DISPATCHING in [step.status for step in run.steps.values()]
    if run.paused_at_us is not None and not dispatching:
        status = RunStatus.PAUSED
    elif dispatching or due_now or run.cancelled:
        status = RunStatus.RUNNING
    else:
        status = RunStatus.WAITING
    wanted_us = now.wall_us if due_now else deadlines.next_wake_us(run, now)
    return t.Rest(status, deadlines.kept_wake_us(run.wake_at_us, wanted_us, now))
