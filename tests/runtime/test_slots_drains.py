"""Slots and drains: how many calls run at once, and what is left when nobody asks any more."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mayura.runtime import Call, Code, MayuraError
from mayura.runtime.ports import RunWrite
from mayura.runtime.slots import Slots
from tests.runtime.meddling import events_of, meddled
from tests.runtime.shop import (
    LEDGER,
    acting,
    acting_in_thread,
    one_step,
    side_by_side,
    two_steps,
    waiting_for,
)
from tests.runtime.world import (
    World,
    everywhere,
    refused,
    slots_of,
    step_of,
    steps_of,
    until,
    until_step,
    until_true,
)

SHORT_S = 0.03


class Busy:
    """Counts how many bodies run at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def enter(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)

    def leave(self) -> None:
        with self._lock:
            self._now -= 1


@pytest.mark.parametrize("limit", ["the tool's", "the engine's", "threads"])
async def test_no_more_calls_run_at_once_than_allowed(world: World, limit: str) -> None:
    busy, most, count = Busy(), 3, 21
    all_in = threading.Barrier(most)

    async def body(call: object) -> str:
        busy.enter()
        for _ in range(3):
            await asyncio.sleep(0)
        busy.leave()
        return "done"

    def body_in_thread(call: Call) -> str:
        busy.enter()
        all_in.wait(10)  # breaks if fewer are let in
        busy.leave()
        return "done"

    for number in range(count):
        LEDGER.does(f"s{number + 1}", body_in_thread if limit == "threads" else body)
    if limit == "threads":
        flow = side_by_side(acting_in_thread(), count)
        engine = await world.engine(flow, threads_max=most)
    elif limit == "the tool's":
        flow = side_by_side(acting(concurrency=most), count)
        engine = await world.engine(flow)
    else:
        flow = side_by_side(acting(), count)
        engine = await world.engine(flow, calls_max=most)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, len(LEDGER.entered)) == ("succeeded", count)
    assert busy.most == most
    assert slots_of(engine).statistics().calls == 0


async def test_a_finished_step_never_waits_for_the_next_ones_slot(world: World) -> None:
    """A completion is written at once, with the next tool full for longer than any deadline."""
    release = asyncio.Event()
    scarce = acting("shop.scarce", concurrency=1)
    holder = one_step(scarce, name="shop.holder")
    flow = two_steps(acting(), scarce)
    LEDGER.does("act", waiting_for(release))
    engine = await world.engine(holder, flow)
    held = await engine.submit(holder, "o-0", key="o-0")
    holding = asyncio.create_task(engine.run_until_settled(held.id))
    await until(LEDGER.began("act"))
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until_step(engine, run.id, "first", "succeeded")
    assert steps_of(await engine.inspect(run.id))["then"] == "pending"
    world.clock.advance(3600)
    await (await world.elsewhere()).run_once()
    assert steps_of(await engine.inspect(run.id)) == {"first": "succeeded", "then": "pending"}
    release.set()
    assert (await driving).status == "succeeded"
    await holding


