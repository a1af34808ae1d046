"""Questions, timers and signals: what they wait for, when they end, and that nothing is lost."""

from __future__ import annotations

from typing import Final

import pytest

from mayura.runtime.core import transitions as t
from mayura.runtime.core.apply import apply
from mayura.runtime.core.change import IllegalMove
from mayura.runtime.core.definition import Constant, FromInput, FromStep, JsonValue, Node
from mayura.runtime.core.reading import Reading, iso
from mayura.runtime.core.state import Question, RunStatus, Signal, StepStatus, Timer
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId
from tests.core.drive import SECOND_US, START, Drive
from tests.core.graphs import WRONG, human, signal, timer, tool, workflow

S = StepStatus
IN_100_S: Final = iso(START.wall_us + 100 * SECOND_US)
PAST: Final = "2020-01-01T00:00:00Z"
DUE: Final = FromInput(("due",))
TIMED: Final[dict[str, Node]] = {
    "human": human("a", deadline=DUE),
    "signal": signal("a", deadline=DUE),
    "timer": timer("a", at=DUE),
}


def after(seconds: float) -> JsonValue:
    """An input that names a time so many seconds after the start."""
    return {"due": iso(START.wall_us + round(seconds * SECOND_US))}


# --- questions --------------------------------------------------------------------------------


def asked(deadline: bool = True) -> Drive:
    node = human("a", deadline=DUE if deadline else None)
    return Drive(workflow(node, tool("b", "a", value=FromStep(NodeId("a")))), input=after(100))


def test_an_answer_is_the_output_of_its_step() -> None:
    run = asked().advance()
    assert (run.status("a"), run.run.status) == (S.WAITING, RunStatus.WAITING)
    run.respond("a", "large")
    assert (run.status("a"), run.status("b")) == (S.SUCCEEDED, S.DISPATCHING)
    assert run.events("a") == ["question.asked", "question.answered", "step.succeeded"]


def test_a_question_times_out_at_its_deadline_and_the_run_fails() -> None:
    run = asked().advance().later(100 - 0.000001).advance()
    assert run.status("a") is S.WAITING
    run.later(0.000001).advance()
    assert (run.status("a"), run.step("a").code) == (S.TIMED_OUT, Code.TIMEOUT)
    assert (run.status("b"), run.run.status) == (S.SKIPPED, RunStatus.FAILED)


def test_an_answer_that_was_recorded_in_time_is_never_timed_out() -> None:
    """G13: recorded where the code is not loaded, and accepted long after the deadline."""
    run = asked().advance()
    run.loaded = False
    run.respond("a", "large")
    run.later(1_000).advance()
    assert run.status("a") is S.WAITING
    run.loaded = True
    assert run.advance().status("a") is S.SUCCEEDED


def test_a_question_is_answered_once() -> None:
    run = asked().advance()
    run.loaded = False
    run.respond("a", "large")
    with pytest.raises(IllegalMove):
        run.respond("a", "small")


def test_a_question_without_a_deadline_waits_for_ever_and_never_wakes() -> None:
    run = asked(deadline=False).advance()
    assert run.run.wake_at_us is None
    assert run.later(10**8).advance().status("a") is S.WAITING


def test_a_deadline_that_is_null_is_none() -> None:
    run = Drive(workflow(human("a", deadline=DUE)), input={"due": None}).advance()
    detail = run.step("a").detail
    assert isinstance(detail, Question)
    assert detail.deadline_us is None


@pytest.mark.parametrize("due", ["tomorrow", 12, "2027-01-01T00:00:00", True], ids=repr)
@pytest.mark.parametrize("kind", TIMED)
def test_a_time_that_is_none_fails_its_step(kind: str, due: object) -> None:
    assert isinstance(due, str | int)
    run = Drive(workflow(TIMED[kind]), input={"due": due}).advance()
    assert (run.status("a"), run.step("a").code) == (S.FAILED, Code.INVALID_INPUT)
    assert run.run.status is RunStatus.FAILED


@pytest.mark.parametrize("kind", TIMED)
def test_a_time_that_is_missing_fails_its_step(kind: str) -> None:
    run = Drive(workflow(TIMED[kind]), input={}).advance()
    assert (run.status("a"), run.step("a").code) == (S.FAILED, Code.INVALID_INPUT)


def test_a_pause_gives_a_question_its_time_back_and_its_digest_stays() -> None:
    run = asked().advance().later(90)
    before = run.step("a").detail
    run.pause()
    run.later(500).advance()
    assert run.status("a") is S.WAITING
    run.resume()
    detail = run.step("a").detail
    assert isinstance(before, Question)
    assert isinstance(detail, Question)
    assert (detail.digest, detail.deadline_us) == (before.digest, before.deadline_us)
    assert detail.allowance_us == 500 * SECOND_US
    assert run.later(10 - 0.000001).advance().status("a") is S.WAITING
    assert run.later(0.000001).advance().status("a") is S.TIMED_OUT


