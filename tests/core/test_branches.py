"""What follows a step: who goes on, who is left out, and that every run comes to an end."""

from __future__ import annotations

from typing import Final

import pytest

from mayura.runtime.core.definition import (
    Constant,
    FromInput,
    FromStep,
    JsonValue,
    Node,
)
from mayura.runtime.core.state import Acted, RunStatus, StepStatus
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId, detail_of
from tests.core.drive import START, Drive
from tests.core.graphs import (
    WRONG,
    fan_out,
    human,
    join,
    policy,
    signal,
    spec,
    timer,
    tool,
    workflow,
)

S = StepStatus
SUCCEEDED: Final = "succeeded"
PAST: Final = "2020-01-01T00:00:00+00:00"
WHEN: Final = FromInput(("go",))


def given(*path: str | int) -> FromInput:
    return FromInput(path)


def output(node: str, *path: str | int) -> FromStep:
    return FromStep(NodeId(node), path)


# --- when -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "runs"),
    [
        (None, False),
        (False, False),
        (True, True),
        (0, True),
        ("", True),
        ([], True),
        ({}, True),
        ("no", True),
        (0.0, True),
    ],
    ids=repr,
)
def test_a_step_runs_unless_its_when_is_null_or_false(value: JsonValue, runs: bool) -> None:
    run = Drive(workflow(tool("a", when=WHEN)), input={"go": value}).advance()
    assert run.status("a") is (S.DISPATCHING if runs else S.BYPASSED)


@pytest.mark.parametrize(
    "run_input",
    [{}, [], None, "go", {"go": {}}],
    ids=["no member", "array", "null", "text", "deep"],
)
def test_a_when_that_is_missing_bypasses(run_input: JsonValue) -> None:
    run = Drive(workflow(tool("a", when=given("go", "on"))), input=run_input).advance()
    assert run.status("a") is S.BYPASSED
    assert run.run.status is RunStatus.SUCCEEDED


@pytest.mark.parametrize(
    "node",
    [
        tool("x", cost_micros=5, when=WHEN),
        tool("x", approval=True, when=WHEN),
        human("x", when=WHEN),
        timer("x", at=Constant("2999-01-01T00:00:00Z"), when=WHEN),
        signal("x", when=WHEN),
        join("x", "first", when=WHEN),
    ],
    ids=["tool", "approval", "human", "timer", "signal", "join"],
)
def test_every_kind_of_step_can_be_bypassed_free_and_reads_as_null(node: Node) -> None:
    after = tool("after", "x", value=output("x"))
    run = Drive(
        workflow(tool("first", effects="none"), node, after, result=output("x")),
        input={"go": False},
    ).advance()
    run.end("first", output=1)
    assert run.status("x") is S.BYPASSED
    assert run.step("x").acted is Acted.NO
    assert run.run.reserved_micros == 0
    assert run.status("after") is S.DISPATCHING
    run.end("after")
    assert run.run.status is RunStatus.SUCCEEDED


def test_a_when_over_a_bypassed_step_reads_null_and_bypasses() -> None:
    run = Drive(
        workflow(tool("a", when=WHEN), tool("b", "a", when=output("a")), tool("c", "b")),
        input={"go": None},
    ).advance()
    assert (run.status("b"), run.status("c")) == (S.BYPASSED, S.DISPATCHING)


def test_a_when_waits_for_every_dependency_and_is_decided_once() -> None:
    definition = workflow(tool("a"), tool("b"), tool("c", "a", "b", when=output("a", "go")))
    run = Drive(definition).advance()
    run.end("a", output={"go": False})
    assert run.status("c") is S.PENDING
    run.end("b")
    assert run.status("c") is S.BYPASSED


def test_a_when_is_decided_before_grants_input_and_money() -> None:
    """A step that does not run needs no grant, no valid input and no budget."""
    costly = tool("a", cost_micros=50, when=WHEN, value=given("missing"))
    definition = workflow(costly)
    denied = policy(definition, budget_micros=0, without="effect:write")
    run = Drive(definition, input={"go": False}, policy=denied).advance()
    assert run.status("a") is S.BYPASSED


# --- skip -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "expected"),
    [("refused", S.FAILED), ("timed_out", S.UNKNOWN), ("returned", S.SUCCEEDED)],
)
def test_dependents_go_on_only_after_a_success(ending: str, expected: StepStatus) -> None:
    run = Drive(workflow(tool("a"), tool("b", "a"), tool("c", "b"), tool("d"))).advance()
    run.end("a", ending)  # type: ignore[arg-type]  # an Ending
    assert run.status("a") is expected
    went_on = expected is S.SUCCEEDED
    assert run.status("b") is (S.DISPATCHING if went_on else S.SKIPPED)
    assert run.status("c") is (S.PENDING if went_on else S.SKIPPED)
    assert run.status("d") is S.DISPATCHING, "an independent branch runs on to its end"


