"""Tool steps: what becomes of a call, by its tool's effects and by how it ended."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import pytest

from mayura.runtime import Code, Refusal, Snapshot, Tool
from mayura.runtime.core.definition import Effects
from mayura.runtime.journal import EventRecord
from tests.runtime.shop import (
    LEDGER,
    Body,
    acting,
    acting_in_thread,
    one_step,
    policy_for,
    raising,
    refusing,
    reporting,
    two_steps,
)
from tests.runtime.world import World, everywhere, step_of, steps_of

COST = 10
NOTHING: tuple[Effects, ...] = ("none", "read")
SOMETHING: tuple[Effects, ...] = ("write", "host")
Kind = Literal["on the loop", "in a thread"]
both_kinds = pytest.mark.parametrize("kind", get_args(Kind))


def tool_of(kind: Kind, effects: Effects, **options: float) -> Tool[[str], str]:
    make = acting if kind == "on the loop" else acting_in_thread
    return make(effects=effects, cost_micros=COST, timeout=options.get("timeout", 30))


async def never(call: object) -> str:
    """A body that ends when it is stopped."""
    await asyncio.Event().wait()
    return "never"


def never_in_thread(call: object) -> str:
    """The same for a thread, which nobody can stop: it looks at the cancellation itself."""
    LEDGER.calls["act"].cancellation.wait_in_thread(20)
    raise TimeoutError


@dataclass(frozen=True)
class Row:
    """What a step and its run come to."""

    status: str
    code: Code | None
    cause: str | None
    receipt: str
    acted: str
    charged: int
    reserved: int
    run: str


def row_of(seen: Snapshot) -> Row:
    step = step_of(seen)
    return Row(
        str(step.status),
        step.code,
        None if step.cause is None else str(step.cause),
        str(step.receipt),
        str(step.acted),
        step.charged_micros,
        step.reserved_micros,
        str(seen.status),
    )


BODIES: dict[str, Body] = {
    "returns": lambda call: "done",
    "raises": raising(ValueError("no such card")),
    "is cancelled": raising(asyncio.CancelledError()),
    "refuses": refusing(),
    "returns nonsense": lambda call: 42,
}
TABLE: list[tuple[tuple[Effects, ...], str, Row]] = [
    (NOTHING, "returns", Row("succeeded", None, None, "succeeded", "no", COST, 0, "succeeded")),
    (SOMETHING, "returns", Row("succeeded", None, None, "succeeded", "yes", COST, 0, "succeeded")),
    (
        NOTHING,
        "raises",
        Row("failed", Code.TOOL_FAILED, "exception", "failed", "no", COST, 0, "failed"),
    ),
    (
        SOMETHING,
        "raises",
        Row(
            "unknown", Code.OUTCOME_UNKNOWN, "exception", "unknown", "unknown", 0, COST,
            "outcome_unknown",
        ),
    ),
    (
        NOTHING,
        "is cancelled",
        Row("failed", Code.CANCELLED, "cancelled", "failed", "no", COST, 0, "failed"),
    ),
    (
        SOMETHING,
        "is cancelled",
        Row(
            "unknown", Code.OUTCOME_UNKNOWN, "cancelled", "unknown", "unknown", 0, COST,
            "outcome_unknown",
        ),
    ),
    (
        (*NOTHING, *SOMETHING),
        "refuses",
        Row("failed", Code.TOOL_FAILED, "refused", "not_started", "no", 0, 0, "failed"),
    ),
    (
        NOTHING,
        "returns nonsense",
        Row("failed", Code.INVALID_OUTPUT, None, "succeeded", "no", COST, 0, "failed"),
    ),
    (
        SOMETHING,
        "returns nonsense",
        Row("blocked", Code.INVALID_OUTPUT, None, "succeeded", "yes", COST, 0, "blocked"),
    ),
]  # fmt: skip
CASES = [(effects, how, row) for kinds, how, row in TABLE for effects in kinds]


@both_kinds
async def test_a_step_ends_as_its_effects_and_its_call_say(world: World, kind: Kind) -> None:
    """G10: what may have acted is never plain failed."""
    flows = {
        effects: one_step(tool_of(kind, effects), name=f"shop.{effects}")
        for effects in (*NOTHING, *SOMETHING)
    }
    engine = await world.engine(*flows.values(), policy=policy_for(*flows.values()))
    for effects, how, row in CASES:
        LEDGER.does("act", BODIES[how])
        run = await engine.submit(flows[effects], "o-1", key=f"{effects} {how}")
        seen = await engine.run_until_settled(run.id)
        assert (effects, how, row_of(seen)) == (effects, how, row)
    assert len(LEDGER.entered) == len(CASES)


@both_kinds
@pytest.mark.parametrize("effects", ["read", "write"])
async def test_a_step_whose_time_is_over_ends_then(
    world: World, kind: Kind, effects: Effects
) -> None:
    flow = one_step(tool_of(kind, effects, timeout=0.02))
    LEDGER.does("act", never if kind == "on the loop" else never_in_thread)
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = row_of(await engine.run_until_settled(run.id))
    assert LEDGER.calls["act"].cancellation.is_set()
    if effects in NOTHING:
        assert seen == Row("failed", Code.TIMEOUT, "timeout", "failed", "no", COST, 0, "failed")
    else:
        assert seen == Row(
            "unknown", Code.OUTCOME_UNKNOWN, "timeout", "unknown", "unknown", 0, COST,
            "outcome_unknown",
        )  # fmt: skip


@everywhere
async def test_a_refusals_reason_is_kept_and_no_other_word_of_a_tool(world: World) -> None:
    flow = two_steps(acting("shop.look", effects="read"), acting())
    LEDGER.does("then", refusing("It is sold out."))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert step_of(seen, "then").refusal == "It is sold out."
    assert step_of(seen, "first").refusal is None


class Sloppy(Refusal):
    """A refusal that says nothing of its reason."""

    def __init__(self) -> None:
        pass


REFUSALS: list[tuple[Refusal, str | None]] = [
    (Refusal("x" * 600), "x" * 512),
    (Refusal("a\0b\ud800c"), "ab?c"),
    (Refusal(""), None),
    (Sloppy(), None),
    (Refusal(), None),
    (Refusal(cast(str, None)), 'The tool\'s reason is no text: write Refusal("why").'),
]


@both_kinds
async def test_any_refusal_is_a_refusal(world: World, kind: Kind) -> None:
    flow = one_step(tool_of(kind, "write"))
    engine = await world.engine(flow)
    for number, (refusal, reason) in enumerate(REFUSALS):
        LEDGER.does("act", raising(refusal))
        run = await engine.submit(flow, "o-1", key=f"o-{number}")
        step = step_of(await engine.run_until_settled(run.id))
        assert (step.status, step.receipt, step.acted) == ("failed", "not_started", "no")
        assert step.refusal == reason


async def test_a_step_is_charged_what_its_tool_reported(world: World) -> None:
    flow = one_step(tool_of("on the loop", "write"))
    LEDGER.does("act", reporting(7))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.budget.spent_micros, seen.budget.reserved_micros) == (7, 0)


@pytest.mark.parametrize("effects", ["read", "write"])
async def test_a_cost_that_nobody_knows_leaves_the_step_unknown_and_its_reservation(
    world: World, effects: Effects
) -> None:
    flow = one_step(tool_of("on the loop", effects))
    LEDGER.does("act", reporting(1, unknown=1))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    step = step_of(seen)
    assert (seen.status, step.status) == ("outcome_unknown", "unknown")
    assert (step.cause, step.receipt) == ("cost_unknown", "succeeded")
    assert (seen.budget.spent_micros, seen.budget.reserved_micros) == (0, COST)


def usage_of(events: list[EventRecord]) -> list[object]:
    """What the receipts say of the reports of their calls."""
    return [e.data.get("usage") for e in events if e.type == "step.receipt"]


@pytest.mark.parametrize("effects", ["read", "write"])
async def test_a_second_report_is_rejected_and_the_first_one_counts(
    world: World, effects: Effects
) -> None:
    flow = one_step(tool_of("on the loop", effects))
    LEDGER.does("act", reporting(3, then=reporting(4)))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.budget.spent_micros) == ("succeeded", 3)
    assert usage_of(await engine.events(run.id)) == ["rejected"]


AMOUNTS: list[Any] = [-1, 1.5, "1", True, None, float("nan"), 2**53, 10**30]


@pytest.mark.parametrize("effects", ["read", "write"])
async def test_a_report_that_is_no_amount_makes_no_paid_call_uncertain(
    world: World, effects: Effects, caplog: pytest.LogCaptureFixture
) -> None:
    """Case F4: it comes after the effect; the most the call may cost is charged."""
    flow = one_step(tool_of("on the loop", effects))
    engine = await world.engine(flow)
    for number, amount in enumerate(AMOUNTS):
        for node_amounts in ((amount, 0), (0, amount)):
            LEDGER.does("act", reporting(*node_amounts))
            run = await engine.submit(flow, "o-1", key=f"{number}-{node_amounts[0]}")
            seen = await engine.run_until_settled(run.id)
            assert (seen.status, seen.budget.spent_micros) == ("succeeded", COST), amount
            assert usage_of(await engine.events(run.id)) == ["rejected"]
            assert f"call {run.id}/step:act: its report of usage was rejected" in caplog.text


async def test_a_report_after_one_that_is_no_amount_counts(world: World) -> None:
    flow = one_step(tool_of("on the loop", "write"))
    LEDGER.does("act", reporting(-1, then=reporting(4)))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.budget.spent_micros) == ("succeeded", 4)


async def test_a_charge_above_the_reservation_is_an_overrun_and_stops_the_run(
    world: World,
) -> None:
    """G14: the maximum holds; the rest is kept, told, and starts nothing further."""
    flow = two_steps(tool_of("on the loop", "write"))
    LEDGER.does("first", reporting(COST + 5))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert steps_of(seen) == {"first": "succeeded", "then": "blocked"}
    assert step_of(seen, "then").code is Code.BUDGET_EXCEEDED
    assert (seen.budget.spent_micros, seen.budget.overrun_micros) == (COST, 5)
    overruns = [e.data for e in await engine.events(run.id) if e.type == "budget.overrun"]
    assert overruns == [{"node": "first", "over": 5}]


@pytest.mark.parametrize("reported", [2, -2], ids=["good", "rejected"])
@pytest.mark.parametrize("effects", ["read", "write"])
async def test_a_refusal_after_usage_was_reported_is_an_ordinary_exception(
    world: World, effects: Effects, reported: int
) -> None:
    flow = one_step(tool_of("on the loop", effects))
    LEDGER.does("act", reporting(reported, then=refusing()))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    step = step_of(seen)
    assert step.status == ("failed" if effects in NOTHING else "unknown")
    assert (step.receipt, step.refusal) != ("not_started", "It is sold out.")
    charged = 2 if reported > 0 else COST
    assert seen.budget.spent_micros == (charged if effects in NOTHING else 0)


async def test_a_call_has_the_same_identity_whoever_makes_it(world: World) -> None:
    flow = two_steps(acting())
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    first, then = LEDGER.calls["first"], LEDGER.calls["then"]
    assert first.call_id == f"{run.id}/step:first"
    assert first.run_id == run.id
    assert first.key != then.key
    assert len(first.key) == 32
    assert first.uuid.hex == first.key
    assert first.scope.principal == "local"


async def test_a_tools_words_go_to_the_local_log_with_run_and_call(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    flow = one_step(acting())
    LEDGER.does("act", raising(ValueError("card 4711")))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    with caplog.at_level(logging.WARNING, "mayura.tool"):
        await engine.run_until_settled(run.id)
    (record,) = [r for r in caplog.records if r.name == "mayura.tool"]
    assert record.exc_info is not None
    assert vars(record)["call_id"] == f"{run.id}/step:act"
    assert record.getMessage() == f"call {run.id}/step:act: the tool raised ValueError"
    assert "card 4711" not in await world.place.dump()
