"""Transitions of steps that wait: for approval, a person, a timer or a signal."""

from __future__ import annotations

from mayura.runtime.core import transitions as t
from mayura.runtime.core.altering import altered
from mayura.runtime.core.change import (
    Applied,
    IllegalMove,
    begin,
    detail_of,
    event_of,
    person_data,
    put,
    without_effect,
)
from mayura.runtime.core.state import Approval, Question, Run, Signal, StepStatus, Timer
from mayura.runtime.errors import Code


def request_approval(run: Run, x: t.RequestApproval) -> Applied:
    step = begin(run, x.node, "request_approval", StepStatus.WAITING)
    detail = Approval(digest=x.digest, expires_at_us=x.expires_at_us)
    after = altered(step, status=StepStatus.WAITING, detail=detail)
    event = event_of(
        "approval.requested", x.node, digest=x.digest.hex(), expires_at_us=x.expires_at_us
    )
    return put(run, x.node, after), (event,)


def lapse(run: Run, x: t.LapseApproval) -> Applied:
    step = begin(run, x.node, "lapse", StepStatus.PENDING)
    detail_of(step, Approval, "lapse", x.node)
    after = altered(step, status=StepStatus.PENDING, detail=None)
    return put(run, x.node, after), (event_of("approval.lapsed", x.node),)


def approve(run: Run, x: t.Approve) -> Applied:
    step = begin(run, x.node, "approve", StepStatus.PENDING)
    detail = detail_of(step, Approval, "approve", x.node)
    decided = altered(
        detail, approved=True, decided_by=x.person.id, decided_at_us=x.at_us, allowance_us=0
    )
    after = altered(step, status=StepStatus.PENDING, detail=decided)
    event = event_of(
        "approval.approved",
        x.node,
        digest=detail.digest.hex(),
        command=x.command_id,
        **person_data(x.person),
    )
    return put(run, x.node, after), (event,)


def reject(run: Run, x: t.Reject) -> Applied:
    step = begin(run, x.node, "reject", StepStatus.BLOCKED)
    detail = detail_of(step, Approval, "reject", x.node)
    decided = altered(detail, approved=False, decided_by=x.person.id, decided_at_us=x.at_us)
    after = altered(step, status=StepStatus.BLOCKED, code=Code.REJECTED, detail=decided)
    event = event_of(
        "approval.rejected",
        x.node,
        digest=detail.digest.hex(),
        command=x.command_id,
        **person_data(x.person),
    )
    return put(run, x.node, after), (event,)


def ask(run: Run, x: t.Ask) -> Applied:
    step = begin(run, x.node, "ask", StepStatus.WAITING)
    detail = Question(digest=x.digest, deadline_us=x.deadline_us)
    after = altered(step, status=StepStatus.WAITING, detail=detail)
    event = event_of("question.asked", x.node, digest=x.digest.hex(), deadline_us=x.deadline_us)
    return put(run, x.node, after), (event,)


def answer(run: Run, x: t.Answer) -> Applied:
    step = begin(run, x.node, "answer", StepStatus.WAITING)
    detail = detail_of(step, Question, "answer", x.node)
    if detail.answer_digest is not None:
        raise IllegalMove("answer", x.node, "already answered")
    answered = altered(detail, answer_digest=x.digest, answered_by=x.person.id)
    event = event_of("question.answered", x.node, command=x.command_id, **person_data(x.person))
    return put(run, x.node, altered(step, detail=answered)), (event,)


def start_timer(run: Run, x: t.StartTimer) -> Applied:
    step = begin(run, x.node, "start_timer", StepStatus.WAITING)
    after = altered(step, status=StepStatus.WAITING, detail=Timer(fire_at_us=x.fire_at_us))
    return put(run, x.node, after), (event_of("timer.started", x.node, fire_at_us=x.fire_at_us),)


def await_signal(run: Run, x: t.AwaitSignal) -> Applied:
    step = begin(run, x.node, "await_signal", StepStatus.WAITING)
    early = step.detail if isinstance(step.detail, Signal) else Signal()
    detail = altered(early, deadline_us=x.deadline_us)
    after = altered(step, status=StepStatus.WAITING, detail=detail)
    return put(run, x.node, after), (event_of("signal.awaited", x.node, deadline_us=x.deadline_us),)


def receive(run: Run, x: t.ReceiveSignal) -> Applied:
    status = run.step(x.node).status
    kept = status in (StepStatus.SKIPPED, StepStatus.BYPASSED)
    step = begin(run, x.node, "keep" if kept else "receive", status)
    detail = Signal() if step.detail is None else detail_of(step, Signal, "receive", x.node)
    if detail.signal_id is not None:
        raise IllegalMove("receive", x.node, "already signalled")
    got = altered(
        detail, signal_id=x.signal_id, payload_digest=x.payload_digest, received_at_us=x.at_us
    )
    event = event_of(
        "signal.received", x.node, signal=x.signal_id, without_effect=True if kept else None
    )
    return put(run, x.node, altered(step, detail=got)), (event,)


def accept(run: Run, x: t.Accept) -> Applied:
    step = begin(run, x.node, "accept", StepStatus.SUCCEEDED)
    match step.detail:
        case Timer() | Question(answer_digest=bytes()) | Signal(received_at_us=int()):
            pass
        case _:
            raise IllegalMove("accept", x.node, "without an answer, a signal or a timer")
    after = altered(step, status=StepStatus.SUCCEEDED, output=True, released=True)
    if isinstance(step.detail, Timer):
        after = altered(after, detail=altered(step.detail, fired_at_us=x.at_us))
    return put(run, x.node, after), (event_of("step.succeeded", x.node),)


def time_out(run: Run, x: t.TimeOut) -> Applied:
    step = begin(run, x.node, "time_out", StepStatus.TIMED_OUT)
    match step.detail:
        case Question(answer_digest=None) | Signal():
            pass
        case _:
            raise IllegalMove("time_out", x.node, "not waiting for an answer or a signal")
    after = altered(step, status=StepStatus.TIMED_OUT, code=Code.TIMEOUT)
    event = event_of("step.timed_out", x.node)
    return put(run, x.node, after), (event, *without_effect(x.node, step))
