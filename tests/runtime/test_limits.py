"""Limits: how large a run may be, that a step costs the same in a large one, and its money."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from mayura.runtime import Call, Code, Flow, MayuraError, Workflow, tool, workflow
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.ports import RunWrite, Store, WriteAnswer
from tests.runtime.shop import (
    LEDGER,
    acting,
    chain_of,
    one_step,
    policy_for,
    raising,
    refusing,
    reporting,
    side_by_side,
)
from tests.runtime.world import World, everywhere, refused, step_of, steps_of

ACT = acting()
READ = acting("shop.look", effects="read")
COSTLY = acting("shop.costly", cost_micros=30)


@pytest.mark.parametrize("size", [9, 10, 11, 100, 128])
async def test_a_chain_of_any_size_runs_to_its_end(world: World, size: int) -> None:
    """Case B16: a bounded number of commits, three for each write step."""
    chain = chain_of(ACT, size)
    engine = await world.engine(chain)
    run = await engine.submit(chain, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, len(LEDGER.entered)) == ("succeeded", size)
    assert seen.revision <= 2 + 2 * size


def test_a_definition_beyond_a_limit_is_refused_by_name() -> None:
    def nodes(flow: Flow, order: str) -> str:
        steps = [flow.tool(f"s{n}", ACT.on(order)) for n in range(129)]
        return steps[0].output

    def humans(flow: Flow, order: str) -> str:
        steps = [flow.human(f"s{n}", str, prompt="?") for n in range(33)]
        return steps[0].output

    def signals(flow: Flow, order: str) -> str:
        steps = [flow.signal(f"s{n}", str) for n in range(65)]
        return steps[0].output

    def prompt(flow: Flow, order: str) -> str:
        return flow.human("ask", str, prompt="é" * 513).output

    for trace, limit in ((nodes, "128"), (humans, "32"), (signals, "64"), (prompt, "1024")):
        with pytest.raises(DefinitionError) as caught:
            workflow("shop.too.large", version="1")(trace)
        assert caught.value.code is Code.LIMIT_EXCEEDED
        assert limit in str(caught.value).replace(",", "")


# --- what follows from a step that did not succeed -----------------------------------------------


def diamond() -> Workflow[str, list[str]]:
    """`top`, then `left` and `right`, then their join and what follows it."""

    @workflow("shop.diamond", version="1")
    def flows(flow: Flow, order: str) -> list[str]:
        top = flow.tool("top", READ.on(order))
        left = flow.tool("left", ACT.on(top.output))
        right = flow.tool("right", READ.on(top.output))
        both = flow.join("both", [left, right])
        flow.tool("after", READ.on(right.output), after=[both])
        return both.output

    return flows


@pytest.mark.parametrize(
    ("body", "left", "run"),
    [
        (refusing(), "failed", "failed"),
        (raising(ValueError()), "unknown", "outcome_unknown"),
        (lambda call: 42, "blocked", "blocked"),
        (lambda call: "fine", "succeeded", "succeeded"),
    ],
    ids=["failed", "unknown", "blocked", "succeeded"],
)
async def test_a_join_never_waits_for_a_branch_that_ended(
    world: World, body: object, left: str, run: str
) -> None:
    """Case B16: what depends on it is skipped, what does not runs to its end."""
    LEDGER.does("left", body)  # type: ignore[arg-type]
    flow = diamond()
    engine = await world.engine(flow)
    submitted = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(submitted.id)
    rest = "succeeded" if left == "succeeded" else "skipped"
    assert steps_of(seen) == {
        "top": "succeeded",
        "left": left,
        "right": "succeeded",
        "both": rest,
        "after": rest,
    }
    assert seen.status == run
    assert seen.revision <= 10


async def test_a_bypassed_branch_reads_as_null_and_its_dependents_go_on(world: World) -> None:
    @tool("shop.maybe", version="1", effects="none")
    async def describe(call: Call, found: str | None) -> str:
        LEDGER.perform(call, found)
        return "none" if found is None else found

    @workflow("shop.optional", version="1")
    def optional(flow: Flow, order: list[bool | None]) -> list[str | None]:
        zero = flow.tool("zero", ACT.on("0"), when=order[0])
        one = flow.tool("one", ACT.on("1"), when=order[1])
        gone = flow.tool("gone", ACT.on("2"), when=order[2])
        flow.tool("say", describe.on(zero.output))
        return flow.join("all", [zero, one, gone]).output

    engine = await world.engine(optional)
    run = await engine.submit(optional, [False, True, None], key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert steps_of(seen) == {
        "zero": "bypassed", "one": "succeeded", "gone": "bypassed", "say": "succeeded",
        "all": "succeeded",
    }  # fmt: skip
    assert seen.output == [None, "one", None]
    assert (LEDGER.inputs["say"], seen.budget.spent_micros) == (None, 0)


@pytest.mark.parametrize(("items", "ends"), [(0, "succeeded"), (3, "succeeded"), (4, "failed")])
async def test_a_fan_out_calls_a_tool_for_each_item_up_to_its_maximum(
    world: World, items: int, ends: str
) -> None:
    @workflow("shop.each", version="1")
    def each(flow: Flow, orders: list[str]) -> list[str | None]:
        return flow.fan_out("ship", ACT, orders, max=3).output

    engine = await world.engine(each)
    run = await engine.submit(each, [f"o-{n}" for n in range(items)], key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert seen.status == ends
    if ends == "failed":
        assert step_of(seen, "ship.1").code is Code.LIMIT_EXCEEDED
        assert not LEDGER.entered, "nothing vanishes, and nothing acts"
    else:
        done = [f"ship.{n + 1}" for n in range(items)]
        assert seen.output == [*done, *[None] * (3 - items)]
        assert seen.budget.spent_micros == 0


# --- what a step costs the store -----------------------------------------------------------------


class Counting:
    """A store that notes what every write carries."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.writes: list[RunWrite] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def write(self, write: RunWrite) -> WriteAnswer:
        self.writes.append(write)
        return await self._inner.write(write)


