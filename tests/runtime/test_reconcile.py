"""What a person found out about a call: recorded with evidence, and the run goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mayura.runtime import (
    Code,
    Engine,
    Flow,
    Guard,
    MayuraError,
    Refusal,
    Snapshot,
    Workflow,
    workflow,
)
from mayura.runtime.reconcile import EVIDENCE_CHARS_MAX
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    policy_for,
    raising,
    refusing,
    two_steps,
    waiting_for,
)
from tests.runtime.world import World, everywhere, refused, step_of, steps_of

COST = 30
ADA, BOB = "key-of-ada", "key-of-bob"
SEEN = "the provider's ledger shows it"
SETTLE_S = 90.0
PAY = acting("shop.pay", cost_micros=COST)
FLOW = two_steps(PAY, acting("shop.tell"))


async def lost(engine: Engine, flow: Workflow[str, Any], key: str = "o-1") -> Snapshot:
    """A run whose first step was paid for, and nobody heard."""
    LEDGER.does("first", raising(ConnectionError("gone")))
    run = await engine.submit(flow, "o-1", key=key)
    return await engine.run_until_settled(run.id)


async def resolve(
    engine: Engine, seen: Snapshot, found: str, node: str = "first", **said: object
) -> None:
    """Ada says so, with evidence, of the run as it was seen; or as `said` has it otherwise."""
    told = {"revision": seen.revision, "evidence": SEEN, "credential": ADA, **said}
    await engine.reconcile(seen.id, node, found, **told)  # type: ignore[arg-type]  # also wrong ones


@everywhere
async def test_happened_lets_the_run_go_on_and_calls_nothing_again(world: World) -> None:
    engine = await world.engine(FLOW)
    seen = await lost(engine, FLOW)
    assert (seen.status, seen.settlement) == ("outcome_unknown", 1)
    assert steps_of(seen) == {"first": "unknown", "then": "skipped"}
    await resolve(engine, seen, "happened", output="receipt 7")
    seen = await engine.run_until_settled(seen.id)
    assert (seen.status, seen.settlement, seen.output) == ("succeeded", 2, "then")
    first = step_of(seen, "first")
    assert (first.acted, first.receipt, first.resolution) == ("yes", "unknown", "happened")
    assert (first.charged_micros, first.reserved_micros) == (COST, 0)
    assert (len(LEDGER.of("first")), len(LEDGER.of("then"))) == (1, 1)
    assert LEDGER.inputs["then"] == "receipt 7"
    told = [e for e in await engine.events(seen.id) if e.type == "step.resolved"]
    assert [(e.data["person"], e.data["resolution"]) for e in told] == [("ada", "happened")]


async def test_never_fails_the_step_and_frees_its_money(world: World) -> None:
    engine = await world.engine(FLOW)
    seen = await lost(engine, FLOW)
    world.clock.advance(SETTLE_S)
    await resolve(engine, seen, "never")
    seen = await engine.run_until_settled(seen.id)
    assert (seen.status, seen.settlement, seen.acted) == ("failed", 2, "no")
    assert steps_of(seen) == {"first": "failed", "then": "skipped"}
    assert (seen.budget.spent_micros, seen.budget.reserved_micros) == (0, 0)
    assert step_of(seen, "first").receipt == "unknown", "what the receipt said, it says still"
    assert LEDGER.of("then") == []


async def test_never_before_the_settle_deadline_is_refused(world: World) -> None:
    """A frozen process may still act until then."""
    engine = await world.engine(FLOW)
    seen = await lost(engine, FLOW)
    world.clock.advance(SETTLE_S - 1)
    with refused(Code.CONFLICT) as error:
        await resolve(engine, seen, "never")
    assert "may still act until" in str(error.value)
    assert (await engine.inspect(seen.id)).revision == seen.revision


async def test_never_gives_the_subject_back_and_happened_keeps_it(world: World) -> None:
    """G16: released in the commit that stores the resolution."""
    flow = two_steps(acting("shop.pay", once="order"), acting("shop.tell"))
    engine = await world.engine(flow)
    first = await lost(engine, flow)
    second = await lost(engine, flow, key="o-2")
    assert step_of(second, "first").code is Code.ALREADY_DONE
    world.clock.advance(SETTLE_S)
    await resolve(engine, first, "never")
    third = await lost(engine, flow, key="o-3")
    assert step_of(third, "first").status == "unknown", "called, for the subject was free again"
    await resolve(engine, third, "happened", output="paid")
    fourth = await lost(engine, flow, key="o-4")
    assert step_of(fourth, "first").code is Code.ALREADY_DONE
    assert len(LEDGER.of("first")) == 2


@pytest.mark.parametrize("own", [False, True], ids=["as stored", "with another value"])
async def test_the_output_that_was_withheld_is_released(world: World, own: bool) -> None:
    pay = acting("shop.pay", output_guards=[Guard("no", "1", lambda value, about: False)])
    flow = two_steps(pay, acting("shop.tell"))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (step_of(seen, "first").status, seen.acted) == ("blocked", "yes")
    await resolve(engine, seen, "happened", **({"output": "corrected"} if own else {}))
    seen = await engine.run_until_settled(run.id)
    assert seen.status == "succeeded"
    assert LEDGER.inputs["then"] == ("corrected" if own else "first")
    store = await world.store()
    kept = await store.payloads(run.id, ["returned:first", "evidence:first"])
    assert kept.get("returned:first") == (b'"first"' if own else None)
    assert kept["evidence:first"] == f'"{SEEN}"'.encode()


async def test_never_against_a_receipt_that_says_it_happened_is_refused(world: World) -> None:
    pay = acting("shop.pay", output_guards=[Guard("no", "1", lambda value, about: False)])
    flow = two_steps(pay, acting("shop.tell"))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    world.clock.advance(SETTLE_S)
    with refused(Code.CONFLICT) as error:
        await resolve(engine, seen, "never")
    assert "receipt" in str(error.value)


async def test_two_unknown_steps_are_resolved_one_after_the_other(world: World) -> None:
    @workflow("shop.pair", version="1")
    def pair(flow: Flow, order: str) -> list[str]:
        paid = [flow.tool(name, PAY.on(order)) for name in ("first", "second")]
        both = flow.join("both", paid)
        flow.tool("then", acting("shop.tell").on(order), after=[both])
        return both.output

    engine = await world.engine(pair)
    LEDGER.does("second", raising(ConnectionError("gone")))
    seen = await lost(engine, pair)
    await resolve(engine, seen, "happened", output="one")
    seen = await engine.run_until_settled(seen.id)
    assert (seen.status, seen.settlement) == ("outcome_unknown", 2)
    assert steps_of(seen)["then"] == "skipped"
    await resolve(engine, seen, "happened", node="second", output="two")
    seen = await engine.run_until_settled(seen.id)
    assert (seen.status, seen.output, seen.settlement) == ("succeeded", ["one", "two"], 3)
    assert len(LEDGER.of("then")) == 1


@everywhere
async def test_of_two_people_who_reconcile_at_once_one_wins(world: World) -> None:
    engines = [await world.engine(FLOW), await world.elsewhere(FLOW)]
    seen = await lost(engines[0], FLOW)
    said = await asyncio.gather(
        resolve(engines[0], seen, "happened", output="ada's"),
        resolve(engines[1], seen, "happened", output="bob's", credential=BOB),
        return_exceptions=True,
    )
    errors = [one for one in said if isinstance(one, MayuraError)]
    assert [error.code for error in errors] == [Code.CONFLICT]
    settled = await engines[0].run_until_settled(seen.id)
    assert settled.status == "succeeded"
    winner = "ada's" if said[0] is None else "bob's"
    assert LEDGER.inputs["then"] == winner


async def test_the_same_command_again_changes_nothing(world: World) -> None:
    engine = await world.engine(FLOW)
    seen = await lost(engine, FLOW)
    await resolve(engine, seen, "happened", output="one", command_id="c-1")
    await engine.run_until_settled(seen.id)
    await resolve(engine, seen, "happened", output="one", command_id="c-1")
    with refused(Code.CONFLICT):
        await resolve(engine, seen, "happened", output="two", command_id="c-1")
    assert (await engine.inspect(seen.id)).settlement == 2


async def test_a_cancelled_run_does_not_go_on(world: World) -> None:
    go = asyncio.Event()
    flow = two_steps(PAY, acting("shop.tell"))
    engine = await world.engine(flow)

    async def cut(call: object) -> str:
        await go.wait()
        raise ConnectionError("gone")

    LEDGER.does("first", cut)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await LEDGER.began("first").wait()
    await engine.cancel(run.id, by="ops")
    go.set()
    seen = await driving
    assert (seen.status, seen.acted) == ("cancelled", "unknown")
    await resolve(engine, seen, "happened", output="paid")
    after = await engine.inspect(run.id)
    assert (after.status, after.settlement, after.acted) == ("cancelled", 1, "yes")
    assert steps_of(after) == {"first": "succeeded", "then": "skipped"}


async def test_a_late_receipt_that_says_otherwise_makes_the_step_unknown_again(
    world: World,
) -> None:
    """Both are kept, and what the person said is not taken for the truth any more."""
    done = asyncio.Event()

    async def stubborn(call: object) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await done.wait()
        return "it worked"

    flow = two_steps(acting("shop.pay", timeout=0.05), acting("shop.tell"))
    engine = await world.engine(flow)
    LEDGER.does("first", stubborn)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    world.clock.advance(SETTLE_S)
    with refused(Code.CONFLICT) as error:
        await resolve(engine, seen, "never")
    assert "still runs in this process" in str(error.value)
    office = await world.elsewhere(flow)
    await resolve(office, seen, "never")
    assert (await office.run_until_settled(run.id)).status == "failed"
    done.set()
    await engine.drain()
    seen = await engine.inspect(run.id)
    first = step_of(seen, "first")
    assert (seen.status, seen.settlement) == ("outcome_unknown", 3)
    assert (first.status, first.cause, first.acted) == ("unknown", "contradicted", "unknown")
    assert (first.receipt, first.resolution) == ("succeeded", "never")
    assert "opposes what was found out" in seen.why


async def test_a_late_refusal_against_what_was_found_keeps_the_subject(world: World) -> None:
    """G16: nobody knows that the call did not act, so nobody may act for its subject again."""
    done = asyncio.Event()

    async def stubborn(call: object) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await done.wait()
        raise Refusal("not at all")

    flow = two_steps(acting("shop.pay", timeout=0.05, once="order"), acting("shop.tell"))
    engine = await world.engine(flow)
    LEDGER.does("first", stubborn)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    await resolve(engine, seen, "happened", output="paid")
    await engine.run_until_settled(run.id)
    done.set()
    await engine.drain()
    first = step_of(await engine.inspect(run.id), "first")
    assert (first.status, first.receipt, first.cause) == ("unknown", "not_started", "contradicted")
    other = await lost(await world.engine(flow), flow, key="o-2")
    assert step_of(other, "first").code is Code.ALREADY_DONE
    assert len(LEDGER.of("first")) == 1


async def test_a_step_is_resolved_where_its_code_is_not_loaded(world: World) -> None:
    """G12: the value is checked against the stored schema; who has the code goes on."""
    engine = await world.engine(FLOW)
    seen = await lost(engine, FLOW)
    other = one_step(PAY, name="shop.other")
    office = await world.elsewhere(other, policy=policy_for(FLOW, other))
    with refused(Code.INVALID_INPUT):
        await resolve(office, seen, "happened", output=7)
    await resolve(office, seen, "happened", output="paid")
    assert (await office.inspect(seen.id)).status == "running"
    assert (await engine.run_until_settled(seen.id)).status == "succeeded"


MISTAKES: dict[str, tuple[dict[str, object], Code, str]] = {
    "no such resolution": ({"found": "hapened"}, Code.INVALID_INPUT, "did you mean 'happened'"),
    "no evidence": ({"evidence": " "}, Code.INVALID_INPUT, "what shows it"),
    "too much of it": ({"evidence": "x" * (EVIDENCE_CHARS_MAX + 1)}, Code.INVALID_INPUT, "4,096"),
    "evidence of no text": ({"evidence": None}, Code.INVALID_INPUT, "what shows it"),
    "no output": ({}, Code.INVALID_INPUT, "has no stored output"),
    "an output that does not fit": ({"output": 7}, Code.INVALID_INPUT, "step 'first'"),
    "no such step": ({"node": "frist", "output": "x"}, Code.NOT_FOUND, "did you mean 'first'"),
    "a step that was not called": ({"node": "then", "output": "x"}, Code.CONFLICT, "did not act"),
    "an older revision": ({"output": "x", "revision": 1}, Code.CONFLICT, "moved on"),
    "nobody": ({"output": "x", "credential": None}, Code.PERMISSION_DENIED, "credential"),
    "a stranger": ({"output": "x", "credential": "?"}, Code.PERMISSION_DENIED, "not accepted"),
}


@pytest.mark.parametrize("name", MISTAKES)
async def test_a_mistaken_resolution_is_refused_and_changes_nothing(
    world: World, name: str
) -> None:
    given, code, said = MISTAKES[name]
    engine = await world.engine(FLOW)
    seen = await lost(engine, FLOW)
    with refused(code) as error:
        await resolve(engine, seen, **{"found": "happened", **given})  # type: ignore[arg-type]
    assert said in str(error.value)
    assert (await engine.inspect(seen.id)).revision == seen.revision


async def test_a_step_that_certainly_did_not_act_has_no_question(world: World) -> None:
    engine = await world.engine(FLOW)
    LEDGER.does("first", refusing())
    run = await engine.submit(FLOW, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    with refused(Code.CONFLICT):
        await resolve(engine, seen, "happened", output="x")


async def test_a_call_in_hand_is_not_resolved(world: World) -> None:
    done = asyncio.Event()
    LEDGER.does("first", waiting_for(done))
    engine = await world.engine(FLOW)
    run = await engine.submit(FLOW, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await LEDGER.began("first").wait()
    seen = await engine.inspect(run.id)
    with refused(Code.CONFLICT):
        await resolve(engine, seen, "happened", output="x")
    done.set()
    assert (await driving).status == "succeeded"