def test_an_answer_is_kept_while_paused_and_accepted_at_resume() -> None:
    run = asked().advance()
    run.pause()
    run.later(1_000)
    run.respond("a", "large")
    assert run.status("a") is S.WAITING
    run.resume()
    assert run.status("a") is S.SUCCEEDED


# --- timers -----------------------------------------------------------------------------------


def timed(seconds: float) -> Drive:
    node = timer("a", at=DUE)
    return Drive(workflow(node, tool("b", "a")), input=after(seconds)).advance()


def test_a_timer_fires_at_its_time_and_not_before() -> None:
    run = timed(100)
    assert run.run.wake_at_us == START.wall_us + 100 * SECOND_US
    assert run.later(100 - 0.000001).advance().status("a") is S.WAITING
    assert run.later(0.000001).advance().status("a") is S.SUCCEEDED
    assert run.status("b") is S.DISPATCHING


def test_a_timer_whose_time_has_passed_fires_at_once() -> None:
    run = timed(-5)
    assert (run.status("a"), run.status("b")) == (S.SUCCEEDED, S.DISPATCHING)
    assert run.step("a").detail == Timer(START.wall_us - 5 * SECOND_US, START.wall_us)


def test_a_timer_does_not_fire_while_its_run_is_paused() -> None:
    run = timed(100)
    run.pause()
    assert run.run.wake_at_us is None
    assert run.later(1_000).advance().status("a") is S.WAITING
    run.resume()
    assert run.status("a") is S.SUCCEEDED
    assert run.step("a").detail == Timer(START.wall_us + 100 * SECOND_US, run.now.wall_us)


def test_the_output_of_a_timer_says_when_it_was_due_and_when_it_fired() -> None:
    run = timed(100).later(130).advance()
    reading = Reading(run.definition, run.run, {})
    assert reading.output(NodeId("a")) == {
        "fire_at": IN_100_S,
        "fired_at": iso(START.wall_us + 130 * SECOND_US),
    }


# --- signals ----------------------------------------------------------------------------------


def waiting(deadline: bool = False) -> Drive:
    node = signal("a", deadline=DUE if deadline else None)
    return Drive(workflow(node), input=after(100)).advance()


def later_on(deadline: bool = False) -> Drive:
    """A signal step that waits only once another step is done."""
    node = signal("a", "first", deadline=DUE if deadline else None)
    return Drive(workflow(tool("first"), node), input=after(100)).advance()


def test_a_signal_is_the_output_of_the_step_that_waits_for_it() -> None:
    run = waiting()
    run.signal("a", {"paid": True})
    assert (run.status("a"), run.run.status) == (S.SUCCEEDED, RunStatus.SUCCEEDED)


def test_an_early_signal_is_kept_and_completes_its_step_when_that_begins() -> None:
    run = later_on(deadline=True)
    run.signal("a")
    assert run.status("a") is S.PENDING
    run.later(5_000)
    run.end("first")
    assert run.status("a") is S.SUCCEEDED, "it came before the deadline"
    assert run.events("a") == ["signal.received", "signal.awaited", "step.succeeded"]


def test_an_early_signal_after_the_deadline_times_out_and_the_event_log_says_so() -> None:
    run = later_on(deadline=True).later(100)
    run.signal("a")
    run.end("first")
    assert run.status("a") is S.TIMED_OUT
    assert run.events("a")[-2:] == ["step.timed_out", "signal.without_effect"]


def test_a_pause_before_a_signal_step_waits_does_not_lengthen_its_deadline() -> None:
    run = later_on(deadline=True).later(110)
    run.signal("a")
    run.pause()
    run.later(50)
    run.resume()
    run.end("first")
    assert run.status("a") is S.TIMED_OUT


def test_a_signal_step_times_out_at_its_deadline() -> None:
    run = waiting(deadline=True)
    assert run.later(100 - 0.000001).advance().status("a") is S.WAITING
    assert run.later(0.000001).advance().status("a") is S.TIMED_OUT
    with pytest.raises(IllegalMove):
        run.signal("a")


def test_a_pause_lengthens_the_deadline_of_a_signal_step_that_waits() -> None:
    run = waiting(deadline=True)
    run.pause()
    run.later(500)
    run.resume()
    assert run.later(100 - 0.000001).advance().status("a") is S.WAITING
    run.signal("a")
    assert run.status("a") is S.SUCCEEDED


