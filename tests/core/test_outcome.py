"""How a call ended and what that makes of its step: one test a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest

from mayura.runtime.core import outcome
from mayura.runtime.core.definition import Effects, FromInput, FromStep, JsonValue
from mayura.runtime.core.outcome import Ending
from mayura.runtime.core.state import Acted, Cause, Receipt, RunStatus, StepStatus
from mayura.runtime.core.values import VALUE_DEPTH_MAX
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId
from tests.core.drive import Drive
from tests.core.graphs import (
    CHANGING,
    EFFECTS,
    UNCHANGING,
    WRONG,
    join,
    policy,
    spec,
    tool,
    workflow,
)

COST_MICROS: Final = 30


@dataclass(frozen=True)
class Row:
    """How a call ended, for which tools, and everything that must be said of its step."""

    ending: Ending
    tools: tuple[Effects, ...]
    status: StepStatus
    code: Code | None
    cause: Cause | None
    acted: Acted
    receipt: Receipt
    charged_micros: int | None  #: None: the reservation stays (G14)
    withheld: Code | None = None  #: why the output of a call that returned is not released

    def __str__(self) -> str:
        return f"{self.ending}{'-' + self.withheld if self.withheld else ''}-{self.tools[0]}"


S, C, R, A = StepStatus, Code, Receipt, Acted
TABLE: Final = [
    Row("returned", UNCHANGING, S.SUCCEEDED, None, None, A.NO, R.SUCCEEDED, 30),
    Row("returned", CHANGING, S.SUCCEEDED, None, None, A.YES, R.SUCCEEDED, 30),
    Row("raised", UNCHANGING, S.FAILED, C.TOOL_FAILED, Cause.EXCEPTION, A.NO, R.FAILED, 30),
    Row("raised", CHANGING, S.UNKNOWN, C.OUTCOME_UNKNOWN, Cause.EXCEPTION, A.UNKNOWN,
        R.UNKNOWN, None),
    Row("timed_out", UNCHANGING, S.FAILED, C.TIMEOUT, Cause.TIMEOUT, A.NO, R.FAILED, 30),
    Row("timed_out", CHANGING, S.UNKNOWN, C.OUTCOME_UNKNOWN, Cause.TIMEOUT, A.UNKNOWN,
        R.UNKNOWN, None),
    Row("cancelled", UNCHANGING, S.FAILED, C.CANCELLED, Cause.CANCELLED, A.NO, R.FAILED, 30),
    Row("cancelled", CHANGING, S.UNKNOWN, C.OUTCOME_UNKNOWN, Cause.CANCELLED, A.UNKNOWN,
        R.UNKNOWN, None),
    Row("refused", EFFECTS, S.FAILED, C.TOOL_FAILED, Cause.REFUSED, A.NO, R.NOT_STARTED, 0),
    Row("returned", UNCHANGING, S.FAILED, C.INVALID_OUTPUT, None, A.NO, R.SUCCEEDED, 30,
        C.INVALID_OUTPUT),
    Row("returned", CHANGING, S.BLOCKED, C.INVALID_OUTPUT, None, A.YES, R.SUCCEEDED, 30,
        C.INVALID_OUTPUT),
    Row("returned", UNCHANGING, S.FAILED, C.LIMIT_EXCEEDED, None, A.NO, R.SUCCEEDED, 30,
        C.LIMIT_EXCEEDED),
    Row("returned", CHANGING, S.BLOCKED, C.LIMIT_EXCEEDED, None, A.YES, R.SUCCEEDED, 30,
        C.LIMIT_EXCEEDED),
    Row("returned", UNCHANGING, S.BLOCKED, C.GUARD_BLOCKED, None, A.NO, R.SUCCEEDED, 30,
        C.GUARD_BLOCKED),
    Row("returned", CHANGING, S.BLOCKED, C.GUARD_BLOCKED, None, A.YES, R.SUCCEEDED, 30,
        C.GUARD_BLOCKED),
    Row("returned", UNCHANGING, S.BLOCKED, C.GUARD_UNAVAILABLE, None, A.NO, R.SUCCEEDED, 30,
        C.GUARD_UNAVAILABLE),
    Row("returned", CHANGING, S.BLOCKED, C.GUARD_UNAVAILABLE, None, A.YES, R.SUCCEEDED, 30,
        C.GUARD_UNAVAILABLE),
]  # fmt: skip
ROWS: Final = [(row, effects) for row in TABLE for effects in row.tools]


def dispatched(effects: Effects, cost_micros: int = COST_MICROS) -> Drive:
    """A run whose one call was just begun, with room for just that call."""
    definition = workflow(tool("a", effects=effects, cost_micros=cost_micros))
    return Drive(definition, budget_micros=cost_micros).advance()


@pytest.mark.parametrize(("row", "effects"), ROWS, ids=[f"{row}-{e}" for row, e in ROWS])
def test_effects_and_failure_decide_the_end(row: Row, effects: Effects) -> None:
    run = dispatched(effects)
    run.end("a", row.ending, withheld=row.withheld)
    step = run.step("a")
    assert (step.status, step.code, step.cause, step.acted, step.receipt) == (
        row.status,
        row.code,
        row.cause,
        row.acted,
        row.receipt,
    )
    assert step.released is (row.status is S.SUCCEEDED)
    assert step.output is (row.ending == "returned")
    charged = row.charged_micros
    expected = (0, COST_MICROS) if charged is None else (charged, 0)
    assert (run.run.spent_micros, run.run.reserved_micros) == expected
    assert (step.charged_micros, step.reserved_micros) == expected


@pytest.mark.parametrize(("row", "effects"), ROWS, ids=[f"{row}-{e}" for row, e in ROWS])
def test_the_receipt_alone_says_already_whether_the_tool_acted(row: Row, effects: Effects) -> None:
    """G4: it is stored before anybody looks at the output, and may be all that is ever stored."""
    found = outcome.evidence(spec(effects, cost_micros=COST_MICROS), row.ending, None, 0)
    expected = (row.receipt, row.acted, row.charged_micros)
    assert (found.receipt, found.acted, found.charge_micros) == expected


@pytest.mark.parametrize("effects", EFFECTS)
def test_what_refuses_before_the_dispatch_blocks_and_nothing_is_dispatched(
    effects: Effects,
) -> None:
    definition = workflow(tool("a", effects=effects, cost_micros=COST_MICROS))
    denied = policy(definition, without=f"tool:{spec(effects, cost_micros=COST_MICROS).id}")
    run = Drive(definition, policy=denied).advance()
    assert (run.step("a").status, run.step("a").code) == (S.BLOCKED, C.PERMISSION_DENIED)
    poor = Drive(definition, budget_micros=COST_MICROS - 1).advance()
    assert (poor.step("a").status, poor.step("a").code) == (S.BLOCKED, C.BUDGET_EXCEEDED)
    for one in (run, poor):
        assert one.step("a").dispatch is None
        assert one.step("a").acted is A.NO
        assert one.run.status is RunStatus.BLOCKED


@pytest.mark.parametrize("effects", CHANGING)
@pytest.mark.parametrize("ending", ["returned", "refused", "raised", "timed_out", "cancelled"])
@pytest.mark.parametrize("withheld", [None, *sorted(Code)])
def test_what_may_have_acted_never_ends_failed_or_skipped(
    effects: Effects, ending: Ending, withheld: Code | None
) -> None:
    """G10, for every way a call can end and every reason to withhold its output."""
    run = dispatched(effects)
    run.end("a", ending, withheld=withheld)
    assert run.step("a").acted is A.NO or run.status("a") not in (S.FAILED, S.SKIPPED)


# --- usage ------------------------------------------------------------------------------------


def test_no_report_charges_the_declared_cost() -> None:
    run = dispatched("write")
    run.end("a")
    assert (run.run.spent_micros, run.run.overrun_micros) == (COST_MICROS, 0)


def test_a_smaller_report_charges_what_it_says_and_releases_the_rest() -> None:
    run = dispatched("write")
    run.end("a", known_micros=12)
    assert (run.run.spent_micros, run.run.reserved_micros, run.run.overrun_micros) == (12, 0, 0)


def test_a_report_of_nothing_charges_nothing() -> None:
    run = dispatched("write")
    run.end("a", known_micros=0)
    assert (run.run.spent_micros, run.step("a").charged_micros) == (0, 0)


def test_a_larger_report_is_kept_as_an_overrun_and_the_run_starts_nothing_further() -> None:
    definition = workflow(
        tool("a", cost_micros=COST_MICROS),
        tool("free", "a"),
        tool("b", "a", cost_micros=1),
    )
    run = Drive(definition).advance()
    run.end("a", known_micros=COST_MICROS + 5)
    assert (run.run.spent_micros, run.run.overrun_micros) == (COST_MICROS, 5)
    assert run.step("a").charged_micros == COST_MICROS + 5
    assert run.status("a") is S.SUCCEEDED
    assert "budget.overrun" in run.events("a")
    for node in ("free", "b"):
        assert (run.status(node), run.step(node).code) == (S.BLOCKED, C.BUDGET_EXCEEDED)


@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("ending", ["returned", "raised", "timed_out", "cancelled"])
def test_an_unknown_part_of_the_cost_makes_the_outcome_unknown_and_keeps_the_reservation(
    effects: Effects, ending: Ending
) -> None:
    run = dispatched(effects)
    run.end("a", ending, known_micros=1, unknown_micros=1)
    step = run.step("a")
    assert (step.status, step.cause) == (S.UNKNOWN, Cause.COST_UNKNOWN)
    assert (run.run.spent_micros, run.run.reserved_micros) == (0, COST_MICROS)
    returned = ending == "returned"
    assert step.receipt is (R.SUCCEEDED if returned else R.UNKNOWN)
    expected = A.YES if returned else A.UNKNOWN
    assert step.acted is (expected if effects in CHANGING else A.NO)


@pytest.mark.parametrize("effects", CHANGING)
@pytest.mark.parametrize(
    ("known", "unknown"), [(0, 0), (3, 0), (None, 3), (0, 3)], ids=["0", "known", "?", "unknown"]
)
def test_a_refusal_after_usage_was_reported_is_an_exception(
    effects: Effects, known: int | None, unknown: int
) -> None:
    run = dispatched(effects)
    run.end("a", "refused", known_micros=known, unknown_micros=unknown)
    assert (run.status("a"), run.step("a").acted) == (S.UNKNOWN, A.UNKNOWN)
    assert run.step("a").receipt is R.UNKNOWN


def test_a_refusal_of_a_reading_tool_after_usage_fails_and_is_charged_what_it_said() -> None:
    run = dispatched("read")
    run.end("a", "refused", known_micros=3)
    step = run.step("a")
    assert (step.status, step.code, step.cause) == (S.FAILED, C.TOOL_FAILED, Cause.EXCEPTION)
    assert (step.receipt, run.run.spent_micros) == (R.FAILED, 3)


# --- the run's end ----------------------------------------------------------------------------

PRECEDENCE: Final = [
    ({S.SUCCEEDED, S.BYPASSED}, RunStatus.SUCCEEDED),
    ({S.BYPASSED}, RunStatus.SUCCEEDED),
    ({S.SUCCEEDED, S.FAILED, S.SKIPPED}, RunStatus.FAILED),
    ({S.SUCCEEDED, S.TIMED_OUT}, RunStatus.FAILED),
    ({S.SUCCEEDED, S.SKIPPED}, RunStatus.FAILED),
    ({S.FAILED, S.BLOCKED, S.TIMED_OUT, S.SKIPPED}, RunStatus.BLOCKED),
    ({S.BLOCKED, S.SUCCEEDED}, RunStatus.BLOCKED),
    ({S.UNKNOWN, S.BLOCKED, S.FAILED}, RunStatus.OUTCOME_UNKNOWN),
    ({S.UNKNOWN, S.SUCCEEDED}, RunStatus.OUTCOME_UNKNOWN),
]


@pytest.mark.parametrize(("statuses", "expected"), PRECEDENCE)
def test_the_settled_status_is_the_worst_steps(
    statuses: set[StepStatus], expected: RunStatus
) -> None:
    assert outcome.of_run(frozenset(statuses), cancelled=False) is expected


@pytest.mark.parametrize(("statuses", "_"), PRECEDENCE)
def test_a_cancelled_run_ends_cancelled_also_with_an_unknown_step(
    statuses: set[StepStatus], _: RunStatus
) -> None:
    assert outcome.of_run(frozenset(statuses), cancelled=True) is RunStatus.CANCELLED


def test_a_cancelled_run_settles_when_its_call_ended_and_shows_that_it_may_have_acted() -> None:
    run = Drive(workflow(tool("a"), tool("b"), tool("c", "a"))).advance()
    run.end("b", "timed_out")
    run.cancel()
    assert run.run.status is RunStatus.RUNNING, "a call is in hand"
    assert run.status("c") is S.SKIPPED
    run.end("a")
    assert (run.run.status, run.status("a")) == (RunStatus.CANCELLED, S.SUCCEEDED)
    assert run.step("b").acted is A.UNKNOWN


def test_a_result_that_does_not_fit_fails_a_run_whose_steps_all_succeeded() -> None:
    run = Drive(workflow(tool("a"), result=FromInput()), input=WRONG).advance()
    run.end("a")
    assert (run.run.status, run.run.result_code) == (RunStatus.FAILED, C.INVALID_OUTPUT)
    assert run.status("a") is S.SUCCEEDED


def test_a_result_with_a_part_that_does_not_exist_fails_the_run() -> None:
    run = Drive(workflow(tool("a"), result=FromStep(NodeId("a"), ("id",)))).advance()
    run.end("a", output={"name": "x"})
    assert (run.run.status, run.run.result_code) == (RunStatus.FAILED, C.INVALID_OUTPUT)


def test_a_result_that_is_too_large_fails_the_run() -> None:
    """Each output keeps the limit; the join of both does not."""
    definition = workflow(
        tool("a"), tool("b"), join("both", "a", "b"), result=FromStep(NodeId("both"))
    )
    run = Drive(definition, policy=policy(definition, output_bytes_max=20)).advance()
    run.end("a", output="x" * 15)
    run.end("b", output="x" * 15)
    assert (run.run.status, run.run.result_code) == (RunStatus.FAILED, C.LIMIT_EXCEEDED)


def test_a_result_that_canonical_json_cannot_hold_fails_the_run() -> None:
    deep: JsonValue = "leaf"
    for _ in range(VALUE_DEPTH_MAX):
        deep = [deep]
    run = Drive(workflow(tool("a"), join("j", "a"), result=FromStep(NodeId("j")))).advance()
    run.end("a", output=deep)
    assert (run.run.status, run.run.result_code) == (RunStatus.FAILED, C.INVALID_OUTPUT)
