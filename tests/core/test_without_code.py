"""What needs neither the definition's code nor an accepted policy goes on without them (G12)."""

from __future__ import annotations

from typing import Final

import pytest

from mayura.runtime.core.definition import Constant, FromInput, Node
from mayura.runtime.core.reading import iso
from mayura.runtime.core.state import RunStatus, StepStatus
from mayura.runtime.errors import Code
from tests.core.drive import SECOND_US, START, Drive
from tests.core.graphs import WRONG, fan_out, human, join, signal, timer, tool, workflow

S = StepStatus
SOON: Final = Constant(iso(START.wall_us + 10 * SECOND_US))
BEGINNINGS: Final[dict[str, Node]] = {
    "tool": tool("a"),
    "approval": tool("a", approval=True),
    "left out": tool("a", when=Constant(None)),
    "invalid": tool("a", value=FromInput(("missing",))),
    "too dear": tool("a", cost_micros=10**9),
    "human": human("a"),
    "timer": timer("a", at=SOON),
    "signal": signal("a"),
}


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_nothing_starts_and_the_run_stays_due(kind: str) -> None:
    run = Drive(workflow(BEGINNINGS[kind]), input={}, loaded=False)
    before = run.run
    run.advance()
    assert run.status("a") is S.PENDING
    assert run.run == before, "there is nothing to write about it"
    assert (run.run.status, run.run.wake_at_us) == (RunStatus.RUNNING, START.wall_us)


def test_a_join_is_not_made_either() -> None:
    run = Drive(workflow(tool("a"), join("j", "a"))).advance()
    run.loaded = False
    run.end("a")
    assert (run.status("a"), run.status("j")) == (S.SUCCEEDED, S.PENDING)


def test_the_receipt_and_the_end_of_a_call_are_stored() -> None:
    run = Drive(workflow(tool("a"), tool("b", "a"))).advance()
    run.loaded = False
    run.end("a")
    assert (run.status("a"), run.status("b")) == (S.SUCCEEDED, S.PENDING)
    assert (run.run.status, run.run.wake_at_us) == (RunStatus.RUNNING, run.now.wall_us)
    run.loaded = True
    assert run.advance().status("b") is S.DISPATCHING


def test_a_failed_step_skips_its_dependents_and_the_run_settles() -> None:
    run = Drive(workflow(tool("a"), tool("b", "a"))).advance()
    run.loaded = False
    run.end("a", "timed_out")
    assert (run.status("b"), run.run.status) == (S.SKIPPED, RunStatus.OUTCOME_UNKNOWN)


def test_an_abandoned_call_is_settled() -> None:
    run = Drive(workflow(tool("a"), tool("b", "a"))).advance()
    run.loaded = False
    run.reboot()
    run.advance()
    assert (run.status("a"), run.run.status) == (S.UNKNOWN, RunStatus.OUTCOME_UNKNOWN)


def test_a_cancel_skips_what_has_not_begun() -> None:
    run = Drive(workflow(human("a"), tool("b", "a"))).advance()
    run.loaded = False
    run.cancel()
    assert (run.statuses(), run.run.status) == (
        {"a": "skipped", "b": "skipped"},
        RunStatus.CANCELLED,
    )


def test_a_pause_and_a_resume_are_recorded() -> None:
    run = Drive(workflow(tool("a")), loaded=False)
    run.pause()
    assert (run.run.status, run.run.wake_at_us) == (RunStatus.PAUSED, None)
    run.resume()
    assert (run.run.status, run.run.wake_at_us) == (RunStatus.RUNNING, run.now.wall_us)


@pytest.mark.parametrize("value", ["fits", WRONG])
@pytest.mark.parametrize("kind", ["human", "signal"])
def test_an_answer_or_a_signal_is_recorded_and_judged_by_the_first_advance_with_the_code(
    kind: str, value: str
) -> None:
    run = Drive(workflow(BEGINNINGS[kind], tool("b", "a"))).advance()
    run.loaded = False
    if kind == "human":
        run.respond("a", value)
    else:
        run.signal("a", value)
    assert run.status("a") is S.WAITING
    assert (run.run.status, run.run.wake_at_us) == (RunStatus.RUNNING, run.now.wall_us)
    run.later(1).advance()
    assert run.status("a") is S.WAITING
    run.loaded = True
    run.advance()
    if value == WRONG:
        assert (run.status("a"), run.step("a").code) == (S.FAILED, Code.INVALID_INPUT)
        assert run.run.status is RunStatus.FAILED
    else:
        assert (run.status("a"), run.status("b")) == (S.SUCCEEDED, S.DISPATCHING)


def test_an_approval_is_recorded_and_its_call_begins_where_the_code_is() -> None:
    run = Drive(workflow(tool("a", approval=True))).advance()
    run.loaded = False
    run.approve("a")
    assert (run.status("a"), run.run.wake_at_us) == (S.PENDING, run.now.wall_us)
    run.loaded = True
    assert run.advance().status("a") is S.DISPATCHING


def test_a_timer_fires_and_a_question_times_out() -> None:
    run = Drive(workflow(timer("a", at=SOON), human("b", deadline=SOON), tool("c", "a"))).advance()
    run.loaded = False
    run.later(10).advance()
    assert run.statuses() == {"a": "succeeded", "b": "timed_out", "c": "pending"}


def test_a_run_whose_steps_all_succeeded_waits_for_the_code_to_judge_its_result() -> None:
    run = Drive(workflow(tool("a"), result=FromInput()), input="fits").advance()
    run.loaded = False
    run.end("a")
    assert (run.run.status, run.run.wake_at_us) == (RunStatus.RUNNING, run.now.wall_us)
    run.loaded = True
    assert run.advance().run.status is RunStatus.SUCCEEDED


def test_the_slots_of_a_fan_out_wait_for_the_code_too() -> None:
    nodes = fan_out("f", FromInput(("items",)), 2)
    run = Drive(workflow(*nodes), input={"items": [1]}, loaded=False).advance()
    assert set(run.statuses().values()) == {"pending"}
