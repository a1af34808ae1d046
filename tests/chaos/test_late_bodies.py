"""A body that ends after its call had timed out: what it proves is kept (G5, G6)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import pytest

from mayura.runtime import Call, Engine, Flow, Policy, RunId, Workflow, open_store, tool, workflow
from mayura.runtime.core.state import Receipt, StepStatus
from mayura.runtime.faultpoints import arm
from mayura.runtime.ids import NodeId
from mayura.runtime.ports import Store

STEP = NodeId("step")


@dataclass
class LateTool:
    """A plain function that outlasts its timeout until it is told to end."""

    end: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def workflow(self) -> Workflow[str, str]:
        @tool("late", version="1", effects="write", timeout=0.05)
        def late(call: Call, order: str) -> str:
            self.end.wait(30)
            self.ended.set()
            return "done after all"

        @workflow("late", version="1")
        def lately(flow: Flow, order: str) -> str:
            return flow.tool(STEP, late.on(order)).output

        return lately


@pytest.fixture
def late() -> Iterator[LateTool]:
    made = LateTool()
    yield made
    made.end.set()
    arm(None)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = await open_store("memory://")
    yield opened
    await opened.close()


def engine_of(store: Store, workflow: Workflow[str, str]) -> Engine:
    policy = Policy(version="1", allow=["tool:late", "effect:write"])
    return Engine(store, workflows=[workflow], policy=policy)


async def receipt_of(store: Store, run_id: RunId) -> Receipt | None:
    loaded = await store.load(run_id)
    assert loaded is not None
    assert loaded.run.step(STEP).status is StepStatus.UNKNOWN
    return loaded.run.step(STEP).receipt


async def test_a_drain_waits_for_a_body_that_outlived_its_call(
    store: Store, late: LateTool
) -> None:
    lately = late.workflow()
    async with engine_of(store, lately) as engine:
        run = await engine.submit(lately, "o-1", key="o-1")
        seen = await engine.run_until_settled(run.id)
        assert seen.steps[STEP].receipt is Receipt.UNKNOWN
        draining = asyncio.create_task(engine.drain())
        await asyncio.sleep(0)
        assert not draining.done()
        late.end.set()
        assert (await draining).clean
        assert await receipt_of(store, run.id) is Receipt.SUCCEEDED


async def test_a_body_that_ends_while_its_timeout_is_being_stored_is_heard(
    store: Store, late: LateTool
) -> None:
    lately = late.workflow()

    async def end_now(point: str) -> None:
        if point == "receipt.before_commit" and not late.end.is_set():
            late.end.set()
            await asyncio.to_thread(late.ended.wait)

    arm(end_now)
    async with engine_of(store, lately) as engine:
        run = await engine.submit(lately, "o-1", key="o-1")
        await engine.run_until_settled(run.id)
        await engine.drain()
        assert await receipt_of(store, run.id) is Receipt.SUCCEEDED