async def test_a_step_costs_the_same_rows_and_bytes_in_a_large_run(world: World) -> None:
    """A transition writes what it changed and nothing more (model, Storage)."""
    sizes: list[list[tuple[int, int, int]]] = []
    for size in (8, 128):
        counting = Counting(await world.store())
        chain = chain_of(ACT, size, name=f"shop.chain.{size}")
        engine = await world.engine(chain, store=counting)  # type: ignore[arg-type]
        run = await engine.submit(chain, "o-1", key=f"of-{size}")
        await engine.run_until_settled(run.id)
        sizes.append(
            [
                (
                    len(write.touched),
                    sum(len(body) for _, body in write.payloads),
                    len(write.entries) // 100,
                )
                for write in counting.writes
            ]
        )
    small, large = sizes
    assert len(small) == 1 + 2 * 8, "a dispatch, then a receipt and a completion for each"
    assert len(large) == 1 + 2 * 128
    assert max(large) <= max(small)
    assert max(touched for touched, _, _ in large) == 2, "the step that ended and the one begun"


# --- money ---------------------------------------------------------------------------------------


@everywhere
async def test_parallel_steps_cannot_overspend_the_budget(world: World) -> None:
    """Case O6: budget 100, ten steps of 30, several processes: three run, seven are blocked."""
    flow = side_by_side(COSTLY, 10)
    policy = policy_for(flow, budget_micros=100)
    engines = [await world.engine(flow, policy=policy)]
    engines += [await world.elsewhere(flow, policy=policy) for _ in range(2)]
    run = await engines[0].submit(flow, "o-1", key="o-1")
    await asyncio.gather(*(engine.run_until_settled(run.id) for engine in engines))
    seen = await engines[0].result(run.id, timeout=20)
    ends = [str(seen.steps[name].status) for name in seen.steps if name != "all"]
    assert (ends.count("succeeded"), ends.count("blocked")) == (3, 7)
    assert len(LEDGER.entered) == 3
    assert (seen.budget.spent_micros, seen.budget.reserved_micros) == (90, 0)


async def test_a_released_reservation_is_free_for_the_next_step(world: World) -> None:
    @workflow("shop.again", version="1")
    def again(flow: Flow, order: str) -> str:
        first = flow.tool("first", COSTLY.on(order))
        return flow.tool("then", COSTLY.on(first.output)).output

    LEDGER.does("first", reporting(1))
    engine = await world.engine(again, policy=policy_for(again, budget_micros=31))
    run = await engine.submit(again, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.budget.spent_micros) == ("succeeded", 31)


async def test_the_reservation_of_an_unknown_step_stays(world: World) -> None:
    flow = one_step(COSTLY)
    LEDGER.does("act", raising(ValueError()))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.budget.spent_micros, seen.budget.reserved_micros) == (0, 30)


# --- inputs that do not fit ----------------------------------------------------------------------


@pytest.mark.parametrize("value", ["x" * 10, 7, None], ids=["long", "number", "null"])
async def test_an_input_that_does_not_fit_fails_its_step_before_anything_happens(
    world: World, value: JsonValue
) -> None:
    """Case F12: failed at once, nothing dispatched, no money, no loop."""

    @tool("shop.anything", version="1", effects="read")
    async def anything(call: Call, order: str) -> object:
        LEDGER.perform(call, order)
        return value

    @tool("shop.short", version="1", effects="write", cost_micros=1)
    async def short(call: Call, order: str, several: Sequence[int]) -> str:
        LEDGER.perform(call, order)
        return order

    @workflow("shop.untyped", version="1")
    def untyped(flow: Flow, order: str) -> str:
        found = flow.tool("look", anything.on(order))
        return flow.tool("act", short.on(order, found.output)).output  # type: ignore[arg-type]

    engine = await world.engine(untyped)
    run = await engine.submit(untyped, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    step = step_of(seen)
    assert (seen.status, step.status, step.code) == ("failed", "failed", Code.INVALID_INPUT)
    assert (step.receipt, seen.budget.spent_micros) == (None, 0)
    assert not LEDGER.of("act")


async def test_a_composed_input_above_the_limit_fails_its_step(world: World) -> None:
    @tool("shop.both", version="1", effects="write")
    async def both(call: Call, first: str, second: str) -> str:
        LEDGER.perform(call, first)
        return "both"

    @workflow("shop.composed", version="1")
    def composed(flow: Flow, order: str) -> str:
        return flow.tool("act", both.on(order, order)).output

    engine = await world.engine(composed, policy=policy_for(composed, output_bytes_max=100))
    run = await engine.submit(composed, "x" * 90, key="o-1")
    step = step_of(await engine.run_until_settled(run.id))
    assert (step.status, step.code) == ("failed", Code.LIMIT_EXCEEDED)
    assert not LEDGER.entered


async def test_a_submission_that_does_not_fit_is_refused_with_its_place(world: World) -> None:
    chain = chain_of(ACT, 2)
    engine = await world.engine(chain)
    with refused(Code.INVALID_INPUT) as caught:
        await engine.submit(cast("Workflow[object, str]", chain), 7, key="o-1")
    assert "shop.chain" in str(caught.value)
    with pytest.raises(MayuraError):
        await engine.submit(chain, "a\0b", key="o-1")
    assert await world.place.run_ids() == []
