"""What a person finds after something went wrong: under which key to ask, and the reason."""

from __future__ import annotations

import pytest

from mayura.runtime import Workflow
from tests.runtime.in_hand import in_hand
from tests.runtime.shop import LEDGER, acting, one_step
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
