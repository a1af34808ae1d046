"""Timeouts, threads and context: what outlives its step, and what a body can see."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from mayura.runtime import Call, Code, Flow, MayuraError, RunId, workflow
from tests.runtime.shop import (
    LEDGER,
    acting,
    acting_in_thread,
    chain_of,
    one_step,
    refusing,
    side_by_side,
)
from tests.runtime.world import (
    World,
    everywhere,
    slots_of,
    step_of,
    steps_of,
    until,
    until_true,
)

SHORT_S = 0.03
WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def receipt_of(world: World, run_id: RunId, receipt: str, node: str = "act") -> None:
    """Wait until the store has this receipt."""

    async def has_come() -> bool:
        return step_of(await world.engines[0].inspect(run_id), node).receipt == receipt

    await until_true(has_come)


# --- bodies that outlive their step --------------------------------------------------------------


@everywhere
async def test_a_late_return_is_merged_into_the_receipt_and_changes_no_status(
    world: World,
) -> None:
    """Case A6: a tool that ignores its timeout; one effect, and a step that stays unknown."""
    swallowed, finish = asyncio.Event(), asyncio.Event()

    async def stubborn(call: Call) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        await finish.wait()
        return "late"

    async def body() -> str:
        return await stubborn(LEDGER.calls["act"])

    LEDGER.does("act", lambda call: body())
    flow = one_step(acting(timeout=SHORT_S, cost_micros=10))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, step_of(seen).receipt) == ("outcome_unknown", "unknown")
    await until(swallowed)
    finish.set()
    await receipt_of(world, run.id, "succeeded")
    seen = await engine.inspect(run.id)
    step = step_of(seen)
    assert (seen.status, step.status, step.acted) == ("outcome_unknown", "unknown", "yes")
    assert (step.charged_micros, step.reserved_micros) == (10, 0), "a known receipt settles money"
    assert step_of(await engine.inspect(run.id, outputs=True)).output is None, "withheld"
    assert len(LEDGER.entered) == 1


async def test_a_late_refusal_proves_that_nothing_happened(world: World) -> None:
    go_on = asyncio.Event()

    async def body(call: object) -> object:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await go_on.wait()
        return refusing("Too late anyway.")(LEDGER.calls["act"])

    LEDGER.does("act", body)
    flow = one_step(acting(timeout=SHORT_S, cost_micros=10))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    assert (await engine.run_until_settled(run.id)).status == "outcome_unknown"
    go_on.set()
    await receipt_of(world, run.id, "not_started")
    seen = await engine.inspect(run.id)
    assert (step_of(seen).status, seen.acted, seen.budget.reserved_micros) == ("unknown", "no", 0)
    assert step_of(seen).refusal == "Too late anyway."


async def test_a_late_failure_proves_nothing(world: World) -> None:
    flow = one_step(acting_in_thread(timeout=SHORT_S))
    ended = threading.Event()

    def body(call: Call) -> str:
        call.cancellation.wait_in_thread(10)
        ended.set()
        raise ValueError

    LEDGER.does("act", body)
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    before = await engine.run_until_settled(run.id)
    assert await asyncio.to_thread(ended.wait, 10)
    await slots_free(world)
    assert await engine.inspect(run.id) == before


async def test_a_body_blocked_in_a_thread_keeps_nobody_waiting(world: World) -> None:
    """Case G4: the step settles at its time, a drain ends at its own; no exit waits."""
    release = threading.Event()
    LEDGER.does("look", lambda call: release.wait(20) and "late")
    LEDGER.does("write", lambda call: release.wait(20) and "late")
    look = acting_in_thread("shop.look", effects="read", timeout=SHORT_S)
    write = acting_in_thread("shop.write", timeout=SHORT_S)

    @workflow("shop.stuck", version="1")
    def stuck(flow: Flow, order: str) -> str:
        flow.tool("look", look.on(order))
        return flow.tool("write", write.on(order)).output

    engine = await world.engine(stuck)
    run = await engine.submit(stuck, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert steps_of(seen) == {"look": "failed", "write": "unknown"}
    drained = await asyncio.wait_for(engine.drain(SHORT_S), 5)
    assert drained.clean, "its steps are settled: no call is in hand"
    release.set()
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("mayura ")]
    assert all(thread.daemon for thread in threading.enumerate() if thread.name in names)


async def slots_free(world: World) -> None:
    """Wait until no call holds a slot."""

    async def free() -> bool:
        return not slots_of(world.engines[0]).statistics().calls

    await until_true(free)


async def test_a_body_that_outlives_its_step_keeps_its_slot(world: World) -> None:
    release = asyncio.Event()

    async def body(call: object) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await release.wait()
        return "late"

    LEDGER.does("first", body)
    first = acting("shop.first", effects="read", timeout=SHORT_S, concurrency=1)
    flow = one_step(first, name="shop.a")
    again = side_by_side(first, 1, name="shop.b")
    LEDGER.does("act", body)
    engine = await world.engine(flow, again)
    stuck = await engine.submit(flow, "o-1", key="o-1")
    assert (await engine.run_until_settled(stuck.id)).status == "failed"
    next_one = await engine.submit(again, "o-2", key="o-2")
    driving = asyncio.create_task(engine.run_until_settled(next_one.id))
    seen = await engine.result(stuck.id)
    assert slots_of(engine).statistics().calls == 1
    assert not LEDGER.of("s1")
    release.set()
    assert (await driving).status == "succeeded"
    assert seen.status == "failed"


async def test_a_host_that_can_start_no_thread_has_not_called_anything(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = one_step(acting_in_thread())
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("mayura "):
            raise RuntimeError("can't start new thread")
        start(thread)

    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", refuse)
    seen = await engine.run_until_settled(run.id)
    assert (step_of(seen).status, step_of(seen).receipt) == ("failed", "not_started")
    assert not LEDGER.entered


# --- context -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["on the loop", "in a thread"])
async def test_a_body_sees_the_context_of_whoever_drives_its_run(world: World, kind: str) -> None:
    """Case G8: a hundred runs at once, each its own; nothing leaks back."""
    flow = one_step(acting() if kind == "on the loop" else acting_in_thread())
    seen: dict[str, str] = {}

    def look(call: Call) -> str:
        seen[call.run_id] = WHO.get()
        WHO.set("the tool")
        return "done"

    LEDGER.does("act", look)
    engine = await world.engine(flow)

    async def drive(number: int) -> tuple[str, str]:
        WHO.set(f"caller {number}")
        run = await engine.submit(flow, "o", key=f"o-{number}")
        await engine.run_until_settled(run.id)
        return run.id, WHO.get()

    count = 100 if world.is_fast else 30
    driven = await asyncio.gather(*(drive(number) for number in range(count)))
    for number, (run_id, after) in enumerate(driven):
        assert seen[run_id] == f"caller {number}"
        assert after == f"caller {number}"


async def test_steps_of_one_run_do_not_see_each_others_context(world: World) -> None:
    flow = chain_of(acting(), 3)
    seen: list[str] = []

    def look(call: Call) -> str:
        seen.append(WHO.get())
        WHO.set(call.call_id)
        return "done"

    for number in (1, 2, 3):
        LEDGER.does(f"s{number}", look)
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    assert seen == ["nobody"] * 3


async def test_a_tool_that_raises_the_engines_own_error_has_failed_like_any_other(
    world: World,
) -> None:
    def body(call: Call) -> str:
        raise MayuraError(Code.STORAGE_UNAVAILABLE, "the tool's own store")

    LEDGER.does("act", body)
    flow = one_step(acting())
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, step_of(seen).cause) == ("outcome_unknown", "exception")
