"""Many at once: runs, siblings and processes; and what is left of them afterwards."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from mayura.runtime import (
    Call,
    Code,
    Engine,
    Flow,
    MayuraError,
    RunId,
    Snapshot,
    Workflow,
    workflow,
)
from mayura.runtime.core.definition import ToolNode
from mayura.runtime.ports import RunWrite
from tests.runtime.shop import (
    LEDGER,
    Body,
    acting,
    acting_in_thread,
    chain_of,
    one_step,
    policy_for,
    raising,
    refusing,
    side_by_side,
    two_steps,
    waiting_for,
)
from tests.runtime.trouble import Between, kinds_of
from tests.runtime.world import (
    World,
    everywhere,
    slots_of,
    step_of,
    steps_of,
    until,
    until_step,
    until_true,
)

SEED = 20_240_917  #: of every random order here
MAIN = threading.main_thread()
SIBLINGS = 64
PROCESSES = 6
ACT = acting()
ON_LOOP = one_step(acting("shop.loop"), name="shop.loop")
IN_THREAD = one_step(acting_in_thread("shop.thread"), name="shop.thread")


def nodes_of(flow: Workflow[Any, Any]) -> list[str]:
    """The steps of a workflow that call a tool."""
    return [node.id for node in flow.definition.nodes if isinstance(node, ToolNode)]


class Busy:
    """How many bodies are inside at once, and the most that ever were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1


# --- many runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty_world", ["memory"], indirect=True)
async def test_five_hundred_runs_finish_with_four_slots_and_two_threads(world: World) -> None:
    """Case D10: more runs than slots, tools of both kinds; starting up waits for none of them."""
    runs = 500
    all_calls, threads = Busy(), Busy()

    async def on_loop(call: Call) -> str:
        with all_calls:
            await asyncio.sleep(0)
        return "done"

    def in_thread(call: Call) -> str:
        with all_calls, threads:
            return "done"

    before = await world.elsewhere(ON_LOOP, IN_THREAD)
    flows = (ON_LOOP, IN_THREAD)
    await asyncio.gather(*(before.submit(flows[n % 2], "o", key=f"o-{n}") for n in range(runs)))

    def body(call: Call) -> object:
        return in_thread(call) if threading.current_thread() is not MAIN else on_loop(call)

    LEDGER.does("act", body)
    engine = await world.engine(*flows, calls_max=4, threads_max=2)
    assert not LEDGER.entered, "nothing is begun by starting up"
    swept = await engine.run_once(limit=runs)
    assert len(swept.advanced) == len(set(LEDGER.entered)) == runs
    assert all_calls.most <= 4
    assert threads.most <= 2
    ends = [(await engine.inspect(run_id)).status for run_id in swept.advanced]
    assert Counter(ends) == {"succeeded": runs}


# --- many siblings --------------------------------------------------------------------------------


@workflow("shop.uneven", version="1")
def uneven(flow: Flow, order: str) -> str:
    """A fast step with one after it, beside a slow one."""
    fast = flow.tool("fast", ACT.on(order))
    after = flow.tool("after", ACT.on(fast.output))
    slow = flow.tool("slow", ACT.on(order))
    return flow.tool("last", ACT.on(slow.output), after=[after]).output


@everywhere
async def test_a_fast_steps_end_begins_what_follows_and_not_its_slow_sibling_again(
    world: World,
) -> None:
    """Case A8."""
    done = asyncio.Event()
    LEDGER.does("slow", waiting_for(done))
    engine, elsewhere = await world.engine(uneven), await world.elsewhere(uneven)
    run = await engine.submit(uneven, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("slow"))
    await until_step(engine, run.id, "after", "succeeded")
    for each in (elsewhere, engine):
        await each.run_once()
    assert LEDGER.of("last") == []
    done.set()
    assert (await driving).status == "succeeded"
    assert Counter(LEDGER.entered) == {f"{run.id}/step:{n}": 1 for n in nodes_of(uneven)}