async def test_the_slot_of_a_finished_body_carries_the_next_step_in_the_same_commit(
    world: World,
) -> None:
    """With every slot taken, a completion and the dispatch it makes ready still share a commit."""
    flow = two_steps(acting("shop.first"), acting("shop.second"))
    engine = await world.engine(flow, calls_max=1)
    run = await engine.submit(flow, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    commits = {
        (event.type, event.data.get("node")): event.version for event in await engine.events(run.id)
    }
    assert commits["step.dispatching", "then"] == commits["step.succeeded", "first"]


async def test_a_drain_does_not_wait_for_what_may_not_begin_any_more(world: World) -> None:
    release = asyncio.Event()
    scarce = acting("shop.scarce", concurrency=1, timeout=SHORT_S, effects="read")

    async def stubborn(call: object) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await release.wait()
        return "late"

    LEDGER.does("first", stubborn)
    flow = two_steps(scarce)
    other = side_by_side(scarce, 1)
    engine = await world.engine(flow, other)
    run = await engine.submit(flow, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    waiting = await engine.submit(other, "o-2", key="o-2")
    driving = asyncio.create_task(engine.run_until_settled(waiting.id))

    async def waits() -> bool:
        return bool(slots_of(engine).statistics().waiting)

    await until_true(waits)
    assert (await asyncio.wait_for(engine.drain(), 5)).clean
    assert (await driving).status == "running"
    release.set()
    assert not LEDGER.of("s1")


async def test_many_runs_share_few_slots_and_all_finish(world: World) -> None:
    """Case D10: five hundred runs, four calls at once, two threads, both kinds of tools."""
    kinds = (acting("shop.loop", effects="read"), acting_in_thread("shop.plain", effects="read"))
    flow = two_steps(*kinds)
    engine = await world.engine(flow, calls_max=4, threads_max=2)
    count = 500 if world.is_fast else 60
    runs = [await engine.submit(flow, "o", key=f"o-{n}") for n in range(count)]
    swept = await engine.run_once(limit=count)
    assert len(swept.advanced) == count
    assert len(LEDGER.entered) == 2 * count
    last = await engine.inspect(runs[-1].id)
    assert last.status == "succeeded"
    assert slots_of(engine).statistics().calls == 0


# --- cancelling those who ask --------------------------------------------------------------------


@everywhere
async def test_once_nobody_drives_a_run_its_call_ends_and_nothing_new_begins(
    world: World,
) -> None:
    done = asyncio.Event()
    LEDGER.does("first", waiting_for(done))
    flow = two_steps(acting())
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("first"))
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    done.set()
    await until_step(engine, run.id, "first", "succeeded")
    assert not LEDGER.of("then")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    assert len(LEDGER.entered) == 2


async def test_one_of_two_who_drive_a_run_may_leave(world: World) -> None:
    done = asyncio.Event()
    LEDGER.does("first", waiting_for(done))
    flow = two_steps(acting())
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    leaving, staying = (asyncio.create_task(engine.run_until_settled(run.id)) for _ in range(2))
    await until(LEDGER.began("first"))
    leaving.cancel()
    done.set()
    assert (await staying).status == "succeeded"
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_a_drain_waits_for_calls_in_hand_and_starts_nothing_more(world: World) -> None:
    done = asyncio.Event()
    LEDGER.does("first", waiting_for(done))
    flow = two_steps(acting())
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("first"))
    draining = asyncio.create_task(engine.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    done.set()
    assert (await draining).clean
    seen = await driving
    assert steps_of(seen) == {"first": "succeeded", "then": "pending"}
    elsewhere = await world.elsewhere(flow)
    assert (await elsewhere.run_once()).advanced == (run.id,), "somebody else goes on with it"
    assert (await elsewhere.inspect(run.id)).status == "succeeded"


@everywhere
async def test_a_drain_whose_time_is_over_says_what_is_in_hand_and_gives_nothing_up(
    world: World,
) -> None:
    done = asyncio.Event()
    LEDGER.does("first", waiting_for(done))
    flow = two_steps(acting())
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("first"))
    drained = await engine.drain(0.01)
    assert (drained.calls_left, drained.clean) == (1, False)
    done.set()
    assert steps_of(await driving) == {"first": "succeeded", "then": "pending"}
    assert (await engine.drain()).clean
    assert step_of(await engine.inspect(run.id), "first").receipt == "succeeded"


async def test_a_call_that_was_in_hand_at_a_drain_hears_of_a_cancel_elsewhere(
    world: World,
) -> None:
    heard = asyncio.Event()

    async def listens(call: Call) -> str:
        await call.cancellation.wait()
        heard.set()
        return "done"

    LEDGER.does("act", listens)
    flow = one_step(acting())
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    assert not (await engine.drain(0)).clean
    await (await world.elsewhere(flow)).cancel(run.id, by="ada")
    await until(heard)
    assert (await driving).status == "cancelled"


async def test_leaving_an_engine_with_a_receipt_unstored_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4: a drain that ends with receipts unstored says so."""

    async def fail(write: RunWrite) -> None:
        if "step.receipt" in events_of(write):
            raise MayuraError(Code.STORAGE_UNAVAILABLE, "gone")

    monkeypatch.setattr("mayura.runtime.engine.LEAVE_S_MAX", 0.0)
    flow = one_step(acting(timeout=SHORT_S))
    engine = await world.engine(flow, store=meddled(await world.store(), before=fail))
    run = await engine.submit(flow, "o-1", key="o-1")
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.run_until_settled(run.id)
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.__aexit__(None, None, None)
    assert len(LEDGER.entered) == 1


def test_slots_are_taken_all_or_none_and_handed_to_who_waited_longest() -> None:
    slots = Slots(calls_max=2, threads_max=1)
    assert slots.try_take("a", concurrency=1, thread=True)
    assert not slots.try_take("b", concurrency=None, thread=True)
    assert slots.statistics().calls == 1, "nothing was taken by the call that did not fit"
    told: list[str] = []
    slots.wait("b", concurrency=None, thread=True, granted=lambda: told.append("first"))
    slots.wait("a", concurrency=1, thread=False, granted=lambda: told.append("second"))
    slots.wait("b", concurrency=None, thread=True, granted=lambda: told.append("third"))
    slots.release("a", concurrency=1, thread=True)
    assert told == ["first", "second"], "the third needs the thread that the first has"
    assert (slots.statistics().calls, slots.statistics().waiting) == (2, 1)
    slots.release("b", concurrency=None, thread=True)
    assert told == ["first", "second", "third"]


def test_a_slot_that_is_not_wanted_any_more_goes_to_the_next_however_long_the_queue() -> None:
    slots = Slots(calls_max=1)
    assert slots.try_take("a", concurrency=None, thread=False)
    told: list[int] = []

    def give_back() -> None:
        slots.release("a", concurrency=None, thread=False)

    for _ in range(5_000):
        slots.wait("a", concurrency=None, thread=False, granted=give_back)
    slots.wait("a", concurrency=None, thread=False, granted=lambda: told.append(1))
    slots.release("a", concurrency=None, thread=False)
    assert told == [1]
