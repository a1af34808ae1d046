"""Mayura with everything on, as its users call it: submit, then drive to the end."""

from __future__ import annotations

from contextlib import asynccontextmanager

from pydantic import BaseModel

from benchmarks.contest import Runs, Setting
from mayura.runtime import Call, Engine, Flow, Policy, Workflow, open_store, tool, workflow
from mayura.runtime.core.state import RunStatus


class Order(BaseModel):
    """What a run is about."""

    order_id: str
    email: str


class Charge(BaseModel):
    """What a step returns."""

    ok: bool
    charge_id: str


@tool("bench.charge", version="1", effects="write")
async def charge(call: Call, order: Order) -> Charge:
    """The cheapest write: it answers at once."""
    return Charge(ok=True, charge_id="ch_0123456789")


def chain(steps: int) -> Workflow[Order, Charge]:
    """A workflow of `steps` writes, each after the one before."""

    @workflow(f"bench.chain-{steps}", version="1")
    def chained(flow: Flow, order: Order) -> Charge:
        step = flow.tool("s1", charge.on(order))
        for number in range(2, steps + 1):
            step = flow.tool(f"s{number}", charge.on(order), after=[step])
        return step.output

    return chained


@asynccontextmanager
async def runs(setting: Setting) -> Runs:
    """One engine on one store."""
    chained = chain(setting.steps)
    policy = Policy(version="1", allow=charge.grants)
    store = await open_store(setting.url)
    try:
        async with Engine(store, workflows=[chained], policy=policy) as engine:

            async def one_run(number: int) -> None:
                order = Order(order_id=f"o-{number}", email="ada@example.com")
                submitted = await engine.submit(chained, order, key=f"o-{number}")
                seen = await engine.run_until_settled(submitted.id)
                assert seen.status is RunStatus.SUCCEEDED, seen.why

            yield one_run
    finally:
        await store.close()
