"""Receipts move forward only; what contradicts is kept and settled by nobody silently (G5)."""

from __future__ import annotations

from typing import Final

import pytest

from mayura.runtime.core import outcome
from mayura.runtime.core import transitions as t
from mayura.runtime.core.apply import apply
from mayura.runtime.core.receipts import Merge, merge
from mayura.runtime.core.state import Acted, Cause, Receipt, RunStatus, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, Nonce
from tests.core.drive import Drive, completion
from tests.core.graphs import tool, workflow

R = Receipt
KNOWN: Final = (R.SUCCEEDED, R.FAILED, R.NOT_STARTED)
TABLE: Final[list[tuple[Receipt | None, Receipt, Merge]]] = [
    (None, R.SUCCEEDED, "first"),
    (None, R.FAILED, "first"),
    (None, R.NOT_STARTED, "first"),
    (None, R.UNKNOWN, "first"),
    (R.UNKNOWN, R.SUCCEEDED, "forward"),
    (R.UNKNOWN, R.FAILED, "forward"),
    (R.UNKNOWN, R.NOT_STARTED, "forward"),
    (R.UNKNOWN, R.UNKNOWN, "same"),
    (R.SUCCEEDED, R.SUCCEEDED, "same"),
    (R.SUCCEEDED, R.FAILED, "contradiction"),
    (R.SUCCEEDED, R.NOT_STARTED, "contradiction"),
    (R.SUCCEEDED, R.UNKNOWN, "ignored"),
    (R.FAILED, R.SUCCEEDED, "contradiction"),
    (R.FAILED, R.FAILED, "same"),
    (R.FAILED, R.NOT_STARTED, "contradiction"),
    (R.FAILED, R.UNKNOWN, "ignored"),
    (R.NOT_STARTED, R.SUCCEEDED, "contradiction"),
    (R.NOT_STARTED, R.FAILED, "contradiction"),
    (R.NOT_STARTED, R.NOT_STARTED, "same"),
    (R.NOT_STARTED, R.UNKNOWN, "ignored"),
]


def dispatched(cost_micros: int = 30) -> Drive:
    return Drive(workflow(tool("a", cost_micros=cost_micros))).advance()


def record(
    run: Drive,
    receipt: Receipt,
    *,
    acted: Acted = Acted.NO,
    cause: Cause | None = None,
    charge_micros: int | None = None,
    output: bool = False,
) -> None:
    """Store a receipt of the call of step `a`."""
    name = NodeId("a")
    run.commit(t.RecordReceipt(name, run.nonce("a"), receipt, acted, cause, charge_micros, output))


def test_the_merge_table_is_whole() -> None:
    assert {(a, b) for a, b, _ in TABLE} == {(a, b) for a in (None, *R) for b in R}


@pytest.mark.parametrize(("existing", "incoming", "expected"), TABLE)
def test_a_receipt_meets_the_one_that_is_there(
    existing: Receipt | None, incoming: Receipt, expected: Merge
) -> None:
    assert merge(existing, incoming) == expected


@pytest.mark.parametrize(("existing", "incoming", "expected"), TABLE)
def test_only_a_first_or_a_forward_receipt_replaces_what_a_step_knows(
    existing: Receipt | None, incoming: Receipt, expected: Merge
) -> None:
    run = dispatched()
    if existing is not None:
        record(run, existing)
    before = run.run
    record(run, incoming)
    step = run.step("a")
    moved = expected in ("first", "forward")
    assert step.receipt is (incoming if moved else existing)
    assert step.contradiction is (incoming if expected == "contradiction" else None)
    assert (run.run == before) is (expected in ("same", "ignored"))


def test_a_receipt_of_another_dispatch_is_refused_and_changes_nothing() -> None:
    run = dispatched()
    before = run.run
    receipt = t.RecordReceipt(NodeId("a"), Nonce(b"x" * 16), R.SUCCEEDED, Acted.YES, None, 0, False)
    with pytest.raises(MayuraError) as refused:
        run.commit(receipt)
    assert refused.value.code is Code.INTEGRITY_VIOLATION
    assert run.run == before


def test_a_receipt_of_a_step_that_was_never_dispatched_is_refused() -> None:
    run = Drive(workflow(tool("a", approval=True))).advance()
    receipt = t.RecordReceipt(NodeId("a"), Nonce(b"x" * 16), R.SUCCEEDED, Acted.YES, None, 0, False)
    with pytest.raises(MayuraError) as refused:
        run.commit(receipt)
    assert refused.value.code is Code.INTEGRITY_VIOLATION


