"""What a person finds after something went wrong: under which key to ask, and the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, cast

import pytest
from pydantic import BaseModel, Field

from mayura.runtime import Call, Flow, Guard, Policy, Workflow, tool, workflow
from mayura.runtime.ports import CallRef, LastCheck
from tests.runtime.in_hand import in_hand
from tests.runtime.shop import LEDGER, ToolSettings, acting, one_step, policy_for, refusing
from tests.runtime.world import World, everywhere, step_of

PLAIN = one_step(acting())
ONCE = one_step(acting("shop.refund", once="order"), name="shop.refund")
OTHER = one_step(acting(), name="shop.other")


# --- the key of a call ----------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("flow", [PLAIN, ONCE], ids=["plain", "once"])
async def test_the_key_that_a_dead_processs_call_carried_is_shown(
    world: World, flow: Workflow[str, str]
) -> None:
    theirs, ours = await in_hand(world, flow), await world.elsewhere(flow)
    sent = LEDGER.calls["act"].key
    await theirs.dies(world)
    assert step_of(await ours.inspect(theirs.run_id)).key == sent
    await ours.recover_abandoned(theirs.run_id, credential="key-of-bea")
    seen = await ours.run_until_settled(theirs.run_id)
    assert step_of(seen).key == sent
    assert f"ask the provider about key {sent}" in seen.why
    (begun,) = [e for e in await ours.events(theirs.run_id) if e.type == "step.dispatching"]
    assert begun.data["key"] == sent


@pytest.mark.parametrize("flow", [PLAIN, ONCE], ids=["plain", "once"])
async def test_whoever_lacks_the_code_finds_the_key(world: World, flow: Workflow[str, str]) -> None:
    theirs, stranger = await in_hand(world, flow), await world.elsewhere(OTHER)
    assert step_of(await stranger.inspect(theirs.run_id)).key == LEDGER.calls["act"].key
    await theirs.ends()


async def test_a_key_is_not_guessed_from_another_input(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `once` subject is taken from the input that was dispatched, or from nothing."""
    theirs, ours = await in_hand(world, ONCE), await world.elsewhere(ONCE)
    store, stored = world.stores[-1], world.stores[-1].payloads

    async def another(run_id: object, names: object) -> object:
        return dict.fromkeys(await stored(run_id, names), b'"o-2"')  # type: ignore[arg-type]

    monkeypatch.setattr(store, "payloads", another)
    assert step_of(await ours.inspect(theirs.run_id)).key is None
    monkeypatch.undo()
    await theirs.ends()


