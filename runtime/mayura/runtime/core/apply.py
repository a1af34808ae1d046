"""`apply(run, transition)`: the only writer of a status. Pure; refuses every illegal move.

A refused move raises `IllegalMove` and changes nothing. Idempotent repeats (pause a paused run,
a receipt that is already there) return the run as it is and no events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mayura.runtime.core import apply_calls as calls
from mayura.runtime.core import apply_resolutions as resolutions
from mayura.runtime.core import apply_waits as waits
from mayura.runtime.core import transitions as t
from mayura.runtime.core.altering import altered
from mayura.runtime.core.change import Applied, begin, event_of, put, without_effect
from mayura.runtime.core.state import (
    SETTLED_RUNS,
    TERMINAL_STEPS,
    Acted,
    Approval,
    Question,
    Run,
    RunStatus,
    Signal,
    Step,
    StepStatus,
)
from mayura.runtime.errors import Code, MayuraError


def apply(run: Run, transition: t.Transition) -> Applied:
    """The run after `transition`, and what the journal says about it."""
    handler = _HANDLERS[type(transition)]
    return handler(run, transition)


def _skip(run: Run, x: t.Skip) -> Applied:
    step = begin(run, x.node, "skip", StepStatus.SKIPPED)
    after = altered(step, status=StepStatus.SKIPPED)
    event = event_of("step.skipped", x.node, because=x.because)
    return put(run, x.node, after), (event, *without_effect(x.node, step))


def _bypass(run: Run, x: t.Bypass) -> Applied:
    step = begin(run, x.node, "bypass", StepStatus.BYPASSED)
    after = altered(step, status=StepStatus.BYPASSED)
    event = event_of("step.bypassed", x.node)
    return put(run, x.node, after), (event, *without_effect(x.node, step))


def _block(run: Run, x: t.Block) -> Applied:
    step = begin(run, x.node, "block", StepStatus.BLOCKED)
    after = altered(step, status=StepStatus.BLOCKED, code=x.code)
    event = event_of("step.blocked", x.node, code=x.code, detail=x.detail or None, acted=Acted.NO)
    return put(run, x.node, after), (event,)


def _fail(run: Run, x: t.Fail) -> Applied:
    step = begin(run, x.node, "fail", StepStatus.FAILED)
    after = altered(step, status=StepStatus.FAILED, code=x.code)
    # Its detail names a place in a value, and a key of a mapping is a part of that value.
    event = event_of("step.failed", x.node, code=x.code, acted=Acted.NO)
    return put(run, x.node, after), (event,)


def _join(run: Run, x: t.Join) -> Applied:
    step = begin(run, x.node, "join", StepStatus.SUCCEEDED)
    after = altered(step, status=StepStatus.SUCCEEDED, released=True)
    return put(run, x.node, after), (event_of("step.succeeded", x.node),)


def _open(run: Run, move: str) -> None:
    if not run.open:
        raise MayuraError(Code.CONFLICT, f"the run is {run.status}: it cannot {move}")


def _pause(run: Run, x: t.Pause) -> Applied:
    _open(run, "pause")
    if run.paused_at_us is not None:
        return run, ()
    event = event_of("run.pause_requested", command=x.command_id, by=x.by)
    return altered(run, paused_at_us=x.at_us), (event,)


def _resume(run: Run, x: t.Resume) -> Applied:
    _open(run, "resume")
    if run.paused_at_us is None:
        return run, ()
    lost_us = max(0, x.at_us - run.paused_at_us)
    steps = {n: _allow(step, run.paused_at_us, x.at_us) for n, step in run.steps.items()}
    event = event_of("run.resumed", command=x.command_id, by=x.by, allowance_us=lost_us)
    return altered(run, paused_at_us=None, status=RunStatus.RUNNING, steps=steps), (event,)


def _allow(step: Step, paused_at_us: int, at_us: int) -> Step:
    """Give an open request the time that a pause took, beside its digest (G13).

    An approval given during the pause lost what came after it; a signal that came before its
    step began lost nothing.
    """
    waits = step.status is StepStatus.WAITING
    match step.detail:
        case Approval(decided_at_us=int(decided_at_us)) if step.status is StepStatus.PENDING:
            lost_us = at_us - max(paused_at_us, decided_at_us)
        case Approval() | Question() | Signal() if waits:
            lost_us = at_us - paused_at_us
        case _:
            return step
    allowance_us = step.detail.allowance_us + max(0, lost_us)
    return altered(step, detail=altered(step.detail, allowance_us=allowance_us))


def _cancel(run: Run, x: t.Cancel) -> Applied:
    if run.cancelled:
        return run, ()
    _open(run, "cancel")
    return altered(run, cancelled=True), (event_of("run.cancelled", command=x.command_id, by=x.by),)


def _rest(run: Run, x: t.Rest) -> Applied:
    _open(run, "rest")
    if x.status in SETTLED_RUNS:
        raise MayuraError(Code.CONFLICT, f"a run that rests is open: it cannot be {x.status}")
    after = altered(run, status=x.status, wake_at_us=x.wake_at_us)
    if x.status is run.status:
        return after, ()
    return after, (event_of(f"run.{x.status}"),)


def _settle(run: Run, x: t.Settle) -> Applied:
    _open(run, "settle")
    unsettled = [node for node, step in run.steps.items() if step.status not in TERMINAL_STEPS]
    if unsettled or x.status not in SETTLED_RUNS:
        raise MayuraError(Code.CONFLICT, f"the run cannot settle as {x.status}: a step is open")
    after = altered(
        run,
        status=x.status,
        result_code=x.code,
        settled_at_us=x.at_us,
        settlement=run.settlement + 1,
        wake_at_us=None,
        paused_at_us=None,
    )
    event = event_of("run.settled", status=x.status, code=x.code, settlement=after.settlement)
    return after, (event,)


_HANDLERS: Final[Mapping[type, Callable[..., Applied]]] = {
    t.Skip: _skip,
    t.Bypass: _bypass,
    t.Block: _block,
    t.Fail: _fail,
    t.RequestApproval: waits.request_approval,
    t.LapseApproval: waits.lapse,
    t.Approve: waits.approve,
    t.Reject: waits.reject,
    t.Ask: waits.ask,
    t.Answer: waits.answer,
    t.StartTimer: waits.start_timer,
    t.AwaitSignal: waits.await_signal,
    t.ReceiveSignal: waits.receive,
    t.Accept: waits.accept,
    t.TimeOut: waits.time_out,
    t.Join: _join,
    t.Begin: calls.dispatch,
    t.Decline: calls.decline,
    t.RecordReceipt: calls.record,
    t.Complete: calls.complete,
    t.Abandon: calls.abandon,
    t.Resolve: resolutions.resolve,
    t.Reopen: resolutions.reopen,
    t.Pause: _pause,
    t.Resume: _resume,
    t.Cancel: _cancel,
    t.Rest: _rest,
    t.Settle: _settle,
}