def test_a_second_signal_is_refused() -> None:
    run = later_on()
    run.signal("a")
    with pytest.raises(IllegalMove):
        run.commit(t.ReceiveSignal(NodeId("a"), "another", b"p", run.now.wall_us))


def test_an_early_signal_of_a_step_that_is_skipped_is_kept_without_effect() -> None:
    """Case I2: the event log says so."""
    run = later_on()
    run.signal("a")
    run.end("first", "refused")
    detail = run.step("a").detail
    assert run.status("a") is S.SKIPPED
    assert isinstance(detail, Signal)
    assert detail.signal_id == "signal-a"
    assert run.events("a") == ["signal.received", "step.skipped", "signal.without_effect"]


def test_an_early_signal_of_a_step_that_is_bypassed_is_kept_without_effect() -> None:
    node = signal("a", "first", when=Constant(False))
    run = Drive(workflow(tool("first"), node)).advance()
    run.signal("a")
    run.end("first")
    assert run.status("a") is S.BYPASSED
    assert run.events("a") == ["signal.received", "step.bypassed", "signal.without_effect"]


@pytest.mark.parametrize("left_out", [S.SKIPPED, S.BYPASSED])
def test_a_signal_for_a_step_that_was_left_out_is_kept_while_the_run_is_open(
    left_out: StepStatus,
) -> None:
    when = Constant(False) if left_out is S.BYPASSED else None
    run = Drive(workflow(tool("first"), tool("other"), signal("a", "first", when=when))).advance()
    run.end("first", "refused" if left_out is S.SKIPPED else "returned")
    assert run.status("a") is left_out
    run.signal("a")
    assert run.status("a") is left_out
    assert b'"without_effect":true' in run.journal[-1].entries


def test_a_waiting_step_that_is_cancelled_keeps_the_signal_it_got() -> None:
    run = waiting()
    run.loaded = False
    run.signal("a")
    run.cancel()
    assert (run.status("a"), run.run.status) == (S.SKIPPED, RunStatus.CANCELLED)
    assert run.events("a")[-1] == "signal.without_effect"


def test_a_signal_of_an_ended_run_is_refused_not_swallowed() -> None:
    """Case I4."""
    run = waiting()
    run.cancel()
    with pytest.raises(IllegalMove):
        run.signal("a")


def test_a_signal_is_kept_while_paused_and_accepted_at_resume() -> None:
    run = waiting(deadline=True)
    run.pause()
    run.later(1_000)
    run.signal("a")
    assert run.status("a") is S.WAITING
    run.resume()
    assert run.status("a") is S.SUCCEEDED


# --- a move needs what it is about ------------------------------------------------------------

QUESTION: Final = t.Answer(NodeId("a"), b"x", t.Person("ada"), "c")
MOVES: Final[dict[str, tuple[t.Transition, set[str]]]] = {
    "accept": (t.Accept(NodeId("a"), START.wall_us), {"timer"}),
    "time_out": (t.TimeOut(NodeId("a")), {"human", "signal"}),
    "lapse": (t.LapseApproval(NodeId("a")), {"approval"}),
    "approve": (t.Approve(NodeId("a"), t.Person("ada"), 0, "c"), {"approval"}),
    "reject": (t.Reject(NodeId("a"), t.Person("ada"), 0, "c"), {"approval"}),
    "answer": (QUESTION, {"human"}),
    "receive": (t.ReceiveSignal(NodeId("a"), "s", b"p", 0), {"signal"}),
}
WAITING: Final[dict[str, Node]] = {
    "approval": tool("a", approval=True),
    "human": human("a"),
    "timer": timer("a", at=Constant(IN_100_S)),
    "signal": signal("a"),
}


@pytest.mark.parametrize("kind", WAITING)
@pytest.mark.parametrize("name", MOVES)
def test_a_waiting_step_is_moved_only_by_what_it_waits_for(name: str, kind: str) -> None:
    """No answer, signal or timer ever stands in for an approval, nor the other way round."""
    move, kinds = MOVES[name]
    run = Drive(workflow(WAITING[kind])).advance().run
    assert run.step(NodeId("a")).status is S.WAITING
    if kind in kinds:
        assert apply(run, move)[0] != run
        return
    with pytest.raises(IllegalMove):
        apply(run, move)


@pytest.mark.parametrize("kind", ["human", "signal"])
def test_a_value_that_does_not_fit_fails_the_step_that_waited_for_it(kind: str) -> None:
    """G12: what was taken where the code was not loaded is validated by whoever has it."""
    run = Drive(workflow(WAITING[kind])).advance()
    if kind == "human":
        run.respond("a", WRONG)
    else:
        run.signal("a", WRONG)
    assert (run.status("a"), run.step("a").code) == (S.FAILED, Code.INVALID_INPUT)
