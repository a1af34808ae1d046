"""Transitions of steps without a call, each with exactly what it changes and says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from mayura.runtime.core import transitions as t
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.state import (
    Acted,
    Approval,
    Question,
    Receipt,
    Signal,
    Step,
    StepStatus,
    Timer,
)
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId, Nonce
from tests.core.drive import START, begin_of, new_run
from tests.core.graphs import policy, tool, workflow

S, A, R = StepStatus, Acted, Receipt
NODE: Final = NodeId("a")
NONCE: Final = Nonce(b"\x01" * 16)
CALL: Final = tool("a", cost_micros=30)
DEFINITION: Final = workflow(CALL)
NEW: Final = new_run(DEFINITION, policy(DEFINITION, budget_micros=100))
BEGIN: Final = begin_of(CALL, NONCE, START, NEW)
FREE: Final = begin_of(tool("a"), NONCE, START, NEW)
ADA: Final = t.Person("ada", "shop", "passkey")
EVE: Final = t.Person("eve", verified=False)

PENDING: Final = Step()
CALLED: Final = Step(S.DISPATCHING, acted=A.UNKNOWN, dispatch=BEGIN.dispatch, reserved_micros=30)
APPROVAL: Final = Approval(b"\xaa", 900)
ASKED: Final = Step(S.WAITING, detail=APPROVAL)
QUESTION: Final = Question(b"\xbb", 800, allowance_us=5)
ANSWERED: Final = replace(QUESTION, answer_digest=b"\xcc", answered_by="ada")
RECEIVED: Final = Signal(signal_id="s-1", payload_digest=b"\xdd", received_at_us=700)
KEPT: Final[JsonValue] = {"type": "signal.without_effect", "node": "a", "signal": "s-1"}
BY_ADA: Final[dict[str, JsonValue]] = {"person": "ada", "issuer": "shop", "method": "passkey"}
BY_EVE: Final[dict[str, JsonValue]] = {"person": "eve", "unverified": True}


@dataclass(frozen=True)
class Case:
    """`move` takes the step from `before` to `after`, and changes these fields of the run."""

    move: t.Transition
    before: Step = PENDING
    after: Step | None = None  #: None: as before
    run: dict[str, Any] = field(default_factory=dict)  #: what the run was, beside NEW
    changes: dict[str, Any] = field(default_factory=dict)
    events: tuple[JsonValue, ...] = ()


def event(kind: str, **data: JsonValue) -> dict[str, JsonValue]:
    return {"type": kind, "node": "a", **data}


def of_run(kind: str, **data: JsonValue) -> dict[str, JsonValue]:
    return {"type": kind, **data}


WITHOUT_A_CALL: Final = {
    "skip": Case(
        t.Skip(NODE, NodeId("b")),
        after=Step(S.SKIPPED),
        events=(event("step.skipped", because="b"),),
    ),
    "skip of a cancelled run's waiting step": Case(
        t.Skip(NODE, None),
        ASKED,
        replace(ASKED, status=S.SKIPPED),
        events=(event("step.skipped"),),
    ),
    "skip with a signal": Case(
        t.Skip(NODE, NodeId("b")),
        Step(detail=RECEIVED),
        Step(S.SKIPPED, detail=RECEIVED),
        events=(event("step.skipped", because="b"), KEPT),
    ),
    "bypass": Case(t.Bypass(NODE), after=Step(S.BYPASSED), events=(event("step.bypassed"),)),
    "bypass with a signal": Case(
        t.Bypass(NODE),
        Step(detail=RECEIVED),
        Step(S.BYPASSED, detail=RECEIVED),
        events=(event("step.bypassed"), KEPT),
    ),
    "block": Case(
        t.Block(NODE, Code.PERMISSION_DENIED, "effect:write"),
        after=Step(S.BLOCKED, Code.PERMISSION_DENIED),
        events=(
            event("step.blocked", code="PERMISSION_DENIED", detail="effect:write", acted="no"),
        ),
    ),
    "block without detail": Case(
        t.Block(NODE, Code.BUDGET_EXCEEDED),
        after=Step(S.BLOCKED, Code.BUDGET_EXCEEDED),
        events=(event("step.blocked", code="BUDGET_EXCEEDED", acted="no"),),
    ),
    "fail": Case(
        t.Fail(NODE, Code.INVALID_INPUT, "input.id is required"),
        after=Step(S.FAILED, Code.INVALID_INPUT),
        events=(event("step.failed", code="INVALID_INPUT", acted="no"),),
    ),
    "fail without detail": Case(
        t.Fail(NODE, Code.INVALID_INPUT),
        after=Step(S.FAILED, Code.INVALID_INPUT),
        events=(event("step.failed", code="INVALID_INPUT", acted="no"),),
    ),
    "join": Case(
        t.Join(NODE), after=Step(S.SUCCEEDED, released=True), events=(event("step.succeeded"),)
    ),
}
OF_PEOPLE: Final = {
    "request approval": Case(
        t.RequestApproval(NODE, b"\xaa", 900),
        after=ASKED,
        events=(event("approval.requested", digest="aa", expires_at_us=900),),
    ),
    "lapse": Case(t.LapseApproval(NODE), ASKED, PENDING, events=(event("approval.lapsed"),)),
    "approve": Case(
        t.Approve(NODE, ADA, 850, "c-1"),
        replace(ASKED, detail=replace(APPROVAL, allowance_us=7)),
        Step(detail=Approval(b"\xaa", 900, 0, True, "ada", 850)),
        events=(event("approval.approved", digest="aa", command="c-1", **BY_ADA),),
    ),
    "reject": Case(
        t.Reject(NODE, EVE, 850, "c-2"),
        ASKED,
        Step(S.BLOCKED, Code.REJECTED, detail=Approval(b"\xaa", 900, 0, False, "eve", 850)),
        events=(event("approval.rejected", digest="aa", command="c-2", **BY_EVE),),
    ),
    "ask": Case(
        t.Ask(NODE, b"\xbb", 800),
        after=Step(S.WAITING, detail=Question(b"\xbb", 800)),
        events=(event("question.asked", digest="bb", deadline_us=800),),
    ),
    "ask without a deadline": Case(
        t.Ask(NODE, b"\xbb", None),
        after=Step(S.WAITING, detail=Question(b"\xbb", None)),
        events=(event("question.asked", digest="bb"),),
    ),
    "answer": Case(
        t.Answer(NODE, b"\xcc", ADA, "c-3"),
        Step(S.WAITING, detail=QUESTION),
        Step(S.WAITING, detail=ANSWERED),
        events=(event("question.answered", command="c-3", **BY_ADA),),
    ),
    "accept an answer": Case(
        t.Accept(NODE, 860),
        Step(S.WAITING, detail=ANSWERED),
        Step(S.SUCCEEDED, output=True, released=True, detail=ANSWERED),
        events=(event("step.succeeded"),),
    ),
    "time out": Case(
        t.TimeOut(NODE),
        Step(S.WAITING, detail=QUESTION),
        Step(S.TIMED_OUT, Code.TIMEOUT, detail=QUESTION),
        events=(event("step.timed_out"),),
    ),
}
OF_TIMERS_AND_SIGNALS: Final = {
    "start a timer": Case(
        t.StartTimer(NODE, 750),
        after=Step(S.WAITING, detail=Timer(750)),
        events=(event("timer.started", fire_at_us=750),),
    ),
    "fire": Case(
        t.Accept(NODE, 760),
        Step(S.WAITING, detail=Timer(750)),
        Step(S.SUCCEEDED, output=True, released=True, detail=Timer(750, 760)),
        events=(event("step.succeeded"),),
    ),
    "await a signal": Case(
        t.AwaitSignal(NODE, 800),
        after=Step(S.WAITING, detail=Signal(800)),
        events=(event("signal.awaited", deadline_us=800),),
    ),
    "await a signal that came": Case(
        t.AwaitSignal(NODE, None),
        Step(detail=RECEIVED),
        Step(S.WAITING, detail=RECEIVED),
        events=(event("signal.awaited"),),
    ),
    "receive early": Case(
        t.ReceiveSignal(NODE, "s-1", b"\xdd", 700),
        after=Step(detail=RECEIVED),
        events=(event("signal.received", signal="s-1"),),
    ),
    "receive": Case(
        t.ReceiveSignal(NODE, "s-1", b"\xdd", 700),
        Step(S.WAITING, detail=Signal(800, 5)),
        Step(S.WAITING, detail=replace(RECEIVED, deadline_us=800, allowance_us=5)),
        events=(event("signal.received", signal="s-1"),),
    ),
    "keep": Case(
        t.ReceiveSignal(NODE, "s-1", b"\xdd", 700),
        Step(S.SKIPPED),
        Step(S.SKIPPED, detail=RECEIVED),
        events=(event("signal.received", signal="s-1", without_effect=True),),
    ),
    "time out after a late signal": Case(
        t.TimeOut(NODE),
        Step(S.WAITING, detail=replace(RECEIVED, deadline_us=600)),
        Step(S.TIMED_OUT, Code.TIMEOUT, detail=replace(RECEIVED, deadline_us=600)),
        events=(event("step.timed_out"), KEPT),
    ),
}
