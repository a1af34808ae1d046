"""Money: spent + reserved <= maximum at every commit, and what goes beyond is kept apart (G14)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from mayura.runtime.core import budget, decision
from mayura.runtime.core.apply import apply
from mayura.runtime.core.state import Run, RunStatus, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, Nonce
from tests.core.drive import START, Drive, begin_of, new_run
from tests.core.graphs import policy, tool, workflow

DEFINITION: Final = workflow(tool("a", cost_micros=30))


def run_with(maximum: int = 100, spent: int = 0, reserved: int = 0, overrun: int = 0) -> Run:
    """A run with these books."""
    return replace(
        new_run(DEFINITION, policy(DEFINITION)),
        maximum_micros=maximum,
        spent_micros=spent,
        reserved_micros=reserved,
        overrun_micros=overrun,
    )


def books(run: Run) -> tuple[int, int, int]:
    return run.spent_micros, run.reserved_micros, run.overrun_micros


@pytest.mark.parametrize(
    ("run", "cost", "expected"),
    [
        (run_with(), 100, True),
        (run_with(), 101, False),
        (run_with(spent=60), 40, True),
        (run_with(spent=60), 41, False),
        (run_with(reserved=60), 40, True),
        (run_with(reserved=60), 41, False),
        (run_with(spent=50, reserved=50), 0, True),
        (run_with(spent=50, reserved=50), 1, False),
        (run_with(overrun=1), 0, False),
    ],
)
def test_a_call_is_affordable_if_its_cost_fits_beside_what_is_spent_and_reserved(
    run: Run, cost: int, expected: bool
) -> None:
    assert budget.affordable(run, cost) is expected


@pytest.mark.parametrize(
    ("charge", "after"),
    [(0, (10, 0, 0)), (12, (22, 0, 0)), (30, (40, 0, 0)), (31, (40, 0, 1)), (90, (40, 0, 60))],
    ids=["nothing", "less", "all", "one more", "far more"],
)
def test_settling_turns_a_reservation_into_a_charge_and_keeps_the_surplus_apart(
    charge: int, after: tuple[int, int, int]
) -> None:
    assert books(budget.settle(run_with(spent=10, reserved=30), 30, charge)) == after


@pytest.mark.parametrize("reserved", range(4))
@pytest.mark.parametrize("charge", range(6))
def test_the_smallest_amounts_are_booked_like_any_other(reserved: int, charge: int) -> None:
    reserving = budget.reserve(run_with(), reserved)
    assert books(reserving) == (0, reserved, 0)
    spent, overrun = min(reserved, charge), max(0, charge - reserved)
    assert books(budget.settle(reserving, reserved, charge)) == (spent, 0, overrun)


def test_settling_adds_to_an_overrun_that_is_there() -> None:
    assert books(budget.settle(run_with(reserved=5, overrun=2), 5, 8)) == (5, 0, 5)


def test_reserving_books_the_most_a_call_may_cost() -> None:
    assert books(budget.reserve(run_with(spent=1, reserved=2), 30)) == (1, 32, 0)


def test_a_dispatch_that_does_not_fit_is_refused_by_the_only_writer_too() -> None:
    run = run_with(maximum=29)
    begun = begin_of(tool("a", cost_micros=30), Nonce(b"n" * 16), START, run)
    with pytest.raises(MayuraError) as refused:
        apply(run, begun)
    assert refused.value.code is Code.BUDGET_EXCEEDED


def ten_steps() -> Drive:
    steps = [tool(f"s{number}", cost_micros=30) for number in range(10)]
    return Drive(workflow(*steps), budget_micros=100)


def test_ten_steps_of_thirty_that_start_at_once_with_a_budget_of_a_hundred() -> None:
    """Case O6: exactly three are dispatched, seven blocked."""
    run = ten_steps().advance()
    assert run.in_status(StepStatus.DISPATCHING) == ["s0", "s1", "s2"]
    blocked = run.in_status(StepStatus.BLOCKED)
    assert len(blocked) == 7
    assert {run.step(node).code for node in blocked} == {Code.BUDGET_EXCEEDED}
    assert books(run.run) == (0, 90, 0)
    for node in ("s0", "s1", "s2"):
        run.end(node)
        assert run.run.spent_micros + run.run.reserved_micros <= 100
    assert run.run.status is RunStatus.BLOCKED
    assert books(run.run) == (90, 0, 0)


def test_a_step_whose_cost_fits_no_budget_is_blocked_before_anything_is_asked_for() -> None:
    run = ten_steps()
    run.run = replace(run.run, maximum_micros=29)
    decided = decision.decide(run.view(), [NodeId("s0")])
    assert decided.ready == []
    run.advance()
    assert len(run.in_status(StepStatus.BLOCKED)) == 10


def test_what_a_refusal_gives_back_may_be_reserved_again() -> None:
    run = Drive(
        workflow(tool("a", cost_micros=100), tool("b", "n", cost_micros=100), tool("n")),
        budget_micros=100,
    ).advance()
    run.end("a", "refused")
    run.end("n")
    assert run.status("b") is StepStatus.DISPATCHING


def test_an_unknown_steps_reservation_stays_and_is_not_spent_twice() -> None:
    run = Drive(
        workflow(tool("a", cost_micros=60), tool("n"), tool("b", "n", cost_micros=50)),
        budget_micros=100,
    ).advance()
    run.end("a", "timed_out")
    run.end("n")
    assert (run.status("b"), run.step("b").code) == (StepStatus.BLOCKED, Code.BUDGET_EXCEEDED)
    assert books(run.run) == (0, 60, 0)
