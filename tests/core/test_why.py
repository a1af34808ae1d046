"""One sentence that says what a run waits for, or how it came to its end."""

from __future__ import annotations

from typing import Final

import pytest

from mayura.runtime.core import transitions as t
from mayura.runtime.core.definition import Constant, FromInput, Node
from mayura.runtime.core.reading import iso
from mayura.runtime.core.state import Acted, Receipt
from mayura.runtime.core.why import why
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId
from tests.core.drive import SECOND_US, START, Drive
from tests.core.graphs import WRONG, human, signal, timer, tool, workflow

SOON: Final = iso(START.wall_us + 10 * SECOND_US)
EXPIRY: Final = iso(START.wall_us + 3_600 * SECOND_US)
LATE = "if it is lost, whoever drives the run after"
SETTLED_BY: Final = iso(START.wall_us + 90 * SECOND_US)


def said(run: Drive, *, accepted: bool = True) -> str:
    return why(run.definition, run.run, accepted=accepted)


def started(*nodes: Node) -> Drive:
    return Drive(workflow(*nodes)).advance()


WAITS: Final[list[tuple[Node, str]]] = [
    (tool("a", approval=True), f"Step 'a' waits for a person's approval until {EXPIRY}."),
    (human("a"), "Step 'a' waits for a person's answer."),
    (human("a", deadline=Constant(SOON)), f"Step 'a' waits for a person's answer until {SOON}."),
    (timer("a", at=Constant(SOON)), f"Step 'a' waits until {SOON}."),
    (signal("a"), "Step 'a' waits for the signal 'a'."),
    (signal("a", deadline=Constant(SOON)), f"Step 'a' waits for the signal 'a' until {SOON}."),
    (
        tool("a"),
        f"Step 'a' is in a call; {LATE} {SETTLED_BY} settles it.",
    ),
]


@pytest.mark.parametrize(
    ("node", "expected"),
    WAITS,
    ids=["approval", "answer", "answer-by", "timer", "signal", "signal-by", "call"],
)
def test_each_kind_of_wait_is_named_with_its_time(node: Node, expected: str) -> None:
    assert said(started(node)) == expected


def test_every_wait_is_named() -> None:
    run = started(human("a"), signal("b"))
    assert said(run) == ("Step 'a' waits for a person's answer. Step 'b' waits for the signal 'b'.")


def test_a_call_in_hand_comes_before_what_else_the_run_waits_for() -> None:
    assert "is in a call" in said(started(human("a"), tool("z")))


def test_a_paused_run_says_what_lets_it_go_on() -> None:
    run = started(human("a"))
    run.pause()
    assert said(run) == "It is paused; resume it to go on."


def test_a_run_that_is_about_to_pause_names_the_call_it_waits_for() -> None:
    run = started(tool("a"))
    run.pause()
    assert "is in a call" in said(run)


def test_a_run_that_can_go_on_elsewhere_says_so() -> None:
    run = Drive(workflow(tool("a")), loaded=False).advance()
    assert said(run) == "It has steps that can start now."
    assert said(run, accepted=False) == (
        "It can go on where its definition and policy are loaded; they are not loaded here."
    )


def test_an_answer_that_nobody_here_can_judge_is_not_a_wait_for_a_person() -> None:
    run = started(human("a"))
    run.loaded = False
    run.respond("a", "large")
    assert "loaded" in said(run, accepted=False)


def test_a_run_that_was_paused_still_says_what_it_waits_for_after_the_resume() -> None:
    run = started(human("a", deadline=Constant(SOON)))
    run.pause()
    run.later(60)
    run.resume()
    until = iso(START.wall_us + 70 * SECOND_US)
    assert said(run) == f"Step 'a' waits for a person's answer until {until}."


# --- ends -------------------------------------------------------------------------------------


def test_a_run_that_succeeded() -> None:
    run = started(tool("a"))
    run.end("a")
    assert said(run) == "Every step is done."


def test_an_unknown_step_comes_first_also_in_a_cancelled_run() -> None:
    run = started(tool("a"), tool("b"), tool("c"))
    run.end("a", "refused")
    run.end("b", "timed_out")
    run.cancel()
    run.end("c", "raised")
    assert said(run) == (
        "Nobody can know whether 'b' (timeout), 'c' (exception) acted: look it up in the other"
        " system, and reconcile the step."
    )


def test_who_looks_up_an_unknown_step_is_told_under_which_key() -> None:
    run = started(tool("a"), tool("b"))
    run.end("a", "raised")
    run.end("b", "raised")
    keys = {NodeId("a"): "1f", NodeId("b"): "2e"}
    assert why(run.definition, run.run, accepted=True, keys=keys) == (
        "Nobody can know whether 'a' (exception), 'b' (exception) acted: ask the provider about"
        " key 1f ('a'), key 2e ('b'), and reconcile the step."
    )


def test_a_failed_step_is_named_with_its_code() -> None:
    run = started(tool("a"), tool("b", "a"))
    run.end("a", "refused")
    assert said(run) == "Step 'a' is failed (TOOL_FAILED)."


def test_a_blocked_step_that_acted_says_so() -> None:
    run = started(tool("a"))
    run.end("a", withheld=Code.GUARD_BLOCKED)
    assert said(run) == "Step 'a' is blocked (GUARD_BLOCKED). It acted."


def test_a_question_that_timed_out_is_named() -> None:
    run = started(human("a", deadline=Constant(SOON))).later(10).advance()
    assert said(run) == "Step 'a' is timed_out (TIMEOUT)."


def test_a_cancelled_run() -> None:
    run = started(human("a"))
    run.cancel()
    assert said(run) == "It was cancelled."


def test_a_result_that_does_not_fit_is_the_reason() -> None:
    run = Drive(workflow(tool("a"), result=FromInput()), input=WRONG).advance()
    run.end("a")
    assert said(run) == "Every step is done, but the result does not fit (INVALID_OUTPUT)."


@pytest.mark.parametrize(
    ("receipt", "acted", "did"),
    [
        (Receipt.SUCCEEDED, Acted.YES, "acted"),
        (Receipt.NOT_STARTED, Acted.NO, "did not act"),
    ],
)
def test_what_a_late_receipt_says_is_not_called_unknown(
    receipt: Receipt, acted: Acted, did: str
) -> None:
    run = started(tool("a"))
    nonce = run.nonce("a")
    run.end("a", "timed_out")
    assert said(run).startswith("Nobody can know")
    run.commit(t.RecordReceipt(NodeId("a"), nonce, receipt, acted, None, 0, False))
    assert said(run) == (
        f"Step 'a' ended unknown; its receipt, which came later, says that it {did}."
    )


def test_a_call_whose_cost_alone_is_unknown_acted() -> None:
    run = started(tool("a"))
    run.end("a", "returned", unknown_micros=5)
    assert said(run) == "Step 'a' acted, and nobody knows what it cost."
