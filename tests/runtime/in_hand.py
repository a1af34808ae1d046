"""A call that a process has in hand, and how its process may die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mayura.runtime import Call, Engine, Policy, Refusal, RunId, Snapshot, StepView, Tool, Workflow
from mayura.runtime.core.definition import Effects
from tests.runtime.shop import LEDGER, Body, acting, one_step, waiting_for
from tests.runtime.trouble import stopping_at
from tests.runtime.world import World, until

COST = 10
SOON_S = 0.05  #: a deadline that a test can wait for where it cannot set the clock


def act_of(effects: Effects = "write", timeout: float = 30) -> Tool[[str], str]:
    """A tool that costs something."""
    return acting(effects=effects, timeout=timeout, cost_micros=COST)


ACT = act_of()
ONE = one_step(ACT)


@dataclass
class InHand:
    """A call that a process has in hand, and what ends it."""

    engine: Engine
    run_id: RunId
    done: asyncio.Event
    driving: asyncio.Task[Snapshot]

    async def ends(self) -> Snapshot:
        """The body returns; where the run stands for its own process."""
        self.done.set()
        return await self.driving

    async def dies(self, world: World) -> None:
        """Its process dies; the body may go on, and nobody hears of it."""
        await world.crash(self.engine)
        await asyncio.gather(self.driving, return_exceptions=True)


async def in_hand(
    world: World,
    flow: Workflow[str, str],
    *,
    node: str = "act",
    ending: Callable[[asyncio.Event], Body] = waiting_for,
    policy: Policy | None = None,
) -> InHand:
    """A run whose step is in a call of a process of its own."""
    done = asyncio.Event()
    LEDGER.does(node, ending(done))
    engine = await world.elsewhere(flow, policy=policy)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began(node))
    return InHand(engine, run.id, done, driving)


def refusing_after(done: asyncio.Event) -> Body:
    """A body that decides late that it does not act."""

    async def body(call: Call) -> str:
        await done.wait()
        raise Refusal("It is sold out.")

    return body


@asynccontextmanager
async def crash_at(point: str, world: World, engine: Engine, run_id: RunId) -> AsyncIterator[None]:
    """The process of `engine` dies at this point of the run; what others do then is inside."""
    with stopping_at(point) as stopped:
        driving = asyncio.create_task(engine.run_until_settled(run_id))
        await until(stopped)
        await world.crash(engine)
        await asyncio.gather(driving, return_exceptions=True)
        yield


async def abandonments(engine: Engine, run_id: RunId) -> list[str]:
    """The steps that somebody settled without their process."""
    return [str(e.data["node"]) for e in await engine.events(run_id) if e.type == "step.abandoned"]


def ended(step: StepView) -> tuple[object, ...]:
    """How a step ended, and what it cost."""
    return (
        step.status,
        step.code,
        step.cause,
        step.receipt,
        step.acted,
        step.charged_micros,
        step.reserved_micros,
    )


async def settled_late(world: World, engine: Engine, run_id: RunId, seconds: float) -> Snapshot:
    """The run once its call's deadline is over: where the clock cannot be set, it is waited for."""
    if world.settable is not None:
        world.clock.advance(seconds)
    while not (seen := await engine.run_until_settled(run_id)).settled:
        assert world.settable is None, "the deadline is over"
    return seen
