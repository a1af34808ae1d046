"""Values: whatever a tool returns or raises, its step settles, and what is stored can be read."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from uuid import UUID

import pytest
from pydantic import BaseModel

from mayura.runtime import Call, Code, Flow, Snapshot, Tool, Workflow, tool, workflow
from mayura.runtime.core.definition import Effects
from mayura.runtime.core.values import VALUE_BYTES_MAX
from tests.runtime.shop import LEDGER, acting, acting_in_thread, one_step, raising
from tests.runtime.world import World, everywhere, step_of, steps_of

SECRET = "card 4711 0815"


class Opaque:
    """Nothing can make JSON of it, and it says so in the worst way."""

    def __repr__(self) -> str:
        raise RuntimeError(SECRET)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError(SECRET)

    __hash__ = None  # type: ignore[assignment]


def endless() -> object:
    value: list[object] = []
    value.append(value)
    return value


def anything(effects: Effects) -> Tool[[str], object]:
    """A tool whose output may be any JSON at all."""

    @tool("shop.anything", version="1", effects=effects)
    async def act(call: Call, order: str) -> object:
        return LEDGER.perform(call, order)

    return act


def returning(effects: Effects) -> Workflow[str, object]:
    @workflow("shop.any", version="1")
    def flow(flow: Flow, order: str) -> object:
        return flow.tool("act", anything(effects).on(order)).output

    return flow


STORABLE: list[object] = [
    None,
    [],
    {},
    "",
    0,
    False,
    "plain",
    "\\u0000",
    "\\\\u0000",
    "01a22e6a-dc6d-766a-9a2d-6d791c80b359",
    {"": {"__proto__": [1.5, -1e-7]}},
    2**53 - 1,
    "😀\u2028",
]
UNSTORABLE: list[object] = [
    "a\0b",
    {"a\0b": 1},
    "\ud800",
    math.nan,
    math.inf,
    {"metric": -math.inf},
    float("1e400"),
    2**53,
    b"bytes",
    {1: "a key that is no text"},
    object(),
    Opaque(),
    endless(),
    lambda: None,
]


async def test_what_json_can_hold_comes_back_as_it_was(world: World) -> None:
    """Cases B8 and F2: null, [], text that looks like an escape."""
    flow = returning("write")
    engine, elsewhere = await world.engine(flow), await world.elsewhere(flow)
    for number, value in enumerate(STORABLE):
        LEDGER.does("act", lambda call: value)  # noqa: B023 - called within this round
        run = await engine.submit(flow, "o-1", key=f"o-{number}")
        await engine.run_until_settled(run.id)
        seen = await elsewhere.inspect(run.id, outputs=True)
        assert (seen.status, seen.output) == ("succeeded", value)
        assert step_of(seen).output == value


@pytest.mark.parametrize("effects", ["read", "write"])
async def test_what_cannot_be_stored_settles_its_step_and_keeps_the_evidence(
    world: World, effects: Effects
) -> None:
    """Cases B8 and F4: the receipt is kept, the reason stored, and the run ends."""
    flow = returning(effects)
    engine = await world.engine(flow)
    for number, value in enumerate(UNSTORABLE):
        LEDGER.does("act", lambda call: value)  # noqa: B023 - called within this round
        run = await engine.submit(flow, "o-1", key=f"o-{number}")
        step = step_of(await engine.run_until_settled(run.id))
        found = (number, str(step.status), step.acted)
        assert found == (number, *(("failed", "no") if effects == "read" else ("blocked", "yes")))
        assert (step.code, step.receipt) == (Code.INVALID_OUTPUT, "succeeded")
    assert SECRET not in await world.place.dump()


async def test_minus_zero_is_zero(world: World) -> None:
    """Case F4."""
    flow = returning("read")
    LEDGER.does("act", lambda call: -0.0)
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert math.copysign(1, float(str(seen.output))) == 1


@pytest.mark.parametrize("effects", ["read", "write"])
async def test_an_output_above_the_limit_is_withheld(world: World, effects: Effects) -> None:
    """Two mebibytes where one is allowed."""
    flow = one_step(acting(effects=effects))
    LEDGER.does("act", lambda call: "x" * (2 * VALUE_BYTES_MAX))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    step = step_of(await engine.run_until_settled(run.id))
    ends = "failed" if effects == "read" else "blocked"
    assert (step.status, step.code, step.receipt) == (ends, Code.LIMIT_EXCEEDED, "succeeded")


async def test_the_largest_output_is_carried_to_the_next_step(world: World) -> None:
    flow = one_step(acting(effects="read"))
    largest = "x" * (VALUE_BYTES_MAX - 2)
    LEDGER.does("act", lambda call: largest)
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    assert (await engine.run_until_settled(run.id)).output == largest


async def test_a_cancel_works_while_an_output_that_cannot_be_stored_is_on_its_way(
    world: World,
) -> None:
    """Case B8: before, during and after."""
    for when in ("before", "during", "after"):
        go_on, entered = asyncio.Event(), asyncio.Event()

        async def body(on: asyncio.Event = go_on, at: asyncio.Event = entered) -> object:
            at.set()
            await on.wait()
            return "a\0b"

        LEDGER.does("act", lambda call: body())
        engine = await world.engine(_awaiting)
        run = await engine.submit(_awaiting, "o-1", key=when)
        if when == "before":
            await engine.cancel(run.id, by="ops")
            assert (await engine.run_until_settled(run.id)).status == "cancelled"
            continue
        driving = asyncio.create_task(engine.run_until_settled(run.id))
        await asyncio.wait_for(entered.wait(), 10)
        if when == "during":
            await engine.cancel(run.id, by="ops")
        go_on.set()
        seen = await driving
        assert seen.status == ("cancelled" if when == "during" else "blocked")
        assert (step_of(seen).status, seen.acted) == ("blocked", "yes")


@tool("shop.awaiting", version="1", effects="write")
async def _awaits(call: Call, order: str) -> object:
    done = LEDGER.perform(call, order)
    assert asyncio.iscoroutine(done)
    return await done


@workflow("shop.awaits", version="1")
def _awaiting(flow: Flow, order: str) -> object:
    return flow.tool("act", _awaits.on(order)).output


# --- types ----------------------------------------------------------------------------------------


class Colour(Enum):
    """Nested enums come back as themselves."""

    RED = "red"


class Everything(BaseModel):
    """What a model may hold."""

    colour: Colour
    price: Decimal
    raw: bytes
    at: datetime
    day: date
    id: UUID
    pair: tuple[int, str]
    tags: frozenset[str]
    by_number: dict[int, str]


async def test_the_values_of_a_model_come_back_equal_in_another_process(world: World) -> None:
    """Case F8."""

    @tool("shop.everything", version="1", effects="read")
    async def everything(call: Call, order: str) -> Everything:
        LEDGER.perform(call, order)
        return VALUE

    @tool("shop.compare", version="1", effects="read")
    async def compare(call: Call, value: Everything) -> bool:
        LEDGER.perform(call, value)
        return value == VALUE

    @workflow("shop.types", version="1")
    def types(flow: Flow, order: str) -> bool:
        made = flow.tool("make", everything.on(order))
        asked = flow.signal("go", bool, after=[made])
        return flow.tool("compare", compare.on(made.output), after=[asked]).output

    first = await world.engine(types)
    run = await first.submit(types, "o-1", key="o-1")
    await first.run_until_settled(run.id)
    second = await world.elsewhere(types)
    await second.signal(run.id, "go", "s-1", True)
    assert (await second.run_until_settled(run.id)).output is True


VALUE = Everything(
    colour=Colour.RED,
    price=Decimal("10.10"),
    raw=b"raw",
    at=datetime(2026, 3, 29, 2, 30, tzinfo=UTC),
    day=date(2026, 2, 28),
    id=UUID(int=7),
    pair=(1, "two"),
    tags=frozenset({"b", "a"}),
    by_number={1: "one"},
)


async def test_an_output_of_another_type_is_withheld(world: World) -> None:
    flow = one_step(acting())
    engine = await world.engine(flow)
    for number, returned in enumerate((42, None, ["act"], b"act", object())):
        LEDGER.does("act", lambda call: returned)  # noqa: B023 - called within this round
        run = await engine.submit(flow, "o-1", key=f"o-{number}")
        step = step_of(await engine.run_until_settled(run.id))
        found = (number, str(step.status), step.code)
        assert found == (number, "blocked", Code.INVALID_OUTPUT)


# --- what is raised -------------------------------------------------------------------------------


class Picky(Exception):
    """Its constructor wants more than a message, and it cannot be shown."""

    def __init__(self, *, order: str, amount: int) -> None:
        super().__init__(order, amount)
        self.order, self.amount = order, amount

    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


def nested() -> BaseException:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as first:
            raise ValueError(SECRET) from first
    except ValueError as second:
        return second


RAISED: dict[str, BaseException] = {
    "text": ValueError(SECRET),
    "keywords": Picky(order=SECRET, amount=1),
    "ten megabytes": ValueError(SECRET * 700_000),
    "group": ExceptionGroup(SECRET, [ValueError(SECRET), Picky(order=SECRET, amount=1)]),
    "nested": nested(),
    "KeyboardInterrupt": KeyboardInterrupt(SECRET),
    "SystemExit": SystemExit(SECRET),
    "GeneratorExit": GeneratorExit(SECRET),
    "StopIteration": StopIteration(SECRET),
    "base group": BaseExceptionGroup(SECRET, [KeyboardInterrupt(SECRET)]),
    "memory": MemoryError(SECRET),
    "recursion": RecursionError(SECRET),
}


@pytest.mark.parametrize("kind", ["on the loop", "in a thread"])
async def test_whatever_is_raised_settles_the_step_and_none_of_its_text_is_stored(
    world: World, kind: str
) -> None:
    """Case F6: the cause is stored, and nothing that could name what went wrong in whose words."""
    make = acting if kind == "on the loop" else acting_in_thread
    both = _look_then_act(make(effects="read"), make("shop.write"))
    engine = await world.engine(both)
    for name, error in RAISED.items():
        LEDGER.does("look", raising(error))
        LEDGER.does("act", raising(error))
        run = await engine.submit(both, "o-1", key=name)
        seen = await engine.run_until_settled(run.id)
        assert (name, steps_of(seen)) == (name, {"look": "failed", "act": "unknown"})
        assert {step_of(seen, node).cause for node in ("look", "act")} == {"exception"}
        assert SECRET not in repr(await engine.events(run.id))
    assert SECRET not in await world.place.dump()


def _look_then_act(look: Tool[[str], str], act: Tool[[str], str]) -> Workflow[str, str]:
    @workflow("shop.both", version="1")
    def both(flow: Flow, order: str) -> str:
        flow.tool("look", look.on(order))
        return flow.tool("act", act.on(order)).output

    return both


@everywhere
async def test_a_failed_run_can_always_be_read(world: World) -> None:
    """Case F6, on every store."""
    flow = one_step(acting())
    LEDGER.does("act", raising(Picky(order="o", amount=1)))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    first: Snapshot = await engine.run_until_settled(run.id)
    again = await (await world.elsewhere(flow)).inspect(run.id, outputs=True)
    assert again == first
    assert [e.type for e in await engine.events(run.id)][-1] == "run.settled"