def test_a_skipped_step_names_the_dependency_and_does_not_wait_for_the_others() -> None:
    run = Drive(workflow(tool("a"), tool("b"), tool("c", "a", "b"))).advance()
    run.end("a", "refused")
    assert run.status("c") is S.SKIPPED
    assert b'"because":"a"' in run.journal[-1].entries
    assert run.run.status is RunStatus.RUNNING


def test_what_a_fast_sibling_made_ready_does_not_wait_for_a_slow_one() -> None:
    """Case A8: and finishing the fast one starts nothing twice."""
    run = Drive(workflow(tool("fast"), tool("slow"), tool("next", "fast"))).advance()
    slow = run.nonce("slow")
    run.end("fast")
    assert run.status("next") is S.DISPATCHING
    assert run.nonce("slow") == slow
    assert run.events().count("step.dispatching") == 3


# --- inputs -----------------------------------------------------------------------------------


def test_a_binding_that_does_not_resolve_fails_its_step_with_the_place() -> None:
    run = Drive(workflow(tool("a", value=given("order", "id"))), input={"order": {}}).advance()
    assert (run.status("a"), run.step("a").code) == (S.FAILED, Code.INVALID_INPUT)
    assert b"input.order.id does not exist" in run.written[detail_of(NodeId("a"))]
    assert b"order" not in run.journal[-1].entries, "a place may be a part of the value"


def test_an_input_that_does_not_fit_fails_its_step_before_anything_is_dispatched() -> None:
    run = Drive(workflow(tool("a", value=given())), input=WRONG).advance()
    assert (run.status("a"), run.step("a").code) == (S.FAILED, Code.INVALID_INPUT)
    assert run.step("a").dispatch is None
    assert run.run.status is RunStatus.FAILED


def test_an_input_over_the_policys_limit_fails_its_step() -> None:
    definition = workflow(tool("a", value=given()))
    small = policy(definition, output_bytes_max=20)
    assert Drive(definition, input="x" * 8, policy=small).advance().status("a") is S.DISPATCHING
    run = Drive(definition, input="x" * 9, policy=small).advance()
    assert (run.status("a"), run.step("a").code) == (S.FAILED, Code.LIMIT_EXCEEDED)


def test_an_input_that_cannot_be_stored_fails_its_step_and_leaves_nothing_stuck() -> None:
    deep: JsonValue = 1
    for _ in range(32):
        deep = [deep]
    run = Drive(workflow(tool("a", value=given())), input=deep).advance()
    assert (run.status("a"), run.step("a").code) == (S.FAILED, Code.INVALID_JSON)


def test_a_missing_grant_is_named_and_nothing_is_asked_of_anybody() -> None:
    definition = workflow(tool("a", approval=True, value=given("missing")))
    denied = policy(definition, without="effect:write")
    run = Drive(definition, input={}, policy=denied).advance()
    assert (run.status("a"), run.step("a").code) == (S.BLOCKED, Code.PERMISSION_DENIED)
    assert b"effect:write" in run.journal[-1].entries


# --- joins and fan-out ------------------------------------------------------------------------

ITEMS: Final = given("items")


def fanned(items: JsonValue, slots_max: int = 3, surplus: str = "fail") -> Drive:
    nodes = fan_out("f", ITEMS, slots_max, surplus=surplus)
    return Drive(workflow(*nodes, result=output("f")), input={"items": items}).advance()


def test_a_join_has_its_slots_in_order_and_null_for_a_bypassed_one() -> None:
    nodes = [tool(name, "first", when=output("first", name)) for name in ("a", "b", "c")]
    definition = workflow(
        tool("first"), *nodes, join("j", "c", "a", "b"), tool("last", "j", value=output("j"))
    )
    run = Drive(definition).advance()
    run.end("first", output={"a": 1, "b": None, "c": 1})
    run.end("a", output="A")
    run.end("c", output="C")
    assert run.status("j") is S.SUCCEEDED
    assert run.status("last") is S.DISPATCHING
    bound = run.step("last").dispatch
    other = Drive(workflow(tool("last", value=given())), input=["C", "A", None]).advance()
    same = other.step("last").dispatch
    assert bound is not None
    assert same is not None
    assert bound.input_digest == same.input_digest


def test_each_item_takes_a_slot_and_slots_without_an_item_are_bypassed() -> None:
    run = fanned([1, 2])
    assert run.statuses() == {
        "f.1": "dispatching",
        "f.2": "dispatching",
        "f.3": "bypassed",
        "f": "pending",
    }
    run.end("f.1")
    run.end("f.2")
    assert run.run.status is RunStatus.SUCCEEDED


def test_an_item_is_taken_whatever_it_is() -> None:
    run = fanned([None, False, 0])
    assert run.in_status(S.DISPATCHING) == ["f.1", "f.2", "f.3"]


def test_no_items_bypass_every_slot_and_the_join_succeeds() -> None:
    run = fanned([])
    assert run.statuses() == {
        "f.1": "bypassed",
        "f.2": "bypassed",
        "f.3": "bypassed",
        "f": SUCCEEDED,
    }