@pytest.mark.parametrize("options", [{}, {"once": "order"}], ids=["plain", "once"])
async def test_who_is_asked_for_an_approval_sees_the_key_of_the_call(
    world: World, options: dict[str, str]
) -> None:
    flow = one_step(acting(once=options["once"]) if options else acting(), approval=True)
    engine, stranger = await world.engine(flow), await world.elsewhere(OTHER)
    run = await engine.submit(flow, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    request = await engine.approval_request(run.id, "act")
    assert (await stranger.approval_request(run.id, "act")).key == request.key
    await engine.approve(run.id, "act", request.digest, credential="key-of-bea")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    assert LEDGER.calls["act"].key == request.key


# --- the reason -----------------------------------------------------------------------------------


class Parcel(BaseModel):
    """What is sent."""

    name: str
    grams: Annotated[int, Field(le=9)] = 1


@tool("shop.pack", version="1", effects="write", cost_micros=7)
async def pack(call: Call, parcel: Parcel) -> Parcel:
    """Packs whatever the ledger says."""
    return cast(Parcel, LEDGER.perform(call, parcel))


@workflow("shop.packs", version="1")
def packs(flow: Flow, parcel: Parcel) -> Parcel:
    return flow.tool("act", pack.on(parcel)).output


@tool("shop.light", version="1", effects="read")
async def light(call: Call, name: Annotated[str, Field(max_length=5)]) -> str:
    """Takes a short name."""
    return name


@workflow("shop.repacks", version="1")
def repacks(flow: Flow, name: str) -> str:
    taken = flow.tool("first", acting(effects="read").on(name))
    return flow.tool("act", light.on(taken.output)).output


async def reason_of(
    world: World, flow: Workflow[Any, Any], value: object, policy: Policy | None = None
) -> str:
    """Why a run of this flow did not succeed, as its step says; `why` says it too."""
    engine = await world.engine(flow, policy=policy)
    run = await engine.submit(flow, value, key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert seen == await (await world.elsewhere(OTHER)).inspect(run.id), "whoever looks"
    reason = step_of(seen).reason
    assert reason is not None
    assert f"({step_of(seen).code}): {reason}." in seen.why
    assert "SECRET" not in seen.why
    return reason


async def test_an_output_that_does_not_fit_names_the_place_and_the_rule(world: World) -> None:
    LEDGER.does("act", lambda call: Parcel.model_construct(name="SECRET", grams=10))
    reason = await reason_of(world, packs, Parcel(name="SECRET"))
    assert reason == "output.grams should be less than or equal to 9"


async def test_an_output_above_the_limit_names_its_size_and_the_limit(world: World) -> None:
    policy = policy_for(PLAIN, output_bytes_max=64)
    LEDGER.does("act", lambda call: "SECRET" * 20)
    reason = await reason_of(world, PLAIN, "o-1", policy)
    assert reason == "the output has 122 bytes; the limit is 64"


async def test_an_input_that_does_not_fit_names_the_place_and_the_rule(world: World) -> None:
    LEDGER.does("first", lambda call: "SECRET name")
    assert await reason_of(world, repacks, "o-1") == "input.name should have at most 5 characters"


async def test_a_missing_grant_is_named(world: World) -> None:
    policy = Policy(version="1", allow=["tool:shop.act"])
    assert await reason_of(world, PLAIN, "o-1", policy) == "the policy lacks effect:write"


async def test_a_budget_that_is_too_small_says_by_how_much(world: World) -> None:
    policy = policy_for(packs, budget_micros=6)
    assert await reason_of(world, packs, Parcel(name="n"), policy) == (
        "the call may cost 7 micros; 6 of the run's 6 are neither spent nor reserved"
    )


async def test_a_guard_that_said_no_is_named(world: World) -> None:
    guard = Guard("polite", "1", lambda value, about: False)
    for boundary in ("input", "output"):
        options = cast(ToolSettings, {f"{boundary}_guards": [guard]})
        flow = one_step(acting(**options), name=f"shop.{boundary}")
        engine = await world.engine(flow)
        run = await engine.submit(flow, "o-1", key=boundary)
        seen = await engine.run_until_settled(run.id)
        assert step_of(seen).reason == f"{boundary} guard 'polite'"


@everywhere
async def test_whom_a_subject_belongs_to_is_named(world: World) -> None:
    engine = await world.engine(ONCE)
    first = await engine.submit(ONCE, "o-1", key="a")
    await engine.run_until_settled(first.id)
    assert await reason_of(world, ONCE, "o-1") == f"run {first.id}, step act"


async def test_what_the_last_check_found_is_named(world: World) -> None:
    store = await world.store()
    engine = await world.engine(PLAIN, store=store)
    run = await engine.submit(PLAIN, "o-1", key="a")

    async def another_policy(calls: Sequence[CallRef]) -> list[LastCheck | None]:
        found = await type(store).last_checks(store, calls)
        return [None if check is None else replace(check, policy=b"") for check in found]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "last_checks", another_policy)
        seen = await engine.run_until_settled(run.id)
    assert step_of(seen).code == "PERMISSION_DENIED"
    assert step_of(seen).reason == "the last check: the run has another policy than at the dispatch"


async def test_what_a_tool_or_a_person_said_is_in_why(world: World) -> None:
    asking = one_step(acting(), approval=True, name="shop.asking")
    engine = await world.engine(PLAIN, asking)
    LEDGER.does("act", refusing("It is\nsold out."))
    run = await engine.submit(PLAIN, "o-1", key="a")
    seen = await engine.run_until_settled(run.id)
    assert seen.why == "Step 'act' is failed (TOOL_FAILED): It is sold out."
    run = await engine.submit(asking, "o-1", key="b")
    await engine.run_until_settled(run.id)
    request = await engine.approval_request(run.id, "act")
    who = {"credential": "key-of-bea", "reason": "Too dear."}
    await engine.reject(run.id, "act", request.digest, **who)
    seen = await engine.run_until_settled(run.id)
    assert step_of(seen).refusal == "Too dear."
    assert seen.why == "Step 'act' is blocked (REJECTED): Too dear."


async def test_a_result_that_does_not_fit_says_where(world: World) -> None:
    @workflow("shop.pair", version="1")
    def pair(flow: Flow, name: str) -> list[str]:
        return flow.join("all", [flow.tool(n, acting().on(name)) for n in ("a", "b")]).output

    for node in ("a", "b"):
        LEDGER.does(node, lambda call: "x" * 120)
    policy = policy_for(pair, output_bytes_max=200)
    engine = await world.engine(pair, policy=policy)
    run = await engine.submit(pair, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.code) == ("failed", "LIMIT_EXCEEDED")
    assert seen.reason == "the result has 247 bytes; the limit is 200"
    assert seen.reason in seen.why


# --- the log --------------------------------------------------------------------------------------


async def test_a_drain_names_the_calls_that_it_leaves(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = await in_hand(world, PLAIN)
    await theirs.dies(world)
    said = [record.getMessage() for record in caplog.records if record.name == "mayura.runtime"]
    assert [text for text in said if text.endswith(f": {theirs.run_id}/step:act")]


async def test_a_guard_that_raised_is_in_the_log_without_a_word_of_its_own(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def check(value: object, about: object) -> bool:
        raise ValueError(f"SECRET {value}")

    flow = one_step(acting(input_guards=[Guard("broken", "1", check)]))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    said = f"call {run.id}/step:act: the input guard 'broken' raised ValueError"
    assert said in [record.getMessage() for record in caplog.records]
    assert "SECRET" not in caplog.text


async def test_every_line_that_a_tool_logs_names_its_call(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def body(call: Call) -> str:
        call.logger.warning("it took %d tries, 100%% sure", 3)
        return "done"

    LEDGER.does("act", body)
    engine = await world.engine(PLAIN)
    run = await engine.submit(PLAIN, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    said = [record.getMessage() for record in caplog.records if record.name == "mayura.tool"]
    assert said == [f"call {run.id}/step:act: it took 3 tries, 100% sure"]