@pytest.mark.parametrize("move", ["complete", "abandon", "decline"])
def test_the_end_of_another_dispatch_is_refused(move: str) -> None:
    """G3, G6: only under this very nonce."""
    run, name, nonce = dispatched(), NodeId("a"), Nonce(b"x" * 16)
    ends: dict[str, t.Transition] = {
        "complete": t.Complete(name, nonce, StepStatus.FAILED, None, None, Acted.NO),
        "abandon": t.Abandon(name, nonce, StepStatus.FAILED, Code.ABANDONED, Acted.NO, None),
        "decline": t.Decline(name, nonce, Code.TIMEOUT),
    }
    with pytest.raises(MayuraError) as refused:
        apply(run.run, ends[move])
    assert refused.value.code is Code.INTEGRITY_VIOLATION


# --- late evidence ----------------------------------------------------------------------------


def test_a_late_receipt_of_an_ended_run_is_merged_and_changes_no_status() -> None:
    """Case A6: the body returned after its step was settled."""
    run = dispatched()
    run.end("a", "timed_out")
    assert run.run.status is RunStatus.OUTCOME_UNKNOWN
    run.end("a", "returned", output="late")
    step = run.step("a")
    assert (step.status, step.receipt, step.acted) == (StepStatus.UNKNOWN, R.SUCCEEDED, Acted.YES)
    assert (step.output, step.released) == (True, False)
    assert run.run.status is RunStatus.OUTCOME_UNKNOWN
    assert (run.run.spent_micros, run.run.reserved_micros) == (30, 0)


def test_a_late_refusal_releases_the_reservation_of_an_unknown_step() -> None:
    run = dispatched()
    run.end("a", "raised")
    run.end("a", "refused")
    step = run.step("a")
    assert (step.status, step.receipt, step.acted) == (
        StepStatus.UNKNOWN,
        R.NOT_STARTED,
        Acted.NO,
    )
    assert (run.run.spent_micros, run.run.reserved_micros) == (0, 0)


def test_the_same_receipt_again_says_nothing() -> None:
    run = dispatched()
    record(run, R.SUCCEEDED, acted=Acted.YES, charge_micros=30)
    before, events = run.run, len(run.events())
    record(run, R.SUCCEEDED, acted=Acted.YES, charge_micros=30)
    assert (run.run, len(run.events())) == (before, events)


# --- contradictions ---------------------------------------------------------------------------


def test_two_known_receipts_are_both_kept_and_reported_once() -> None:
    run = dispatched()
    record(run, R.NOT_STARTED, charge_micros=0)
    record(run, R.SUCCEEDED, acted=Acted.YES, charge_micros=30)
    record(run, R.FAILED)
    step = run.step("a")
    assert (step.receipt, step.contradiction) == (R.NOT_STARTED, R.SUCCEEDED)
    assert run.events("a").count("integrity.contradiction") == 1


def test_what_two_receipts_say_differently_about_acting_is_unknown() -> None:
    run = dispatched()
    record(run, R.NOT_STARTED, charge_micros=0)
    record(run, R.SUCCEEDED, acted=Acted.YES, charge_micros=30)
    assert run.step("a").acted is Acted.UNKNOWN


def test_a_call_that_ends_without_evidence_leaves_what_came_from_elsewhere() -> None:
    run = dispatched()
    record(run, R.SUCCEEDED, acted=Acted.YES, charge_micros=30)
    run.end("a", "raised")
    step = run.step("a")
    assert (step.status, step.receipt, step.acted) == (StepStatus.UNKNOWN, R.SUCCEEDED, Acted.YES)


def test_two_receipts_that_agree_that_nothing_acted_leave_it_at_that() -> None:
    run = dispatched()
    record(run, R.NOT_STARTED)
    record(run, R.FAILED)
    assert run.step("a").acted is Acted.NO


@pytest.mark.parametrize("status", [StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.BLOCKED])
def test_a_step_with_contradicting_receipts_ends_unknown(status: StepStatus) -> None:
    run = dispatched()
    record(run, R.NOT_STARTED, charge_micros=0)
    record(run, R.SUCCEEDED, acted=Acted.YES, charge_micros=30)
    run.commit(t.Complete(NodeId("a"), run.nonce("a"), status, None, None, Acted.NO))
    step = run.step("a")
    assert (step.status, step.cause) == (StepStatus.UNKNOWN, Cause.CONTRADICTED)
    assert (step.acted, step.code) == (Acted.UNKNOWN, Code.OUTCOME_UNKNOWN)
    assert run.run.status is RunStatus.OUTCOME_UNKNOWN


