"""Each transition: exactly what it changes, and exactly what the journal says about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, get_args

import pytest

from mayura.runtime.core import transitions as t
from mayura.runtime.core import values
from mayura.runtime.core.apply import apply
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.state import (
    Acted,
    Cause,
    Receipt,
    Resolution,
    RunStatus,
    Step,
    StepStatus,
)
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId
from tests.core.transition_cases import (
    ADA,
    APPROVAL,
    ASKED,
    BEGIN,
    BY_ADA,
    CALLED,
    FREE,
    NEW,
    NODE,
    NONCE,
    OF_PEOPLE,
    OF_TIMERS_AND_SIGNALS,
    PENDING,
    QUESTION,
    WITHOUT_A_CALL,
    Case,
    event,
    of_run,
)

S, A, R = StepStatus, Acted, Receipt
RESERVED: Final = {"reserved_micros": 30, "spent_micros": 10}
HELD: Final = replace(CALLED, receipt=R.SUCCEEDED, acted=A.YES)
OF_CALLS: Final = {
    "dispatch": Case(
        BEGIN,
        after=CALLED,
        changes={"reserved_micros": 30},
        events=(
            event(
                "step.dispatching", call=BEGIN.call_id, key=BEGIN.key, nonce="01" * 16, reserved=30
            ),
        ),
    ),
    "dispatch of a free call keeps the approval": Case(
        FREE,
        Step(detail=APPROVAL),
        replace(CALLED, detail=APPROVAL, reserved_micros=0),
        events=(event("step.dispatching", call=BEGIN.call_id, key=BEGIN.key, nonce="01" * 16),),
    ),
    "receipt": Case(
        t.RecordReceipt(NODE, NONCE, R.SUCCEEDED, A.YES, None, 12, True),
        CALLED,
        replace(
            CALLED, receipt=R.SUCCEEDED, acted=A.YES, output=True, reserved_micros=0,
            charged_micros=12,
        ),
        run=RESERVED,
        changes={"reserved_micros": 0, "spent_micros": 22},
        events=(event("step.receipt", receipt="succeeded", charged=12),),
    ),
    "receipt with an overrun": Case(
        t.RecordReceipt(NODE, NONCE, R.SUCCEEDED, A.YES, None, 34, False),
        CALLED,
        replace(
            CALLED, receipt=R.SUCCEEDED, acted=A.YES, reserved_micros=0, charged_micros=34
        ),
        run=RESERVED,
        changes={"reserved_micros": 0, "spent_micros": 40, "overrun_micros": 4},
        events=(
            event("step.receipt", receipt="succeeded", charged=34),
            event("budget.overrun", over=4),
        ),
    ),
    "receipt that settles no cost": Case(
        t.RecordReceipt(NODE, NONCE, R.UNKNOWN, A.UNKNOWN, Cause.TIMEOUT, None, False),
        CALLED,
        replace(CALLED, receipt=R.UNKNOWN, cause=Cause.TIMEOUT),
        run=RESERVED,
        events=(event("step.receipt", receipt="unknown", cause="timeout"),),
    ),
    "late receipt keeps cause and output": Case(
        t.RecordReceipt(NODE, NONCE, R.NOT_STARTED, A.NO, None, 0, False),
        replace(
            CALLED, status=S.UNKNOWN, receipt=R.UNKNOWN, cause=Cause.ABANDONED, output=True
        ),
        replace(
            CALLED, status=S.UNKNOWN, receipt=R.NOT_STARTED, cause=Cause.ABANDONED, output=True,
            acted=A.NO, reserved_micros=0,
        ),
        run=RESERVED,
        changes={"reserved_micros": 0},
        events=(event("step.receipt", receipt="not_started"),),
    ),
    "contradiction": Case(
        t.RecordReceipt(NODE, NONCE, R.FAILED, A.NO, Cause.EXCEPTION, 30, True),
        HELD,
        replace(HELD, contradiction=R.FAILED, acted=A.UNKNOWN),
        run=RESERVED,
        events=(
            event("integrity.contradiction", receipt="succeeded", contradicted_by="failed"),
        ),
    ),
    "succeed": Case(
        t.Complete(NODE, NONCE, S.SUCCEEDED, None, None, A.YES),
        HELD,
        replace(HELD, status=S.SUCCEEDED, released=True),
        events=(event("step.succeeded"),),
    ),
    "end unknown": Case(
        t.Complete(
            NODE, NONCE, S.UNKNOWN, Code.OUTCOME_UNKNOWN, Cause.EXCEPTION, A.UNKNOWN
        ),
        CALLED,
        replace(
            CALLED, status=S.UNKNOWN, code=Code.OUTCOME_UNKNOWN, cause=Cause.EXCEPTION
        ),
        events=(
            event("step.unknown", code="OUTCOME_UNKNOWN", cause="exception", acted="unknown"),
        ),
    ),
    "end blocked": Case(
        t.Complete(NODE, NONCE, S.BLOCKED, Code.GUARD_BLOCKED, None, A.YES),
        HELD,
        replace(HELD, status=S.BLOCKED, code=Code.GUARD_BLOCKED),
        events=(event("step.blocked", code="GUARD_BLOCKED", acted="yes"),),
    ),
    "end with more than the receipt knew": Case(
        t.Complete(NODE, NONCE, S.BLOCKED, Code.GUARD_BLOCKED, None, A.YES),
        CALLED,
        replace(CALLED, status=S.BLOCKED, code=Code.GUARD_BLOCKED, acted=A.YES),
        events=(event("step.blocked", code="GUARD_BLOCKED", acted="yes"),),
    ),
    "decline": Case(
        t.Decline(NODE, NONCE, Code.TIMEOUT),
        CALLED,
        replace(
            CALLED, status=S.BLOCKED, code=Code.TIMEOUT, cause=Cause.DECLINED,
            receipt=R.NOT_STARTED, acted=A.NO, reserved_micros=0,
        ),
        run=RESERVED,
        changes={"reserved_micros": 0},
        events=(
            event("step.receipt", receipt="not_started"),
            event("step.declined", code="TIMEOUT"),
        ),
    ),
    "abandon": Case(
        t.Abandon(NODE, NONCE, S.BLOCKED, Code.ABANDONED, A.YES, None),
        HELD,
        replace(HELD, status=S.BLOCKED, code=Code.ABANDONED, cause=Cause.ABANDONED),
        events=(
            event("step.abandoned", status="blocked", receipt="succeeded", acted="yes"),
        ),
    ),
    "abandon by a person, charged": Case(
        t.Abandon(NODE, NONCE, S.FAILED, Code.ABANDONED, A.NO, 30, "c-4", ADA),
        CALLED,
        replace(
            CALLED, status=S.FAILED, code=Code.ABANDONED, cause=Cause.ABANDONED, acted=A.NO,
            reserved_micros=0, charged_micros=30,
        ),
        run=RESERVED,
        changes={"reserved_micros": 0, "spent_micros": 40},
        events=(
            event("step.abandoned", status="failed", acted="no", command="c-4", **BY_ADA),
        ),
    ),
}  # fmt: skip
LOST: Final = replace(
    CALLED, status=S.UNKNOWN, code=Code.OUTCOME_UNKNOWN, cause=Cause.TIMEOUT, receipt=R.UNKNOWN
)
FOUND: Final = replace(
    LOST, status=S.SUCCEEDED, code=None, cause=None, acted=A.YES, output=True, released=True,
    resolution=Resolution.HAPPENED, reserved_micros=0, charged_micros=30,
)  # fmt: skip
DENIED: Final = replace(
    LOST, status=S.FAILED, code=Code.TOOL_FAILED, acted=A.NO, resolution=Resolution.NEVER,
    reserved_micros=0,
)  # fmt: skip
ENDED: Final = {"status": RunStatus.OUTCOME_UNKNOWN, "settled_at_us": 900, "settlement": 1}
GOES_ON: Final = {"status": RunStatus.RUNNING, "settled_at_us": None}
OF_RESOLUTIONS: Final = {
    "happened, says a person, and an ended run goes on": Case(
        t.Resolve(NODE, Resolution.HAPPENED, 30, True, "c-8", ADA),
        LOST,
        FOUND,
        run={**RESERVED, **ENDED},
        changes={"reserved_micros": 0, "spent_micros": 40, **GOES_ON},
        events=(
            event("step.resolved", resolution="happened", charged=30, command="c-8", **BY_ADA),
            of_run("run.reopened"),
        ),
    ),
    "never happened, says a lookup, in an open run": Case(
        t.Resolve(NODE, Resolution.NEVER, 0, False),
        LOST,
        DENIED,
        run=RESERVED,
        changes={"reserved_micros": 0},
        events=(event("step.resolved", resolution="never"),),
    ),
    "the withheld output of a blocked step is released": Case(
        t.Resolve(NODE, Resolution.HAPPENED, 0, True),
        replace(HELD, status=S.BLOCKED, code=Code.GUARD_BLOCKED, output=True, reserved_micros=0),
        replace(
            HELD, status=S.SUCCEEDED, output=True, released=True, reserved_micros=0,
            resolution=Resolution.HAPPENED,
        ),
        events=(event("step.resolved", resolution="happened"),),
    ),
    "a cancelled run stays as it ended": Case(
        t.Resolve(NODE, Resolution.NEVER, 0, False),
        LOST,
        DENIED,
        run={**RESERVED, **ENDED, "status": RunStatus.CANCELLED, "cancelled": True},
        changes={"reserved_micros": 0},
        events=(event("step.resolved", resolution="never"),),
    ),
    "what was skipped for nothing": Case(
        t.Reopen(NODE), Step(S.SKIPPED), PENDING, events=(event("step.reopened"),)
    ),
    "a receipt that agrees with what was found": Case(
        t.RecordReceipt(NODE, NONCE, R.SUCCEEDED, A.YES, None, 30, True),
        FOUND,
        replace(FOUND, receipt=R.SUCCEEDED),
        events=(event("step.receipt", receipt="succeeded", charged=30),),
    ),
    "a receipt that opposes what was found": Case(
        t.RecordReceipt(NODE, NONCE, R.SUCCEEDED, A.YES, None, 30, True),
        DENIED,
        replace(
            DENIED, status=S.UNKNOWN, code=Code.OUTCOME_UNKNOWN, cause=Cause.CONTRADICTED,
            acted=A.UNKNOWN, receipt=R.SUCCEEDED, output=True, charged_micros=30,
        ),
        run={**ENDED, "status": RunStatus.FAILED},
        changes={"overrun_micros": 30, **GOES_ON},
        events=(
            event("step.receipt", receipt="succeeded", charged=30),
            event("budget.overrun", over=30),
            event("integrity.contradiction", receipt="succeeded", resolution="never"),
            of_run("run.reopened"),
        ),
    ),
}  # fmt: skip
OF_RUNS: Final = {
    "pause": Case(
        t.Pause(500, "c-5", "ops"),
        changes={"paused_at_us": 500},
        events=(of_run("run.pause_requested", command="c-5", by="ops"),),
    ),
    "pause again": Case(t.Pause(501, "c-5", "ops"), run={"paused_at_us": 500}),
    "resume": Case(
        t.Resume(530, "c-6", "ops"),
        ASKED,
        replace(ASKED, detail=replace(APPROVAL, allowance_us=30)),
        run={"paused_at_us": 500, "status": RunStatus.PAUSED},
        changes={"paused_at_us": None, "status": RunStatus.RUNNING},
        events=(of_run("run.resumed", command="c-6", by="ops", allowance_us=30),),
    ),
    "resume at a time before the pause": Case(
        t.Resume(480, "c-6", "ops"),
        Step(S.WAITING, detail=QUESTION),
        run={"paused_at_us": 500},
        changes={"paused_at_us": None},
        events=(of_run("run.resumed", command="c-6", by="ops", allowance_us=0),),
    ),
    "resume what does not wait": Case(
        t.Resume(530, "c-6", "ops"),
        Step(S.SKIPPED, detail=APPROVAL),
        run={"paused_at_us": 500},
        changes={"paused_at_us": None},
        events=(of_run("run.resumed", command="c-6", by="ops", allowance_us=30),),
    ),
    "resume again": Case(t.Resume(531, "c-6", "ops")),
    "cancel": Case(
        t.Cancel("c-7", "ops"),
        changes={"cancelled": True},
        events=(of_run("run.cancelled", command="c-7", by="ops"),),
    ),
    "cancel again": Case(t.Cancel("c-7", "ops"), run={"cancelled": True}),
    "rest": Case(
        t.Rest(RunStatus.WAITING, 900),
        changes={"status": RunStatus.WAITING, "wake_at_us": 900},
        events=(of_run("run.waiting"),),
    ),
    "rest as before": Case(t.Rest(RunStatus.RUNNING, None), changes={"wake_at_us": None}),
    "settle": Case(
        t.Settle(RunStatus.FAILED, Code.INVALID_OUTPUT, 950),
        Step(S.SUCCEEDED),
        run={"paused_at_us": 500, "settlement": 1},
        changes={
            "status": RunStatus.FAILED,
            "result_code": Code.INVALID_OUTPUT,
            "settled_at_us": 950,
            "settlement": 2,
            "wake_at_us": None,
            "paused_at_us": None,
        },
        events=(of_run("run.settled", status="failed", code="INVALID_OUTPUT", settlement=2),),
    ),
    "settle well": Case(
        t.Settle(RunStatus.SUCCEEDED, None, 950),
        Step(S.SUCCEEDED),
        changes={
            "status": RunStatus.SUCCEEDED,
            "settled_at_us": 950,
            "settlement": 1,
            "wake_at_us": None,
        },
        events=(of_run("run.settled", status="succeeded", settlement=1),),
    ),
}
CASES: Final = {
    **WITHOUT_A_CALL,
    **OF_PEOPLE,
    **OF_TIMERS_AND_SIGNALS,
    **OF_CALLS,
    **OF_RESOLUTIONS,
    **OF_RUNS,
}


@pytest.mark.parametrize("name", CASES)
def test_a_transition_changes_exactly_this_and_says_exactly_that(name: str) -> None:
    case = CASES[name]
    before = replace(NEW, steps={NODE: case.before}, **case.run)
    after, events = apply(before, case.move)
    expected = replace(before, steps={NODE: case.after or case.before}, **case.changes)
    assert after == expected
    assert [said.as_json() for said in events] == list(case.events)


def test_every_transition_has_a_case() -> None:
    assert {type(case.move) for case in CASES.values()} == set(get_args(t.Transition))


@pytest.mark.parametrize("name", CASES)
def test_what_the_journal_says_is_plain_json(name: str) -> None:
    """Also in a commit of so many events that each value is looked at."""
    case = CASES[name]
    _, events = apply(replace(NEW, steps={NODE: case.before}, **case.run), case.move)
    said: list[JsonValue] = [one.as_json() for one in events for _ in range(40)]
    assert values.decode(values.encode(said)) == said
    values.check(said)


def test_a_commit_of_more_events_than_a_value_may_be_deep_can_be_stored() -> None:
    blocked = [t.Event("step.blocked", NodeId(f"n{n}"), (("code", "X"),)) for n in range(128)]
    said: list[JsonValue] = [one.as_json() for one in blocked]
    assert values.decode(values.encode(said)) == said