async def test_siblings_that_end_in_any_order_are_each_called_once(world: World) -> None:
    """Case A8: the run advances many times while others are in a call."""
    flow, nodes = side_by_side(ACT, SIBLINGS), [f"s{n + 1}" for n in range(SIBLINGS)]
    ends = {node: asyncio.Event() for node in nodes}
    for node, end in ends.items():
        LEDGER.does(node, waiting_for(end, node))
    engine, elsewhere = await world.engine(flow), await world.elsewhere(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    for node in nodes:
        await until(LEDGER.began(node))
    chance = random.Random(SEED)
    chance.shuffle(nodes)
    left = iter(nodes)
    while group := list(islice(left, chance.randint(1, 16))):
        for node in group:
            ends[node].set()
        await until_step(engine, run.id, group[-1], "succeeded")
        await elsewhere.run_once()
    seen = await driving
    assert (seen.status, len(LEDGER.entered)) == ("succeeded", SIBLINGS)
    assert seen.output == [f"s{n + 1}" for n in range(SIBLINGS)]


async def test_siblings_that_end_at_once_share_their_commits(world: World) -> None:
    flow = side_by_side(ACT, SIBLINGS)
    end = asyncio.Event()
    for number in range(SIBLINGS):
        LEDGER.does(f"s{number + 1}", waiting_for(end))
    store = Between(await world.store())
    engine = await world.engine(flow, store=store)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    for number in range(SIBLINGS):
        await until(LEDGER.began(f"s{number + 1}"))
    begun = len(store.sent)
    assert begun <= 4, "and so they begin"
    end.set()
    assert (await driving).status == "succeeded"
    assert len(store.sent) - begun <= 8, "not two commits for each of the sixty-four"


@everywhere
async def test_steps_that_begin_at_once_never_spend_more_than_there_is(world: World) -> None:
    """Case O6: ten steps of 30 and a budget of 100, driven by several processes."""
    flow = side_by_side(acting(cost_micros=30), 10)
    policy = policy_for(flow, budget_micros=100)
    engines = [await world.elsewhere(flow, policy=policy) for _ in range(3)]
    run = await engines[0].submit(flow, "o-1", key="o-1")
    await asyncio.gather(*(each.run_until_settled(run.id) for each in engines))
    seen = await settled(engines[0], run.id)
    budget = seen.budget
    assert (budget.spent_micros, budget.reserved_micros, budget.overrun_micros) == (90, 0, 0)
    ends = Counter((str(s.status), s.code) for n, s in seen.steps.items() if n != "all")
    assert ends == {("succeeded", None): 3, ("blocked", Code.BUDGET_EXCEEDED): 7}


async def settled(engine: Engine, run_id: RunId) -> Snapshot:
    """The run at its end, whoever has its last call in hand."""

    async def ended() -> bool:
        return (await engine.run_until_settled(run_id)).settled

    await until_true(ended)
    return await engine.inspect(run_id)


# --- nothing that waits delays what is done -------------------------------------------------------


async def test_a_step_that_ended_is_stored_at_once_however_long_the_next_ones_tool_is_full(
    world: World,
) -> None:
    """Longer than its own deadline: it is nobody's to settle any more."""
    flow = two_steps(acting("shop.first"), acting("shop.then", concurrency=1))
    done = asyncio.Event()
    LEDGER.does("then", waiting_for(done))
    engine, elsewhere = await world.engine(flow), await world.elsewhere(flow)
    full = await engine.submit(flow, "o-1", key="o-1")
    blocked = await engine.submit(flow, "o-2", key="o-2")
    driving = [asyncio.create_task(engine.run_until_settled(full.id))]
    await until(LEDGER.began("then"))
    driving.append(asyncio.create_task(engine.run_until_settled(blocked.id)))
    await until_step(elsewhere, blocked.id, "first", "succeeded")
    world.clock.advance(3600)
    seen = await elsewhere.inspect(blocked.id)
    assert (seen.status, steps_of(seen)) == ("running", {"first": "succeeded", "then": "pending"})
    done.set()
    assert [(await each).status for each in driving] == ["succeeded"] * 2


async def test_the_cost_of_a_step_does_not_grow_with_its_run(world: World) -> None:
    """What a commit holds in a chain of 128 steps is the same at its end as at its beginning."""
    flow = chain_of(ACT, 128)
    store = Between(await world.store())
    engine = await world.engine(flow, store=store)
    run = await engine.submit(flow, "o-1", key="o-1")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    for kind in ("completion", "receipt"):
        # Between the names of two digits and those of three lies a byte.
        first, last = (_sent(store, kind, range(*bounds)) for bounds in ((20, 30), (80, 90)))
        assert len(first) == len(last) == 10
        assert {_cost(write) for write in first} == {_cost(write) for write in last}
        assert max(len(write.touched) for write in last) <= 2
    assert len(store.sent) <= 2 * 128 + 2


def _sent(store: Between, kind: str, numbers: range) -> list[RunWrite]:
    wanted = {f"s{number}" for number in numbers}
    return [w for w in store.sent if kind in kinds_of(w) and w.touched[0] in wanted]


def _cost(write: RunWrite) -> tuple[int, int, int]:
    return (
        len(write.touched),
        len(write.entries),
        sum(len(name) + len(body) for name, body in write.payloads),
    )


# --- many processes -------------------------------------------------------------------------------


@everywhere
async def test_processes_that_drive_the_same_runs_make_each_call_once(world: World) -> None:
    """Six of them, each with its own store and its own calls in hand; nobody errs but by losing."""
    flows: list[Workflow[str, Any]] = [side_by_side(ACT, 4), two_steps(ACT), uneven]
    engines = [await world.elsewhere(*flows) for _ in range(PROCESSES)]
    chance = random.Random(SEED)

    async def unhurried(call: Call) -> str:
        for _ in range(chance.randint(0, 3)):
            await asyncio.sleep(0)
        return "done"

    for node in {node for flow in flows for node in nodes_of(flow)}:
        LEDGER.does(node, unhurried)
    runs: list[RunId] = []
    for n in range(9):
        flow: Workflow[str, Any] = flows[n % 3]
        runs.append((await engines[n % PROCESSES].submit(flow, "o", key=f"o-{n}")).id)

    codes: list[Code] = []

    async def drive(engine: Engine, run_id: RunId) -> None:
        try:
            await engine.run_until_settled(run_id)
        except MayuraError as error:
            codes.append(error.code)

    driven = [(engine, run_id) for engine in engines for run_id in runs]
    chance.shuffle(driven)
    await asyncio.gather(*(drive(*each) for each in driven), *(e.run_once() for e in engines))
    assert set(codes) <= {Code.CONFLICT}
    for run_id in runs:
        assert (await settled(chance.choice(engines), run_id)).status == "succeeded"
    calls = sum(len(nodes_of(flows[n % 3])) for n in range(9))
    assert len(LEDGER.entered) == len(set(LEDGER.entered)) == calls


# --- afterwards -----------------------------------------------------------------------------------

ENGINE_SIDE = frozenset(
    f"mayura.runtime.{name}"
    for name in ("admission", "call", "dispatch", "draft", "driver", "invoke", "run_writer")
)


def leftovers() -> Counter[str]:
    """Every object of a run in hand that something still refers to."""
    gc.collect()
    kinds = (type(thing) for thing in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if kind.__module__ in ENGINE_SIDE)


@pytest.mark.parametrize("empty_world", ["memory"], indirect=True)
async def test_nothing_of_two_hundred_runs_is_left_in_their_engine(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case M2: registries return to base, whatever became of the runs."""
    engine = await world.engine(uneven, ON_LOOP, IN_THREAD)
    bodies: list[Callable[[], Body]] = [
        lambda: lambda call: "x" * 10_000,
        lambda: raising(ValueError("x" * 10_000)),
        refusing,
    ]
    monkeypatch.setattr(logging.getLogger("mayura.tool"), "disabled", True)  # it keeps tracebacks
    tasks, before = len(asyncio.all_tasks()), leftovers()
    for number in range(200):
        flow = (uneven, ON_LOOP, IN_THREAD)[number % 3]
        body = bodies[number % 5] if number % 5 < 3 else bodies[0]
        for node in nodes_of(flow):
            LEDGER.does(node, body())
        run = await engine.submit(flow, "o" * 1_000, key=f"o-{number}")
        if number % 7 == 0:
            await engine.cancel(run.id, by="ops")
        seen = await engine.run_until_settled(run.id)
        assert await engine.result(run.id) == seen
    LEDGER.calls.clear()
    await asyncio.sleep(0)  # what has ended is forgotten in the next turn of the loop
    assert len(asyncio.all_tasks()) == tasks
    assert leftovers() == before
    assert (len(engine._drivers), len(world.process)) == (0, 0)
    assert not engine._process.background
    assert not engine._drivers._settled
    used = slots_of(engine).statistics()
    assert (used.calls, used.threads, used.waiting) == (0, 0, 0)


async def test_nothing_is_left_of_a_body_that_outlived_its_timeout(world: World) -> None:
    """Case M2: a timeout adds nothing that stays, once its body has ended."""
    flow = one_step(acting_in_thread(timeout=0.01))
    engine = await world.engine(flow)
    before, end = leftovers(), threading.Event()

    def lingers(call: Call) -> str:
        assert end.wait(10)
        return "late"

    LEDGER.does("act", lingers)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, slots_of(engine).statistics().threads) == ("outcome_unknown", 1)
    end.set()
    await engine.drain()
    assert step_of(await engine.inspect(run.id)).receipt == "succeeded"
    LEDGER.calls.clear()
    assert leftovers() == before
    assert slots_of(engine).statistics().threads == 0
