"""A run advances under its own definition and its own policy, and under no other (G12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from mayura.runtime import Code, Engine, Flow, Guard, RunId, Workflow, tool, workflow
from mayura.runtime.call import Call
from mayura.runtime.options import PREVIOUS_POLICIES_MAX
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    policy_for,
    two_steps,
)
from tests.runtime.world import World, everywhere, refused, step_of, steps_of

ACT = acting()
ONE = one_step(ACT)
TWO = two_steps(ACT)
ASKING = one_step(ACT, approval=True, name="shop.asking")
OTHER = one_step(ACT, name="shop.other")


async def entry_of(engine: Engine, flow: Workflow[str, Any], key: str = "o-1") -> RunId:
    """A run that was submitted, and not yet driven."""
    return (await engine.submit(flow, "o-1", key=key)).id


# --- who may advance it ---------------------------------------------------------------------------


@everywhere
async def test_a_run_of_a_definition_that_is_not_loaded_is_left_alone(world: World) -> None:
    ours, stranger = await world.engine(ONE), await world.elsewhere(OTHER)
    run_id = await entry_of(ours, ONE)
    before = await ours.inspect(run_id)
    with refused(Code.CONFLICT) as caught:
        await stranger.run_until_settled(run_id)
    said = str(caught.value)
    assert all(word in said for word in ("'shop.one'", "version '1'", run_id, "workflows"))
    assert (await stranger.run_once()).not_loaded == (run_id,)
    seen = await stranger.inspect(run_id)
    assert (seen.revision, steps_of(seen)) == (before.revision, {"act": "pending"})
    assert "not loaded here" in seen.why
    assert (await ours.run_until_settled(run_id)).status == "succeeded"
    assert (await stranger.run_until_settled(run_id)).status == "succeeded", "its end is no secret"


@everywhere
async def test_a_run_under_a_policy_that_is_not_accepted_is_left_alone(world: World) -> None:
    old, new = policy_for(ONE, version="2024"), policy_for(ONE, version="2025")
    ours, stranger = await world.engine(ONE, policy=old), await world.elsewhere(ONE, policy=new)
    run_id = await entry_of(ours, ONE)
    with refused(Code.CONFLICT) as caught:
        await stranger.run_until_settled(run_id)
    said = str(caught.value)
    assert all(word in said for word in ("policy", "'2024'", run_id, "previous_policies"))
    assert (await stranger.run_once()).not_loaded == (run_id,)
    assert (await stranger.inspect(run_id)).revision == 1
    assert not LEDGER.entered


async def test_the_same_version_label_on_another_policy_does_not_make_it_the_same(
    world: World,
) -> None:
    ours = await world.engine(ONE, policy=policy_for(ONE, budget_micros=1))
    stranger = await world.elsewhere(ONE, policy=policy_for(ONE, budget_micros=2))
    run_id = await entry_of(ours, ONE)
    with refused(Code.CONFLICT):
        await stranger.run_until_settled(run_id)


async def test_a_previous_policy_is_accepted_and_goes_on_ruling_its_runs(world: World) -> None:
    """A run keeps the policy that it was submitted under: grants, budget and all."""
    dear = one_step(acting(cost_micros=10))
    old, new = policy_for(dear, version="1", budget_micros=9), policy_for(dear, version="2")
    before = await world.engine(dear, policy=old)
    run_id = await entry_of(before, dear)
    after = await world.elsewhere(dear, policy=new, previous_policies=[old])
    seen = await after.run_until_settled(run_id)
    assert (seen.status, step_of(seen).code) == ("blocked", Code.BUDGET_EXCEEDED)
    seen = await after.run_until_settled(await entry_of(after, dear, "o-2"))
    assert (seen.status, seen.budget.maximum_micros) == ("succeeded", new.budget_micros)


async def test_there_is_a_limit_to_previous_policies(world: World) -> None:
    many = [policy_for(ONE, version=str(n)) for n in range(PREVIOUS_POLICIES_MAX + 1)]
    await world.engine(ONE, previous_policies=many[1:])
    with refused(Code.LIMIT_EXCEEDED):
        await world.engine(ONE, previous_policies=many)


async def test_a_new_version_is_loaded_beside_the_old_one(world: World) -> None:
    new = one_step(acting(timeout=60), version="2")
    before = await world.engine(ONE)
    run_id = await entry_of(before, ONE)
    policy = policy_for(ONE)
    after = await world.elsewhere(ONE, new, policy=policy, previous_policies=[policy_for(ONE)])
    assert (await after.run_until_settled(run_id)).version == "1"
    seen = await after.run_until_settled(await entry_of(after, new, "o-2"))
    assert (seen.status, seen.version) == ("succeeded", "2")


# --- edited without a new version -----------------------------------------------------------------


def sold(
    *,
    timeout: float = 30,
    prompt: str = "Is it right?",
    approval: bool = False,
    guards: tuple[Guard, ...] = (),
    constant: str = "fast",
    swapped: bool = False,
    other_result: bool = False,
    docstring: str = "Sell it.",
) -> Workflow[str, str]:
    """A workflow as it was, or with one thing edited."""

    @tool("shop.ship", version="1", effects="write", timeout=timeout, input_guards=guards)
    async def ship(call: Call, order: str, how: str = "fast") -> str:
        return cast(str, LEDGER.perform(call, order))

    ship.fn.__doc__ = docstring

    def sell(flow: Flow, order: str) -> str:
        shipped = flow.tool("ship", ship.on(order, how=constant), approval=approval)
        if not swapped:
            flow.tool("pack", ACT.on(shipped.output))
        review = flow.human("review", str, prompt=prompt, after=[shipped])
        if swapped:
            flow.tool("pack", ACT.on(shipped.output))
        return review.output if not other_result else shipped.output

    sell.__doc__ = docstring
    return workflow("shop.sell", version="1")(sell)


def _allow(value: object, about: object) -> bool:
    return True


EDITS: dict[str, tuple[Callable[[], Workflow[str, str]], str]] = {
    "timeout": (lambda: sold(timeout=31), "'ship'"),
    "prompt": (lambda: sold(prompt="Is it good?"), "'review'"),
    "approval": (lambda: sold(approval=True), "'ship'"),
    "guard": (lambda: sold(guards=(Guard("new", "1", _allow),)), "'ship'"),
    "constant": (lambda: sold(constant="slow"), "'ship'"),
    "result": (lambda: sold(other_result=True), "(result)"),
}


@pytest.mark.parametrize("empty_world", ["memory"], indirect=True)
@pytest.mark.parametrize("edit", EDITS)
async def test_an_edited_definition_under_the_same_version_is_named_with_the_place(
    world: World, edit: str
) -> None:
    """Case K8."""
    make, place = EDITS[edit]
    was, edited = sold(), make()
    ours, stranger = await world.engine(was), await world.elsewhere(edited, policy=policy_for(was))
    run_id = await entry_of(ours, was)
    with refused(Code.CONFLICT) as caught:
        await stranger.run_until_settled(run_id)
    said = str(caught.value)
    assert "was edited" in said
    assert place in said
    assert "give it a new version" in said
    assert (await stranger.inspect(run_id)).revision == 1


@pytest.mark.parametrize(
    "edited",
    [sold(docstring="Sell it, and say so."), sold(swapped=True)],
    ids=["words for people", "order of independent steps"],
)
async def test_what_changes_nothing_of_what_a_run_does_stops_no_run(
    world: World, edited: Workflow[str, str]
) -> None:
    """Case K8."""
    was = sold()
    ours, stranger = await world.engine(was), await world.elsewhere(edited, policy=policy_for(was))
    run_id = await entry_of(ours, was)
    assert (await stranger.run_until_settled(run_id)).status == "waiting"