def test_a_declined_call_with_a_receipt_that_it_acted_is_settled_by_nobody() -> None:
    run = dispatched()
    record(run, R.SUCCEEDED, acted=Acted.YES, charge_micros=30)
    run.commit(t.Decline(NodeId("a"), run.nonce("a"), Code.CONFLICT))
    step = run.step("a")
    assert (step.status, step.acted) == (StepStatus.DISPATCHING, Acted.UNKNOWN)
    assert step.contradiction is R.NOT_STARTED


def test_a_contradiction_of_an_ended_step_changes_no_status() -> None:
    run = dispatched()
    run.end("a", "refused")
    run.end("a", "returned")
    step = run.step("a")
    assert (step.status, step.acted) == (StepStatus.FAILED, Acted.UNKNOWN)
    assert run.run.status is RunStatus.FAILED


# --- declining and false ends -----------------------------------------------------------------


def test_a_declined_call_is_blocked_with_the_reason_and_its_reservation_released() -> None:
    """G3."""
    run = dispatched()
    run.commit(t.Decline(NodeId("a"), run.nonce("a"), Code.PERMISSION_DENIED))
    step = run.step("a")
    assert (step.status, step.code) == (StepStatus.BLOCKED, Code.PERMISSION_DENIED)
    assert (step.receipt, step.acted) == (R.NOT_STARTED, Acted.NO)
    assert (run.run.spent_micros, run.run.reserved_micros) == (0, 0)
    assert run.events("a")[-2:] == ["step.receipt", "step.declined"]


def test_a_call_declined_in_a_cancelled_run_is_skipped() -> None:
    run = dispatched()
    run.cancel()
    run.commit(t.Decline(NodeId("a"), run.nonce("a"), Code.CONFLICT))
    step = run.step("a")
    assert (step.status, step.code) == (StepStatus.SKIPPED, Code.CANCELLED)
    assert (step.receipt, step.acted) == (R.NOT_STARTED, Acted.NO)
    assert run.run.status is RunStatus.CANCELLED


def test_a_call_declined_after_its_step_was_settled_leaves_only_its_receipt() -> None:
    run = dispatched()
    run.end("a", "timed_out")
    run.commit(t.Decline(NodeId("a"), run.nonce("a"), Code.TIMEOUT))
    step = run.step("a")
    assert (step.status, step.receipt) == (StepStatus.UNKNOWN, R.NOT_STARTED)
    assert "step.declined" not in run.events("a")
    assert run.run.reserved_micros == 0


@pytest.mark.parametrize("receipt", [None, *(r for r in R if r is not R.SUCCEEDED)])
def test_no_step_succeeds_without_the_evidence(receipt: Receipt | None) -> None:
    """G4."""
    run = dispatched()
    if receipt is not None:
        record(run, receipt)
    end = t.Complete(NodeId("a"), run.nonce("a"), StepStatus.SUCCEEDED, None, None, Acted.YES)
    before = run.run
    with pytest.raises(MayuraError) as refused:
        run.commit(end)
    assert refused.value.code is Code.INTEGRITY_VIOLATION
    assert run.run == before


@pytest.mark.parametrize("acted", [Acted.YES, Acted.UNKNOWN])
def test_no_step_that_may_have_acted_fails(acted: Acted) -> None:
    """G10."""
    run, name = dispatched(), NodeId("a")
    failed = StepStatus.FAILED
    ends: list[t.Transition] = [
        t.Complete(name, run.nonce("a"), failed, Code.TOOL_FAILED, None, acted),
        t.Abandon(name, run.nonce("a"), failed, Code.ABANDONED, acted, None),
    ]
    for end in ends:
        with pytest.raises(MayuraError) as refused:
            run.commit(end)
        assert refused.value.code is Code.INTEGRITY_VIOLATION


def test_a_result_that_comes_after_the_end_changes_no_status() -> None:
    """G6: complete only from dispatching."""
    run = dispatched()
    run.end("a", "timed_out")
    record(run, R.SUCCEEDED, acted=Acted.YES, charge_micros=30)
    late = completion(NodeId("a"), run.nonce("a"), outcome.succeeded(run.tool("a").tool))
    with pytest.raises(MayuraError) as refused:
        run.commit(late)
    assert refused.value.code is Code.CONFLICT
