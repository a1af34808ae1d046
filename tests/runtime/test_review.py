"""What a review found, each as a test of what must hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from mayura.runtime import Code, Engine, Flow, Person, RunId, Snapshot, Workflow, workflow
from mayura.runtime.call import Call, Refusal
from mayura.runtime.core import decision
from tests.runtime.shop import LEDGER, acting, chain_of, one_step, policy_for, waiting_for
from tests.runtime.world import (
    EngineSettings,
    World,
    everywhere,
    refused,
    slots_of,
    step_of,
    until,
    until_true,
)

ONCE = acting("shop.refund", once="order")
FREE = acting("shop.look", effects="none")
CHAIN = chain_of(acting(), 1)
OTHER = one_step(acting("shop.other"), name="shop.other")


@workflow("shop.signalled", version="1")
def signalled(flow: Flow, order: str) -> str:
    """A run that waits for a word."""
    return flow.signal("go", str).output


SIGNALLED = signalled


def refund_again() -> Workflow[str, str]:
    """`a` and, after `c`, `b`: two calls for one subject in one run."""

    @workflow("shop.again", version="1")
    def again(flow: Flow, order: str) -> str:
        flow.tool("a", ONCE.on(order))
        c = flow.tool("c", FREE.on(order))
        return flow.tool("b", ONCE.on(order), after=[c]).output

    return again


@everywhere
async def test_a_subject_given_back_is_held_by_the_call_that_takes_it_in_the_same_wave(
    world: World,
) -> None:
    """A refusal gives the subject back; what became ready beside it must truly take it (G16)."""
    again, single = refund_again(), one_step(ONCE)
    engine = await world.engine(again, single, policy=policy_for(again, single))
    go = asyncio.Event()

    async def refuses(call: Call) -> str:
        await go.wait()
        raise Refusal("not now")

    async def looks(call: Call) -> str:
        await go.wait()
        return "seen"

    LEDGER.does("a", refuses)
    LEDGER.does("c", looks)
    first = (await engine.submit(again, "o-1", key="first")).id
    driving = asyncio.create_task(engine.run_until_settled(first))
    await until(LEDGER.began("a"))
    await until(LEDGER.began("c"))
    go.set()
    seen = await driving
    assert step_of(seen, "b").status == "succeeded"
    second = (await engine.submit(single, "o-1", key="second")).id
    seen = await engine.run_until_settled(second)
    assert step_of(seen).code is Code.ALREADY_DONE
    assert LEDGER.of("act") == []


@asynccontextmanager
async def waiting_for_a_slot(
    world: World,
) -> AsyncIterator[tuple[Engine, RunId, asyncio.Task[Snapshot], asyncio.Event]]:
    """A run whose step waits for the only slot, who drives it, and what lets the other call end."""
    engine = await world.engine(CHAIN, calls_max=1)
    go = asyncio.Event()
    LEDGER.does("s1", waiting_for(go))
    other = (await engine.submit(CHAIN, "o-1", key="other")).id
    holder = asyncio.create_task(engine.run_until_settled(other))
    await until(LEDGER.began("s1"))
    run_id = (await engine.submit(CHAIN, "o-2", key="waits")).id
    waiter = asyncio.create_task(engine.run_until_settled(run_id))

    async def it_waits() -> bool:
        return slots_of(engine).statistics().waiting > 0

    await until_true(it_waits)
    yield engine, run_id, waiter, go
    go.set()
    await holder


async def test_whoever_drives_a_run_that_was_cancelled_waits_for_no_slot(world: World) -> None:
    async with waiting_for_a_slot(world) as (engine, run_id, waiter, _):
        await engine.cancel(run_id, by="ada")
        async with asyncio.timeout(5):
            assert (await waiter).status == "cancelled"


async def test_whoever_drives_a_run_that_was_paused_waits_for_no_slot(world: World) -> None:
    async with waiting_for_a_slot(world) as (engine, run_id, waiter, go):
        await engine.pause(run_id, by="ada")
        async with asyncio.timeout(5):
            assert (await waiter).status == "paused"
        await engine.resume(run_id, by="ada")
        go.set()
        async with asyncio.timeout(5):
            assert (await engine.run_until_settled(run_id)).status == "succeeded"


async def test_a_sweep_reaches_what_lies_behind_runs_that_cannot_go_on(world: World) -> None:
    """An acknowledged run moves on though those before it never will (G13)."""
    elsewhere = await world.engine(OTHER)
    for number in range(3):
        await elsewhere.submit(OTHER, "o", key=f"stuck-{number}")
    ours = await world.elsewhere(CHAIN)
    run_id = (await ours.submit(CHAIN, "o", key="ours")).id
    for _ in range(2):
        await ours.run_once(limit=3)
    assert (await ours.inspect(run_id)).status == "succeeded"


async def test_a_drain_that_leaves_a_late_body_behind_says_so(world: World) -> None:
    """Its receipt may still come, and nobody will store it (G4)."""
    hasty = one_step(acting(timeout=0.05))
    engine = await world.engine(hasty)
    stop = asyncio.Event()

    async def stubborn(call: Call) -> str:
        while not stop.is_set():
            with suppress(asyncio.CancelledError):
                await stop.wait()
        return "late"

    LEDGER.does("act", stubborn)
    run_id = (await engine.submit(hasty, "o", key="late")).id
    assert (await engine.run_until_settled(run_id)).status == "outcome_unknown"
    drained = await engine.drain(0.05)
    stop.set()
    assert (drained.calls_left, drained.bodies_left) == (0, 1)


async def test_what_is_stored_without_what_follows_from_it_is_looked_at_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in deciding keeps no signal out, and leaves no run asleep (G13)."""
    engine = await world.engine(SIGNALLED)
    run_id = (await engine.submit(SIGNALLED, "o", key="o")).id
    assert (await engine.run_until_settled(run_id)).status == "waiting"
    with monkeypatch.context() as patch:
        patch.setattr(decision, "decide", raising_decide)
        await engine.signal(run_id, "go", "s-1", "now")
        assert [found.run_id for found in await (await world.store()).due(10)] == [run_id]
    assert (await engine.run_once()).advanced == (run_id,)
    assert (await engine.inspect(run_id)).status == "succeeded"


def raising_decide(*_: object) -> object:
    """A fault in the code."""
    raise RuntimeError("a fault")


@pytest.mark.parametrize("wrong", [{"calls_max": 0}, {"threads_max": 0}, {"margin": 0.0}])
async def test_an_engine_that_could_never_call_anything_is_refused(
    world: World, wrong: EngineSettings
) -> None:
    with refused(Code.INVALID_CONFIG):
        await world.engine(CHAIN, **wrong)


async def test_whoever_drives_a_run_sees_it_as_it_is_when_they_ask(world: World) -> None:
    """Not as it was when somebody else began to ask a person who they are."""
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly(credential: str) -> Person | None:
        asked.set()
        await go.wait()
        return None

    engine = await world.engine(SIGNALLED, verify_human=slowly)
    run_id = (await engine.submit(SIGNALLED, "o", key="o")).id
    await engine.run_until_settled(run_id)
    recovering = asyncio.create_task(engine.recover_abandoned(run_id, credential="who"))
    await until(asked)
    elsewhere = await world.elsewhere(SIGNALLED)
    await elsewhere.signal(run_id, "go", "s-1", "now")
    assert (await engine.run_until_settled(run_id)).status == "succeeded"
    go.set()
    with refused(Code.PERMISSION_DENIED):
        await recovering
