"""An engine is entered once, and says so wherever somebody wants more of it than it may do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from mayura.runtime import Code, Engine, Person, RunId
from tests.runtime.shop import LEDGER, acting, one_step, policy_for
from tests.runtime.trouble import Between
from tests.runtime.world import World, refused, until

ONE = one_step(acting())
OTHER = "0" * 64

Use = Callable[[Engine, RunId], Awaitable[object]]

STARTING: dict[str, Use] = {
    "submit": lambda engine, _: engine.submit(ONE, "o-2", key="o-2"),
    "run_until_settled": lambda engine, run: engine.run_until_settled(run),
    "run_once": lambda engine, _: engine.run_once(),
}
COMMANDS: dict[str, Use] = {
    "approve": lambda engine, run: engine.approve(run, "act", OTHER, credential="key-of-ada"),
    "reject": lambda engine, run: engine.reject(run, "act", OTHER, credential="key-of-ada"),
    "respond": lambda engine, run: engine.respond(run, "act", OTHER, 1, credential="key-of-ada"),
    "signal": lambda engine, run: engine.signal(run, "paid", "s-1", 1),
    "pause": lambda engine, run: engine.pause(run, by="ada"),
    "resume": lambda engine, run: engine.resume(run, by="ada"),
    "cancel": lambda engine, run: engine.cancel(run, by="ada"),
    "recover_abandoned": lambda engine, run: engine.recover_abandoned(run, credential="key-of-ada"),
}


async def submitted(world: World) -> RunId:
    """A run that nobody has driven."""
    return (await (await world.elsewhere(ONE)).submit(ONE, "o-1", key="o-1")).id


async def unentered(world: World) -> Engine:
    return Engine(await world.store(), workflows=[ONE], policy=policy_for(ONE))


@pytest.mark.parametrize("name", [*STARTING, *COMMANDS, "drain"])
async def test_an_engine_that_was_not_entered_says_how_it_is_used(world: World, name: str) -> None:
    uses: dict[str, Use] = {**STARTING, **COMMANDS, "drain": lambda engine, _: engine.drain(0)}
    run_id, engine = await submitted(world), await unentered(world)
    with refused(Code.INVALID_CONFIG) as caught:
        await uses[name](engine, run_id)
    assert "async with" in str(caught.value)
    assert (await engine.inspect(run_id)).status == "running", "reading needs no more"
    assert await engine.events(run_id)
    async with engine:
        assert (await engine.run_until_settled(run_id)).status == "succeeded"


@pytest.mark.parametrize("name", [*STARTING, *COMMANDS])
async def test_an_engine_that_was_left_reads_and_does_nothing_else(world: World, name: str) -> None:
    run_id, engine = await submitted(world), await unentered(world)
    async with engine:
        pass
    with refused(Code.INVALID_CONFIG) as caught:
        await {**STARTING, **COMMANDS}[name](engine, run_id)
    assert "was left" in str(caught.value)
    assert (await engine.inspect(run_id)).status == "running"
    assert (await engine.drain()).clean
    assert not LEDGER.entered


async def test_a_drained_engine_starts_nothing_and_takes_commands(world: World) -> None:
    run_id, engine = await submitted(world), await unentered(world)
    async with engine:
        await engine.drain()
        for use in STARTING.values():
            with refused(Code.INVALID_CONFIG) as caught:
                await use(engine, run_id)
            assert "was drained" in str(caught.value)
        await engine.cancel(run_id, by="ada")
        assert (await engine.result(run_id)).status == "cancelled"
    assert not LEDGER.entered


@pytest.mark.parametrize("state", ["open", "drained", "left"])
async def test_an_engine_is_entered_once(world: World, state: str) -> None:
    engine = await unentered(world)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(engine)
        if state == "drained":
            await engine.drain()
        elif state == "left":
            await stack.aclose()
        with refused(Code.INVALID_CONFIG) as caught:
            await engine.__aenter__()
    assert "another one" in str(caught.value)


async def test_of_two_who_enter_an_engine_at_once_one_does(world: World) -> None:
    engine = await unentered(world)
    done = await asyncio.gather(engine.__aenter__(), engine.__aenter__(), return_exceptions=True)
    assert sum(each is engine for each in done) == 1
    await engine.__aexit__(None, None, None)


@pytest.mark.parametrize("name", ["approve", "reject", "recover_abandoned"])
async def test_a_command_that_was_still_verified_when_the_engine_was_left_does_nothing(
    world: World, name: str
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slowly(credential: str) -> Person:
        asked.set()
        await answer.wait()
        return Person(id="ada")

    run_id, store = await submitted(world), await world.store()
    engine = Engine(store, workflows=[ONE], policy=policy_for(ONE), verify_human=slowly)
    async with engine:
        command = asyncio.ensure_future(COMMANDS[name](engine, run_id))
        await until(asked)
    before = await engine.events(run_id)
    answer.set()
    with refused(Code.INVALID_CONFIG) as caught:
        await command
    assert "was left" in str(caught.value)
    assert await engine.events(run_id) == before


@pytest.mark.parametrize("name", ["run_until_settled", "signal", "cancel"])
async def test_what_still_read_its_run_when_the_engine_was_left_does_nothing(
    world: World, name: str
) -> None:
    run_id, between = await submitted(world), Between(await world.store())
    reading, read = between.holds_reading(run_id)
    engine = Engine(between, workflows=[ONE], policy=policy_for(ONE))
    async with engine:
        use = asyncio.ensure_future({**STARTING, **COMMANDS}[name](engine, run_id))
        await until(reading)
    read.set()
    with refused(Code.INVALID_CONFIG) as caught:
        await use
    assert "was left" in str(caught.value)
    assert not between.sent
    assert not LEDGER.entered
