"""`apply(run, transition)`: the only writer of a status. Pure; refuses every illegal move.

A refused move raises `IllegalMove` and changes nothing. Idempotent repeats (pause a paused run,
a receipt that is already there) return the run as it is and no events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from mayura.runtime.core import budget, receipts
from mayura.runtime.core import transitions as t
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.moves import legal
from mayura.runtime.core.state import (
    Acted,
    Approval,
    Cause,
    Question,
    Receipt,
    Run,
    RunStatus,
    Signal,
    Step,
    StepStatus,
    Timer,
)
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, Nonce

Applied = tuple[Run, tuple[t.Event, ...]]
T = TypeVar("T")


class IllegalMove(MayuraError):
    """The step is not where this move starts: somebody else was faster. Read again."""

    def __init__(self, move: str, node: NodeId, status: str) -> None:
        super().__init__(Code.CONFLICT, f"step {node!r} is {status}: it cannot {move}; read again")


def apply(run: Run, transition: t.Transition) -> Applied:
    """The run after `transition`, and what the journal says about it."""
    handler = _HANDLERS[type(transition)]
    return handler(run, transition)


def _put(run: Run, node: NodeId, step: Step) -> Run:
    steps = dict(run.steps)
    steps[node] = step
    return replace(run, steps=steps)


def _begin(run: Run, node: NodeId, move: str, target: StepStatus) -> Step:
    step = run.step(node)
    if not run.open or not legal(move, step.status, target):
        raise IllegalMove(move, node, step.status if run.open else f"in a {run.status} run")
    return step


def _event(kind: str, node: NodeId | None = None, **data: JsonValue) -> t.Event:
    return t.Event(kind, node, tuple((k, v) for k, v in data.items() if v is not None))


def _skip(run: Run, x: t.Skip) -> Applied:
    step = _begin(run, x.node, "skip", StepStatus.SKIPPED)
    after = replace(step, status=StepStatus.SKIPPED)
    return _put(run, x.node, after), (_event("step.skipped", x.node, because=x.because),)


def _bypass(run: Run, x: t.Bypass) -> Applied:
    step = _begin(run, x.node, "bypass", StepStatus.BYPASSED)
    after = replace(step, status=StepStatus.BYPASSED)
    return _put(run, x.node, after), (_event("step.bypassed", x.node),)


def _block(run: Run, x: t.Block) -> Applied:
    step = _begin(run, x.node, "block", StepStatus.BLOCKED)
    after = replace(step, status=StepStatus.BLOCKED, code=x.code)
    event = _event("step.blocked", x.node, code=x.code, detail=x.detail or None, acted=Acted.NO)
    return _put(run, x.node, after), (event,)


def _fail(run: Run, x: t.Fail) -> Applied:
    step = _begin(run, x.node, "fail", StepStatus.FAILED)
    after = replace(step, status=StepStatus.FAILED, code=x.code)
    event = _event("step.failed", x.node, code=x.code, detail=x.detail or None, acted=Acted.NO)
    return _put(run, x.node, after), (event,)


def _request_approval(run: Run, x: t.RequestApproval) -> Applied:
    step = _begin(run, x.node, "request_approval", StepStatus.WAITING)
    detail = Approval(digest=x.digest, expires_at_us=x.expires_at_us)
    after = replace(step, status=StepStatus.WAITING, detail=detail)
    event = _event(
        "approval.requested", x.node, digest=x.digest.hex(), expires_at_us=x.expires_at_us
    )
    return _put(run, x.node, after), (event,)


def _lapse(run: Run, x: t.LapseApproval) -> Applied:
    step = _begin(run, x.node, "lapse", StepStatus.PENDING)
    after = replace(step, status=StepStatus.PENDING, detail=None)
    return _put(run, x.node, after), (_event("approval.lapsed", x.node),)


def _person(person: t.Person) -> dict[str, JsonValue]:
    return {
        "person": person.id,
        "issuer": person.issuer or None,
        "method": person.method or None,
        "unverified": None if person.verified else True,
    }


def _approve(run: Run, x: t.Approve) -> Applied:
    step = _begin(run, x.node, "approve", StepStatus.PENDING)
    detail = _detail(step, Approval, x.node)
    decided = replace(detail, approved_by=x.person.id, decided_at_us=x.at_us)
    after = replace(step, status=StepStatus.PENDING, detail=decided)
    event = _event(
        "approval.approved",
        x.node,
        digest=detail.digest.hex(),
        command=x.command_id,
        **_person(x.person),
    )
    return _put(run, x.node, after), (event,)


def _reject(run: Run, x: t.Reject) -> Applied:
    step = _begin(run, x.node, "reject", StepStatus.BLOCKED)
    detail = _detail(step, Approval, x.node)
    after = replace(step, status=StepStatus.BLOCKED, code=Code.REJECTED)
    event = _event(
        "approval.rejected",
        x.node,
        digest=detail.digest.hex(),
        command=x.command_id,
        **_person(x.person),
    )
    return _put(run, x.node, after), (event,)


def _ask(run: Run, x: t.Ask) -> Applied:
    step = _begin(run, x.node, "ask", StepStatus.WAITING)
    detail = Question(digest=x.digest, deadline_us=x.deadline_us)
    after = replace(step, status=StepStatus.WAITING, detail=detail)
    event = _event(
        "question.asked", x.node, digest=x.digest.hex(), deadline_us=x.deadline_us
    )
    return _put(run, x.node, after), (event,)


def _answer(run: Run, x: t.Answer) -> Applied:
    step = _begin(run, x.node, "answer", StepStatus.WAITING)
    detail = _detail(step, Question, x.node)
    if detail.answer_digest is not None:
        raise IllegalMove("answer", x.node, "already answered")
    answered = replace(detail, answer_digest=x.digest, answered_by=x.person.id)
    event = _event("question.answered", x.node, command=x.command_id, **_person(x.person))
    return _put(run, x.node, replace(step, detail=answered)), (event,)


def _start_timer(run: Run, x: t.StartTimer) -> Applied:
    step = _begin(run, x.node, "start_timer", StepStatus.WAITING)
    after = replace(step, status=StepStatus.WAITING, detail=Timer(fire_at_us=x.fire_at_us))
    return _put(run, x.node, after), (_event("timer.started", x.node, fire_at_us=x.fire_at_us),)


def _await_signal(run: Run, x: t.AwaitSignal) -> Applied:
    step = _begin(run, x.node, "await_signal", StepStatus.WAITING)
    early = step.detail if isinstance(step.detail, Signal) else Signal()
    detail = replace(early, deadline_us=x.deadline_us)
    after = replace(step, status=StepStatus.WAITING, detail=detail)
    return _put(run, x.node, after), (_event("signal.awaited", x.node, deadline_us=x.deadline_us),)


def _receive(run: Run, x: t.ReceiveSignal) -> Applied:
    status = run.step(x.node).status
    kept = status in (StepStatus.SKIPPED, StepStatus.BYPASSED)
    step = _begin(run, x.node, "keep" if kept else "receive", status)
    detail = step.detail if isinstance(step.detail, Signal) else Signal()
    if detail.signal_id is not None:
        raise IllegalMove("receive", x.node, "already signalled")
    got = replace(
        detail, signal_id=x.signal_id, payload_digest=x.payload_digest, received_at_us=x.at_us
    )
    event = _event(
        "signal.received", x.node, signal=x.signal_id, without_effect=True if kept else None
    )
    return _put(run, x.node, replace(step, detail=got)), (event,)


def _accept(run: Run, x: t.Accept) -> Applied:
    step = _begin(run, x.node, "accept", StepStatus.SUCCEEDED)
    after = replace(step, status=StepStatus.SUCCEEDED, output=True, released=True)
    if isinstance(step.detail, Timer):
        after = replace(after, detail=replace(step.detail, fired_at_us=x.at_us))
    return _put(run, x.node, after), (_event("step.succeeded", x.node),)


def _time_out(run: Run, x: t.TimeOut) -> Applied:
    step = _begin(run, x.node, "time_out", StepStatus.TIMED_OUT)
    after = replace(step, status=StepStatus.TIMED_OUT, code=Code.TIMEOUT)
    return _put(run, x.node, after), (_event("step.timed_out", x.node),)


def _join(run: Run, x: t.Join) -> Applied:
    step = _begin(run, x.node, "join", StepStatus.SUCCEEDED)
    after = replace(step, status=StepStatus.SUCCEEDED, released=True)
    return _put(run, x.node, after), (_event("step.succeeded", x.node),)


def _dispatch(run: Run, x: t.Begin) -> Applied:
    step = _begin(run, x.node, "dispatch", StepStatus.DISPATCHING)
    if step.dispatch is not None:
        raise MayuraError(
            Code.INTEGRITY_VIOLATION, f"step {x.node!r} was dispatched before: its id is spent (G1)"
        )
    if not budget.affordable(run, x.reserved_micros):
        raise MayuraError(Code.BUDGET_EXCEEDED, f"step {x.node!r} does not fit the budget")
    after = replace(
        step,
        status=StepStatus.DISPATCHING,
        dispatch=x.dispatch,
        acted=Acted.UNKNOWN,
        reserved_micros=x.reserved_micros,
    )
    event = _event(
        "step.dispatching",
        x.node,
        call=x.call_id,
        nonce=x.dispatch.nonce.hex(),
        reserved=x.reserved_micros or None,
    )
    return budget.reserve(_put(run, x.node, after), x.reserved_micros), (event,)


def _own(run: Run, node: NodeId, nonce: Nonce) -> Step:
    step = run.step(node)
    if step.dispatch is None or step.dispatch.nonce != nonce:
        raise MayuraError(
            Code.INTEGRITY_VIOLATION,
            f"step {node!r} knows no dispatch of this nonce; the receipt was not stored",
        )
    return step


def _decline(run: Run, x: t.Decline) -> Applied:
    step = _own(run, x.node, x.nonce)
    run, events = _record(
        run, t.RecordReceipt(x.node, x.nonce, Receipt.NOT_STARTED, Acted.NO, None, 0, False)
    )
    if step.status is not StepStatus.DISPATCHING:
        return run, events
    target = StepStatus.SKIPPED if run.cancelled else StepStatus.BLOCKED
    step = _begin(run, x.node, "decline", target)
    after = replace(
        step, status=target, code=Code.CANCELLED if run.cancelled else x.code, acted=Acted.NO
    )
    event = _event("step.declined", x.node, code=x.code)
    return _put(run, x.node, after), (*events, event)


def _record(run: Run, x: t.RecordReceipt) -> Applied:
    step = _own(run, x.node, x.nonce)
    merged = receipts.merge(step.receipt, x.receipt)
    if merged in ("same", "ignored"):
        return run, ()
    if merged == "contradiction":
        if step.contradiction is not None:
            return run, ()
        event = _event(
            "integrity.contradiction", x.node, receipt=step.receipt, contradicted_by=x.receipt
        )
        return _put(run, x.node, replace(step, contradiction=x.receipt)), (event,)
    charge_micros = x.charge_micros
    after = replace(
        step,
        receipt=x.receipt,
        acted=x.acted,
        cause=x.cause or step.cause,
        output=step.output or x.output,
    )
    events: tuple[t.Event, ...] = (
        _event("step.receipt", x.node, receipt=x.receipt, cause=x.cause, charged=charge_micros or None),
    )
    if charge_micros is None:
        return _put(run, x.node, after), events
    run, overrun = _charge(run, x.node, after, charge_micros)
    return run, events + overrun


def _charge(run: Run, node: NodeId, step: Step, charge_micros: int) -> Applied:
    reserved_micros = step.reserved_micros
    after = replace(step, reserved_micros=0, charged_micros=charge_micros)
    run = budget.settle(_put(run, node, after), reserved_micros, charge_micros)
    over_micros = charge_micros - reserved_micros
    if over_micros <= 0:
        return run, ()
    return run, (_event("budget.overrun", node, over=over_micros),)


def _complete(run: Run, x: t.Complete) -> Applied:
    _own(run, x.node, x.nonce)
    step = _begin(run, x.node, "complete", x.status)
    after = replace(
        step,
        status=x.status,
        code=x.code,
        cause=x.cause,
        acted=x.acted,
        released=x.status is StepStatus.SUCCEEDED,
    )
    event = _event(
        f"step.{x.status}",
        x.node,
        code=x.code,
        cause=x.cause,
        acted=None if x.status is StepStatus.SUCCEEDED else x.acted,
    )
    return _put(run, x.node, after), (event,)


def _abandon(run: Run, x: t.Abandon) -> Applied:
    _own(run, x.node, x.nonce)
    step = _begin(run, x.node, "abandon", x.status)
    after = replace(step, status=x.status, code=x.code, cause=Cause.ABANDONED, acted=x.acted)
    events: tuple[t.Event, ...] = (
        _event(
            "step.abandoned",
            x.node,
            status=x.status,
            receipt=step.receipt,
            acted=x.acted,
            command=x.command_id,
        ),
    )
    if x.charge_micros is None:
        return _put(run, x.node, after), events
    run, overrun = _charge(run, x.node, after, x.charge_micros)
    return run, events + overrun


def _detail(step: Step, kind: type[T], node: NodeId) -> T:
    if not isinstance(step.detail, kind):
        raise IllegalMove(f"take a decision for {kind.__name__.lower()}", node, step.status)
    return step.detail


def _open(run: Run, move: str) -> None:
    if not run.open:
        raise MayuraError(Code.CONFLICT, f"the run is {run.status}: it cannot {move}")


def _pause(run: Run, x: t.Pause) -> Applied:
    _open(run, "pause")
    if run.paused_at_us is not None:
        return run, ()
    event = _event("run.pause_requested", command=x.command_id, by=x.by)
    return replace(run, paused_at_us=x.at_us), (event,)


def _resume(run: Run, x: t.Resume) -> Applied:
    _open(run, "resume")
    if run.paused_at_us is None:
        return run, ()
    lost_us = max(0, x.at_us - run.paused_at_us)
    steps = {node: _allow(step, lost_us) for node, step in run.steps.items()}
    event = _event("run.resumed", command=x.command_id, by=x.by, allowance_us=lost_us)
    return replace(run, paused_at_us=None, status=RunStatus.RUNNING, steps=steps), (event,)


def _allow(step: Step, lost_us: int) -> Step:
    """Give an open request the time that a pause took, beside its digest (G13)."""
    waits = step.status in (StepStatus.WAITING, StepStatus.PENDING)
    if waits and isinstance(step.detail, Approval | Question | Signal):
        detail = replace(step.detail, allowance_us=step.detail.allowance_us + lost_us)
        return replace(step, detail=detail)
    return step


def _cancel(run: Run, x: t.Cancel) -> Applied:
    if run.cancelled:
        return run, ()
    _open(run, "cancel")
    return replace(run, cancelled=True), (_event("run.cancelled", command=x.command_id, by=x.by),)


def _rest(run: Run, x: t.Rest) -> Applied:
    _open(run, "rest")
    after = replace(run, status=x.status, wake_at_us=x.wake_at_us)
    if x.status is run.status:
        return after, ()
    return after, (_event(f"run.{x.status}"),)


def _settle(run: Run, x: t.Settle) -> Applied:
    _open(run, "settle")
    after = replace(
        run,
        status=x.status,
        result_code=x.code,
        settled_at_us=x.at_us,
        settlement=run.settlement + 1,
        wake_at_us=None,
        paused_at_us=None,
    )
    event = _event("run.settled", status=x.status, code=x.code, settlement=after.settlement)
    return after, (event,)


_HANDLERS: dict[type, Callable[..., Applied]] = {
    t.Skip: _skip,
    t.Bypass: _bypass,
    t.Block: _block,
    t.Fail: _fail,
    t.RequestApproval: _request_approval,
    t.LapseApproval: _lapse,
    t.Approve: _approve,
    t.Reject: _reject,
    t.Ask: _ask,
    t.Answer: _answer,
    t.StartTimer: _start_timer,
    t.AwaitSignal: _await_signal,
    t.ReceiveSignal: _receive,
    t.Accept: _accept,
    t.TimeOut: _time_out,
    t.Join: _join,
    t.Begin: _dispatch,
    t.Decline: _decline,
    t.RecordReceipt: _record,
    t.Complete: _complete,
    t.Abandon: _abandon,
    t.Pause: _pause,
    t.Resume: _resume,
    t.Cancel: _cancel,
    t.Rest: _rest,
    t.Settle: _settle,
}
