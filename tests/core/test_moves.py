"""The table of legal moves, exhausted: against `apply`, and against its drawing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, get_args

import pytest

from mayura.runtime.core import transitions as t
from mayura.runtime.core.apply import apply
from mayura.runtime.core.change import IllegalMove
from mayura.runtime.core.moves import MOVES, legal
from mayura.runtime.core.state import (
    SETTLED_RUNS,
    TERMINAL_STEPS,
    Acted,
    Approval,
    Cause,
    Detail,
    Question,
    Receipt,
    Resolution,
    Run,
    RunStatus,
    Signal,
    Step,
    StepStatus,
    Timer,
)
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, Nonce
from tests.core.drive import PERSON, START, begin_of, new_run
from tests.core.graphs import policy, tool, workflow
from tests.tidy import ROOT

NODE: Final = NodeId("a")
NONCE: Final = Nonce(b"n" * 16)
DEFINITION: Final = workflow(tool("a", cost_micros=5))
NEW: Final = new_run(DEFINITION, policy(DEFINITION))
BEGIN: Final = begin_of(tool("a", cost_micros=5), NONCE, START, NEW)
APPROVAL: Final = Approval(b"d", START.wall_us + 1)
QUESTION: Final = Question(b"q", None)
SIGNAL: Final = Signal()
RECEIVED: Final = Signal(signal_id="s", payload_digest=b"p", received_at_us=START.wall_us)

#: Every move of one step. A receipt is evidence: it moves nothing.
STEP_MOVES: Final[dict[str, list[t.Transition]]] = {
    "skip": [t.Skip(NODE, None), t.Skip(NODE, NodeId("b"))],
    "bypass": [t.Bypass(NODE)],
    "block": [t.Block(NODE, Code.PERMISSION_DENIED)],
    "fail": [t.Fail(NODE, Code.INVALID_INPUT)],
    "request_approval": [t.RequestApproval(NODE, b"d", START.wall_us)],
    "lapse": [t.LapseApproval(NODE)],
    "approve": [t.Approve(NODE, PERSON, START.wall_us, "c")],
    "reject": [t.Reject(NODE, PERSON, START.wall_us, "c")],
    "ask": [t.Ask(NODE, b"q", None)],
    "answer": [t.Answer(NODE, b"a", PERSON, "c")],
    "start_timer": [t.StartTimer(NODE, START.wall_us)],
    "await_signal": [t.AwaitSignal(NODE, None)],
    "receive": [t.ReceiveSignal(NODE, "s", b"p", START.wall_us)],
    "accept": [t.Accept(NODE, START.wall_us)],
    "time_out": [t.TimeOut(NODE)],
    "join": [t.Join(NODE)],
    "dispatch": [BEGIN],
    "decline": [t.Decline(NODE, NONCE, Code.TIMEOUT)],
    "complete": [t.Complete(NODE, NONCE, s, None, None, Acted.NO) for s in StepStatus],
    "resolve": [t.Resolve(NODE, resolution, 0, True) for resolution in Resolution],
    "reopen": [t.Reopen(NODE)],
    "abandon": [t.Abandon(NODE, NONCE, s, Code.ABANDONED, Acted.NO, None) for s in StepStatus],
}
RUN_MOVES: Final[list[t.Transition]] = [
    t.Pause(START.wall_us, "c", "ops"),
    t.Resume(START.wall_us, "c", "ops"),
    t.Cancel("c", "ops"),
    t.Rest(RunStatus.WAITING, None),
    t.Settle(RunStatus.FAILED, None, START.wall_us),
]
RUNS: Final = {
    "open": NEW,
    "pausing": replace(NEW, paused_at_us=START.wall_us),
    "paused": replace(NEW, paused_at_us=START.wall_us, status=RunStatus.PAUSED),
    "cancelled": replace(NEW, cancelled=True),
    **{f"settled as {s}": replace(NEW, status=s) for s in sorted(SETTLED_RUNS)},
}
DISPATCHED: Final = {StepStatus.DISPATCHING, StepStatus.UNKNOWN, StepStatus.BLOCKED}


def shapes(status: StepStatus) -> Iterator[Step]:
    """Steps in this status with everything that `apply` may look at."""
    details: list[Detail | None] = [
        None,
        APPROVAL,
        replace(APPROVAL, approved=True, decided_at_us=START.wall_us),
        QUESTION,
        replace(QUESTION, answer_digest=b"a"),
        SIGNAL,
        RECEIVED,
        Timer(START.wall_us),
    ]
    for detail in details:
        yield Step(status, detail=detail)
    for receipt in (None, *Receipt):
        dispatched = Step(status, dispatch=BEGIN.dispatch, receipt=receipt, acted=Acted.UNKNOWN)
        yield dispatched
        if receipt in (Receipt.SUCCEEDED, Receipt.NOT_STARTED):
            yield replace(dispatched, contradiction=Receipt.FAILED)


def with_step(run: Run, step: Step) -> Run:
    return replace(run, steps={NODE: step})


def moved(run: Run, move: t.Transition) -> StepStatus | None:
    """Where the step stands after `move`; None if it was refused. Refused: nothing changed."""
    before = replace(run, steps=dict(run.steps))
    try:
        after, _ = apply(run, move)
    except MayuraError as error:
        refused = error.code
    else:
        return after.step(NODE).status
    assert refused in (Code.CONFLICT, Code.INTEGRITY_VIOLATION)
    assert run == before
    return None


def test_every_transition_is_a_move_of_a_step_a_receipt_or_a_move_of_the_run() -> None:
    listed = {type(m) for moves in STEP_MOVES.values() for m in moves} | {*map(type, RUN_MOVES)}
    assert listed | {t.RecordReceipt} == set(get_args(t.Transition))
    assert {*STEP_MOVES, "keep", "contradict"} == set(MOVES)


@pytest.mark.parametrize("name", STEP_MOVES)
@pytest.mark.parametrize("kind", RUNS)
def test_a_move_ends_where_the_table_allows_or_is_refused_and_changes_nothing(
    kind: str, name: str
) -> None:
    run = RUNS[kind]
    for move in STEP_MOVES[name]:
        for status in StepStatus:
            for step in shapes(status):
                target = moved(with_step(run, step), move)
                if target is None:
                    continue
                if name == "decline" and status is not StepStatus.DISPATCHING:
                    assert target is status  # only its receipt was merged
                elif name == "decline" and target is status:
                    assert step.contradiction or step.receipt in (Receipt.SUCCEEDED, Receipt.FAILED)
                else:
                    used = "keep" if name == "receive" and status in TERMINAL_STEPS else name
                    assert legal(used, status, target), (move, step)
                    assert run.open or name == "resolve"


@pytest.mark.parametrize("name", [name for name in MOVES if name != "contradict"])
def test_whatever_the_table_allows_apply_does(name: str) -> None:
    promised = {(s, to) for s in MOVES[name].sources for to in StepStatus if legal(name, s, to)}
    done: set[tuple[StepStatus, StepStatus]] = set()
    for run in (NEW, RUNS["cancelled"]):
        for move in STEP_MOVES["receive" if name == "keep" else name]:
            for source in MOVES[name].sources:
                ends = {moved(with_step(run, step), move) for step in shapes(source)}
                done |= {(source, end) for end in ends if end is not None}
    assert promised <= done


@pytest.mark.parametrize("name", STEP_MOVES)
def test_a_move_from_a_status_that_is_not_its_start_is_an_illegal_move(name: str) -> None:
    used = MOVES[name].sources | (MOVES["keep"].sources if name == "receive" else set())
    for move in STEP_MOVES[name]:
        for status in set(StepStatus) - used:
            step = Step(status, dispatch=BEGIN.dispatch)
            if name == "decline":
                assert apply(with_step(NEW, step), move)[0].step(NODE).status is status
                continue
            with pytest.raises(IllegalMove) as refused:
                apply(with_step(NEW, step), move)
            assert refused.value.code is Code.CONFLICT


@pytest.mark.parametrize("kind", [kind for kind in RUNS if kind.startswith("settled")])
@pytest.mark.parametrize("name", [n for n in STEP_MOVES if n not in ("decline", "resolve")])
def test_no_step_of_a_settled_run_moves(kind: str, name: str) -> None:
    for move in STEP_MOVES[name]:
        for status in StepStatus:
            for step in shapes(status):
                assert moved(with_step(RUNS[kind], step), move) is None


@pytest.mark.parametrize("kind", RUNS)
def test_a_receipt_is_taken_in_every_status_and_changes_none(kind: str) -> None:
    for status in StepStatus:
        for receipt in Receipt:
            step = Step(status, dispatch=BEGIN.dispatch)
            record = t.RecordReceipt(NODE, NONCE, receipt, Acted.NO, None, 0, False)
            after, events = apply(with_step(RUNS[kind], step), record)
            assert (after.step(NODE).status, after.step(NODE).receipt) == (status, receipt)
            assert [event.type for event in events] == ["step.receipt"]


@pytest.mark.parametrize("kind", ["pausing", "paused", "cancelled"])
def test_no_dispatch_commits_in_a_paused_or_cancelled_run(kind: str) -> None:
    with pytest.raises(IllegalMove):
        apply(RUNS[kind], BEGIN)


def test_a_second_dispatch_of_a_step_is_refused_whatever_became_of_the_first() -> None:
    """G1: its id is spent, also if something brought it back to pending."""
    for status in StepStatus:
        with pytest.raises(MayuraError) as refused:
            apply(with_step(NEW, Step(status, dispatch=BEGIN.dispatch)), BEGIN)
        spent = status is StepStatus.PENDING
        assert refused.value.code is (Code.INTEGRITY_VIOLATION if spent else Code.CONFLICT)


def test_nothing_leads_out_of_dispatching_but_an_end() -> None:
    ends = {to for move in MOVES.values() if StepStatus.DISPATCHING in move.sources
            for to in move.targets}  # fmt: skip
    assert ends <= TERMINAL_STEPS


def test_nothing_leads_out_of_an_end_but_what_was_found_out_later() -> None:
    """Resolutions: into `succeeded` and `failed`, back to `unknown`, and on from a skip."""
    out = {(name, source) for name, move in MOVES.items() for source in move.sources}
    assert {(name, source) for name, source in out if source in TERMINAL_STEPS} == {
        ("keep", StepStatus.SKIPPED),
        ("keep", StepStatus.BYPASSED),
        ("resolve", StepStatus.UNKNOWN),
        ("resolve", StepStatus.BLOCKED),
        ("contradict", StepStatus.SUCCEEDED),
        ("contradict", StepStatus.FAILED),
        ("reopen", StepStatus.SKIPPED),
    }


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("receipt", Receipt)
@pytest.mark.parametrize("resolution", Resolution)
def test_a_receipt_that_opposes_a_resolution_makes_the_step_unknown(
    kind: str, receipt: Receipt, resolution: Resolution
) -> None:
    happened = resolution is Resolution.HAPPENED
    status = StepStatus.SUCCEEDED if happened else StepStatus.FAILED
    step = Step(
        status,
        dispatch=BEGIN.dispatch,
        receipt=Receipt.UNKNOWN,
        acted=Acted.YES if happened else Acted.NO,
        released=happened,
        resolution=resolution,
    )
    run = with_step(RUNS[kind], step)
    after, _ = apply(run, t.RecordReceipt(NODE, NONCE, receipt, Acted.NO, None, 0, False))
    opposed = receipt in (Receipt.FAILED, Receipt.NOT_STARTED) if happened else (
        receipt is Receipt.SUCCEEDED
    )  # fmt: skip
    seen = after.step(NODE)
    assert seen.status is (StepStatus.UNKNOWN if opposed else status)
    assert (seen.receipt, seen.resolution) == (receipt, resolution), "both are kept"
    assert after.open is (run.open or opposed)
    if opposed:
        assert (seen.cause, seen.acted) == (Cause.CONTRADICTED, Acted.UNKNOWN)
        assert legal("contradict", status, StepStatus.UNKNOWN)


def test_only_a_dispatch_leads_to_dispatching_and_only_from_pending() -> None:
    into = [n for n, move in MOVES.items() if StepStatus.DISPATCHING in move.targets]
    assert into == ["dispatch"]
    assert MOVES["dispatch"].sources == {StepStatus.PENDING}


@pytest.mark.parametrize("kind", [kind for kind in RUNS if kind.startswith("settled")])
@pytest.mark.parametrize("move", RUN_MOVES, ids=lambda move: type(move).__name__)
def test_a_settled_run_cannot_be_moved(kind: str, move: t.Transition) -> None:
    with pytest.raises(MayuraError) as refused:
        apply(RUNS[kind], move)
    assert refused.value.code is Code.CONFLICT


@pytest.mark.parametrize("status", sorted(set(StepStatus) - TERMINAL_STEPS))
def test_a_run_with_an_open_step_cannot_settle(status: StepStatus) -> None:
    with pytest.raises(MayuraError):
        apply(with_step(NEW, Step(status)), t.Settle(RunStatus.FAILED, None, 0))


def test_a_run_rests_only_in_an_open_status_and_settles_only_in_an_ended_one() -> None:
    for status in RunStatus:
        ended = status in SETTLED_RUNS
        refused: t.Transition = t.Rest(status, None) if ended else t.Settle(status, None, 0)
        with pytest.raises(MayuraError):
            apply(NEW, refused)
        taken: t.Transition = t.Settle(status, None, 0) if ended else t.Rest(status, None)
        assert apply(NEW, taken)[0].status is status


def test_pausing_resuming_and_cancelling_again_changes_nothing() -> None:
    paused, _ = apply(NEW, t.Pause(START.wall_us, "c", "ops"))
    assert apply(paused, t.Pause(START.wall_us + 9, "d", "ops")) == (paused, ())
    assert apply(NEW, t.Resume(START.wall_us, "c", "ops")) == (NEW, ())
    cancelled, _ = apply(NEW, t.Cancel("c", "ops"))
    assert apply(cancelled, t.Cancel("d", "ops")) == (cancelled, ())


# --- the drawing ------------------------------------------------------------------------------

_ARROW: Final = re.compile(r"^ +(\S+) --> (\S+?)(?:: (.+))?$", re.MULTILINE)


def drawn(text: str) -> set[tuple[str, str, str]]:
    """Every move in a mermaid chart, as (from, to, name)."""
    return {
        (source, target, name)
        for source, target, names in _ARROW.findall(text)
        for name in (names.split(", ") if names else [""])
    }


def in_table() -> set[tuple[str, str, str]]:
    """What the chart must show: the moves, where steps begin and where they end."""
    moves = {
        (source.value, target.value, name)
        for name, move in MOVES.items()
        for source in move.sources
        for target in StepStatus
        if legal(name, source, target)
    }
    return moves | {("[*]", "pending", "")} | {(end.value, "[*]", "") for end in TERMINAL_STEPS}


def test_the_chart_in_the_readme_is_the_table() -> None:
    text = (ROOT / "runtime" / "README.md").read_text(encoding="utf-8")
    assert drawn(text) == in_table()


def test_a_chart_with_one_arrow_too_many_or_too_few_is_not_the_table() -> None:
    text = (ROOT / "runtime" / "README.md").read_text(encoding="utf-8")
    assert drawn(text + "\n    dispatching --> pending: reset\n") != in_table()
    assert drawn(text.replace("complete, abandon, decline", "complete, abandon")) != in_table()


def test_the_readme_names_every_module_of_the_runtime() -> None:
    text = (ROOT / "runtime" / "README.md").read_text(encoding="utf-8")
    shell = ROOT / "runtime" / "mayura" / "runtime"
    modules = {p.stem for folder in (shell, shell / "core") for p in folder.glob("*.py")}
    named = set(re.findall(r"^\| ((?:`\w+` )+)\|", text, re.MULTILINE))
    listed = [name for row in named for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(modules - {"__init__"}), "name each module once"
