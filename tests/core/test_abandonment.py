"""A call that nobody has any more is settled once, after its deadline, by its receipt (G9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from mayura.runtime.core import decision
from mayura.runtime.core import transitions as t
from mayura.runtime.core.deadlines import due_steps, passed, settle_wait_us
from mayura.runtime.core.definition import Effects
from mayura.runtime.core.state import (
    Acted,
    Cause,
    Deadline,
    Instant,
    Receipt,
    RunStatus,
    StepStatus,
)
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId
from tests.core.drive import MARGIN_MS, SECOND_US, Drive
from tests.core.graphs import CHANGING, EFFECTS, UNCHANGING, spec, tool, workflow

S, R, A = StepStatus, Receipt, Acted
TIMEOUT_S: Final = 30
WAIT_S: Final = TIMEOUT_S + MARGIN_MS / 1_000
COST_MICROS: Final = 40


def dispatched(effects: Effects = "write", *, own: bool = False) -> Drive:
    """A run whose one call was begun, by this process or by one that is gone."""
    uses = spec(effects, cost_micros=COST_MICROS, timeout_ms=TIMEOUT_S * 1_000)
    run = Drive(workflow(tool("a", uses=uses), tool("b", "a"))).advance()
    if not own:
        run.own.clear()
    return run


def leave_receipt(run: Drive, receipt: Receipt) -> None:
    """What the process stored before it died."""
    acted = A.YES if receipt is R.SUCCEEDED else A.NO
    charge_micros = {R.SUCCEEDED: COST_MICROS, R.FAILED: COST_MICROS, R.NOT_STARTED: 0}
    run.commit(
        t.RecordReceipt(
            NodeId("a"),
            run.nonce("a"),
            receipt,
            A.UNKNOWN if receipt is R.UNKNOWN else acted,
            None,
            charge_micros.get(receipt),
            receipt is R.SUCCEEDED,
        )
    )


#: Receipt and tool, and what the step becomes: status, acted, charged (None: still reserved).
TABLE: Final[list[tuple[Receipt | None, tuple[Effects, ...], StepStatus, Acted, int | None]]] = [
    (R.SUCCEEDED, UNCHANGING, S.BLOCKED, A.NO, COST_MICROS),
    (R.SUCCEEDED, CHANGING, S.BLOCKED, A.YES, COST_MICROS),
    (R.FAILED, EFFECTS, S.FAILED, A.NO, COST_MICROS),
    (R.NOT_STARTED, EFFECTS, S.FAILED, A.NO, 0),
    (R.UNKNOWN, UNCHANGING, S.FAILED, A.NO, COST_MICROS),
    (R.UNKNOWN, CHANGING, S.UNKNOWN, A.UNKNOWN, None),
    (None, UNCHANGING, S.FAILED, A.NO, COST_MICROS),
    (None, CHANGING, S.UNKNOWN, A.UNKNOWN, None),
]
ROWS: Final = [(*row[:1], one, *row[2:]) for row in TABLE for one in row[1]]


@pytest.mark.parametrize(
    ("receipt", "effects", "status", "acted", "charged"),
    ROWS,
    ids=[f"{row[0]}-{row[1]}" for row in ROWS],
)
def test_past_its_deadline_a_call_is_settled_by_its_receipt(
    receipt: Receipt | None,
    effects: Effects,
    status: StepStatus,
    acted: Acted,
    charged: int | None,
) -> None:
    run = dispatched(effects)
    if receipt is not None:
        leave_receipt(run, receipt)
    run.later(WAIT_S).advance()
    step = run.step("a")
    assert (step.status, step.acted, step.receipt) == (status, acted, receipt)
    assert step.cause is Cause.ABANDONED
    assert step.code is (Code.OUTCOME_UNKNOWN if status is S.UNKNOWN else Code.ABANDONED)
    assert step.released is False
    expected = (0, COST_MICROS) if charged is None else (charged, 0)
    assert (run.run.spent_micros, run.run.reserved_micros) == expected
    assert run.status("b") is S.SKIPPED
    assert "step.abandoned" in run.events("a")


def test_a_call_is_left_alone_until_its_deadline() -> None:
    run = dispatched().later(WAIT_S - 0.000001).advance()
    assert run.status("a") is S.DISPATCHING
    run.later(0.000001).advance()
    assert run.status("a") is S.UNKNOWN


def test_a_call_of_another_boot_is_past_its_deadline() -> None:
    """On SQLite another boot id proves that the process is dead."""
    run = dispatched()
    run.reboot()
    run.advance()
    assert run.status("a") is S.UNKNOWN


def test_a_wall_clock_that_jumps_settles_nothing() -> None:
    run = dispatched()
    run.now = Instant(run.now.wall_us + 10**15, run.now.steady_us, run.now.epoch)
    run.advance()
    assert run.status("a") is S.DISPATCHING


def test_a_call_that_this_process_has_in_hand_is_never_settled_however_late() -> None:
    run = dispatched(own=True).later(100 * WAIT_S).advance()
    assert run.status("a") is S.DISPATCHING
    run.end("a")
    assert run.status("a") is S.SUCCEEDED


@pytest.mark.parametrize("state", ["paused", "cancelled", "not loaded"])
def test_a_call_is_settled_also_where_nothing_may_start(state: str) -> None:
    run = dispatched()
    if state == "paused":
        run.pause()
    elif state == "cancelled":
        run.cancel()
    else:
        run.loaded = False
    run.later(WAIT_S).advance()
    assert run.status("a") is S.UNKNOWN
    expected = {
        "paused": RunStatus.PAUSED,
        "cancelled": RunStatus.CANCELLED,
        "not loaded": RunStatus.OUTCOME_UNKNOWN,
    }
    assert run.run.status is expected[state]


def test_the_deadline_is_the_one_that_was_stored_at_the_dispatch() -> None:
    """A release with a shorter timeout does not settle a live step."""
    run = dispatched()
    quicker = spec("write", cost_micros=COST_MICROS, timeout_ms=1, name=run.tool("a").tool.id)
    run.definition = workflow(tool("a", uses=quicker), tool("b", "a"))
    run.later(WAIT_S - 1).advance()
    assert run.status("a") is S.DISPATCHING


def test_contradicting_receipts_make_an_abandoned_step_unknown() -> None:
    run = dispatched()
    leave_receipt(run, R.NOT_STARTED)
    leave_receipt(run, R.SUCCEEDED)
    run.later(WAIT_S).advance()
    step = run.step("a")
    assert (step.status, step.acted, step.cause) == (S.UNKNOWN, A.UNKNOWN, Cause.CONTRADICTED)
    assert step.code is Code.OUTCOME_UNKNOWN


@pytest.mark.parametrize("effects", UNCHANGING)
@pytest.mark.parametrize(("reported", "overrun"), [(None, 0), (10, 0), (COST_MICROS + 7, 7)])
def test_what_an_abandonment_charged_is_not_charged_again_by_a_late_receipt(
    effects: Effects, reported: int | None, overrun: int
) -> None:
    """G14: charged in full once; only what goes beyond is an overrun."""
    run = dispatched(effects).later(WAIT_S).advance()
    run.end("a", "returned", known_micros=reported)
    step = run.step("a")
    assert (step.status, step.receipt, step.acted) == (S.FAILED, R.SUCCEEDED, A.NO)
    assert (run.run.spent_micros, run.run.reserved_micros) == (COST_MICROS, 0)
    assert run.run.overrun_micros == overrun
    assert ("budget.overrun" in run.events("a")) is (overrun > 0)
    assert step.charged_micros == COST_MICROS + overrun


def test_an_operator_may_record_it_early_and_the_event_names_the_command() -> None:
    run = dispatched()
    early = decision.abandon(run.tool("a"), run.step("a"), command_id="c-recover")
    run.commit(early)
    assert run.status("a") is S.UNKNOWN
    assert b"c-recover" in run.journal[-1].entries


def test_the_late_result_of_a_call_settled_early_is_evidence_and_nothing_more() -> None:
    run = dispatched(own=True)
    run.commit(decision.abandon(run.tool("a"), run.step("a"), command_id="c-recover"))
    run.end("a", output="done")
    step = run.step("a")
    assert (step.status, step.receipt, step.acted) == (S.UNKNOWN, R.SUCCEEDED, A.YES)
    assert run.run.status is RunStatus.OUTCOME_UNKNOWN


# --- the leaves -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deadline", "expected"),
    [
        (Deadline(100, "e"), True),
        (Deadline(101, "e"), False),
        (Deadline(99, "e"), True),
        (Deadline(10**12, "other"), True),
    ],
    ids=["at it", "before it", "after it", "another epoch"],
)
def test_a_deadline_is_over_from_its_moment_on_or_in_another_epoch(
    deadline: Deadline, expected: bool
) -> None:
    assert passed(deadline, Instant(0, 100, "e")) is expected


def test_the_settle_wait_is_timeout_plus_margin() -> None:
    assert settle_wait_us(30_000, 60_000) == 90 * SECOND_US


def test_due_steps_are_the_calls_and_waits_whose_time_has_come() -> None:
    run = dispatched()
    name = NodeId("a")
    assert list(due_steps(run.run, run.now, ())) == []
    run.later(WAIT_S)
    assert list(due_steps(run.run, run.now, ())) == [name]
    assert list(due_steps(run.run, run.now, [run.nonce("a")])) == []
    ended = replace(run.step("a"), status=S.UNKNOWN)
    assert list(due_steps(replace(run.run, steps={name: ended}), run.now, ())) == []