def test_items_beyond_the_slots_fail_every_slot_before_anything_acts() -> None:
    run = fanned([1, 2, 3, 4])
    for slot in ("f.1", "f.2", "f.3"):
        assert (run.status(slot), run.step(slot).code) == (S.FAILED, Code.LIMIT_EXCEEDED)
        assert run.step(slot).dispatch is None
    assert run.run.status is RunStatus.FAILED


def test_items_beyond_the_slots_are_left_out_where_surplus_is_ignored() -> None:
    run = fanned([1, 2, 3, 4], surplus="ignore")
    assert run.in_status(S.DISPATCHING) == ["f.1", "f.2", "f.3"]


@pytest.mark.parametrize("items", [None, {}, "abc", 3, {"0": 1}], ids=repr)
def test_items_that_are_no_array_fail_every_slot(items: JsonValue) -> None:
    run = fanned(items)
    assert {run.step(slot).code for slot in ("f.1", "f.2", "f.3")} == {Code.INVALID_INPUT}
    assert run.run.status is RunStatus.FAILED


def test_items_that_are_missing_fail_every_slot() -> None:
    run = Drive(workflow(*fan_out("f", ITEMS, 2)), input={}).advance()
    assert {run.step(slot).code for slot in ("f.1", "f.2")} == {Code.INVALID_INPUT}


def test_a_fan_out_that_is_left_out_looks_at_no_items() -> None:
    nodes = fan_out("f", ITEMS, 2, when=WHEN)
    run = Drive(workflow(*nodes), input={"go": False, "items": "none"}).advance()
    assert set(run.statuses().values()) == {"bypassed"}


def test_an_empty_slot_needs_no_grant() -> None:
    definition = workflow(*fan_out("f", ITEMS, 2))
    denied = policy(definition, without="effect:read")
    run = Drive(definition, input={"items": []}, policy=denied).advance()
    assert run.run.status is RunStatus.SUCCEEDED


def test_a_slot_that_fails_skips_the_join() -> None:
    run = fanned([1, 2])
    run.end("f.1", "raised")
    run.end("f.2")
    assert (run.status("f"), run.run.status) == (S.SKIPPED, RunStatus.FAILED)


# --- every run ends (case B16) ----------------------------------------------------------------

FIRST_STEPS: Final[dict[str, tuple[Node, RunStatus]]] = {
    "succeeds": (tool("b0"), RunStatus.SUCCEEDED),
    "fails": (tool("b0", value=given("missing")), RunStatus.FAILED),
    "is refused": (tool("b0"), RunStatus.FAILED),
    "is blocked": (tool("b0", cost_micros=10**9), RunStatus.BLOCKED),
    "is bypassed": (tool("b0", when=Constant(None)), RunStatus.SUCCEEDED),
    "times out": (human("b0", deadline=Constant(PAST)), RunStatus.FAILED),
    "is unknown": (tool("b0"), RunStatus.OUTCOME_UNKNOWN),
}


def diamond(first: Node, size: int) -> list[Node]:
    """`size` nodes: a branch that starts with `first`, one beside it, and a join of both."""
    branch: list[Node] = [first]
    other: list[Node] = [tool("c0")]
    while len(branch) + len(other) < size - 2:
        shorter, name = (branch, "b") if len(branch) <= len(other) else (other, "c")
        shorter.append(tool(f"{name}{len(shorter)}", shorter[-1].id))
    last = join("j", branch[-1].id, other[-1].id)
    return [*branch, *other, last, tool("z", "j", value=output("j"))]


@pytest.mark.parametrize("size", [9, 10, 11, 100, 128])
@pytest.mark.parametrize("how", FIRST_STEPS)
def test_a_diamond_ends_in_a_bounded_number_of_waves_whatever_its_first_step_does(
    how: str, size: int
) -> None:
    """Case B16: at 9, 10, 11, 100 and 128 nodes."""
    first, expected = FIRST_STEPS[how]
    run = Drive(workflow(*diamond(first, size)), input={}).advance()
    while run.run.open:
        calls = run.in_status(S.DISPATCHING)
        assert calls, f"nothing is in hand and the run is {run.run.status}"
        for node in calls:
            odd = {"is refused": "refused", "is unknown": "raised"}.get(how, "returned")
            run.end(node, odd if node == "b0" else "returned")  # type: ignore[arg-type]
    assert len(run.definition.nodes) == size
    assert run.run.status is expected
    assert run.waves <= 2 * size + 3
    went_on = expected is RunStatus.SUCCEEDED
    assert run.status("j") is (S.SUCCEEDED if went_on else S.SKIPPED)
    assert run.now == START


def test_a_wave_starts_every_sibling_at_once() -> None:
    run = Drive(workflow(*(tool(f"s{n}", uses=spec("read")) for n in range(128)))).advance()
    assert len(run.in_status(S.DISPATCHING)) == 128
    assert run.waves == 1
