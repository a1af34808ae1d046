"""Guards: what they see, what they stop, and that they fail closed."""

from __future__ import annotations

import asyncio
import threading
from typing import Literal

import pytest

from mayura.runtime import Code, Guard, Tool
from mayura.runtime.guarding import GUARD_THREADS_MAX
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    policy_for,
    side_by_side,
    two_steps,
)
from tests.runtime.world import World, step_of, steps_of, until, until_step

COST = 10


def guarded(boundary: Literal["input", "output"], guard: Guard, number: int) -> Tool[[str], str]:
    name = f"shop.guarded.{number}"
    if boundary == "input":
        return acting(name, cost_micros=COST, input_guards=[guard])
    return acting(name, cost_micros=COST, output_guards=[guard])


async def _hang(value: object, about: object) -> bool:
    await asyncio.Event().wait()
    return True


async def _cling(value: object, about: object) -> bool:
    """Goes on, however often it is stopped."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()
    return True


async def _yes(value: object, about: object) -> bool:
    return True


def _raise(error: BaseException) -> Guard:
    def check(value: object, about: object) -> bool:
        raise error

    return Guard("raising", "1", check)


GUARDS: list[tuple[str, Guard, Code | None]] = [
    ("yes", Guard("yes", "1", lambda value, about: True), None),
    ("async yes", Guard("yes", "1", _yes), None),
    ("no", Guard("no", "1", lambda value, about: False), Code.GUARD_BLOCKED),
    ("rewrites", Guard("other", "1", lambda value, about: "x"), Code.GUARD_BLOCKED),  # type: ignore[arg-type,return-value]
    ("raises", _raise(ValueError("card 4711")), Code.GUARD_UNAVAILABLE),
    ("exits", _raise(SystemExit(1)), Code.GUARD_UNAVAILABLE),
    ("is cancelled", _raise(asyncio.CancelledError()), Code.GUARD_UNAVAILABLE),
    ("hangs", Guard("hanging", "1", _hang), Code.GUARD_UNAVAILABLE),
    ("clings", Guard("clinging", "1", _cling), Code.GUARD_UNAVAILABLE),
]


@pytest.mark.parametrize("boundary", ["input", "output"])
async def test_a_guard_allows_or_blocks_and_fails_closed(
    world: World, monkeypatch: pytest.MonkeyPatch, boundary: Literal["input", "output"]
) -> None:
    monkeypatch.setattr("mayura.runtime.guarding.GUARD_TIME_S_MAX", 0.02)
    flows = {
        what: one_step(guarded(boundary, guard, number), name=f"shop.g{number}")
        for number, (what, guard, _) in enumerate(GUARDS)
    }
    engine = await world.engine(*flows.values(), policy=policy_for(*flows.values()))
    for what, _, code in GUARDS:
        run = await engine.submit(flows[what], "o-1", key=what)
        seen = await engine.run_until_settled(run.id)
        step = step_of(seen)
        found = (what, str(step.status), step.code, step.acted, step.receipt)
        if code is None:
            assert found == (what, "succeeded", None, "yes", "succeeded")
        elif boundary == "input":
            assert found == (what, "blocked", code, "no", None)
            assert seen.budget.spent_micros == 0
        else:
            # The effect happened, its output is withheld.
            assert found == (what, "blocked", code, "yes", "succeeded")
            assert seen.budget.spent_micros == COST
            assert step_of(await engine.inspect(run.id, outputs=True)).output is None
    allowed = sum(code is None for _, _, code in GUARDS)
    assert len(LEDGER.entered) == (allowed if boundary == "input" else len(GUARDS))


async def test_a_no_weighs_more_than_a_guard_that_did_not_answer(world: World) -> None:
    no = Guard("no", "1", lambda value, about: False)
    flow = one_step(acting(input_guards=[_raise(ValueError()), no]))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    assert step_of(await engine.run_until_settled(run.id)).code is Code.GUARD_BLOCKED


async def test_a_guard_sees_the_stored_value_and_which_call_it_is_about(world: World) -> None:
    seen: list[tuple[object, str, str]] = []

    def look(value: object, about: object) -> bool:
        seen.append(
            (value, str(getattr(about, "call_id", "")), str(getattr(about, "boundary", "")))
        )
        return True

    guard = Guard("looking", "1", look)
    flow = one_step(acting(input_guards=[guard], output_guards=[guard]))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    call = f"{run.id}/step:act"
    assert seen == [({"order": "o-1"}, call, "input"), ("act", call, "output")]


@pytest.mark.parametrize("boundary", ["input", "output"])
async def test_a_plain_guard_does_not_stop_the_loop(
    world: World, boundary: Literal["input", "output"]
) -> None:
    asked, goes_on = threading.Event(), threading.Event()

    def wait(value: object, about: object) -> bool:
        asked.set()
        return goes_on.wait(4)  # less than a guard's time: on the loop it would say no

    flow = one_step(guarded(boundary, Guard("waiting", "1", wait), 0))
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    assert await asyncio.to_thread(asked.wait, 10)
    assert not (await engine.inspect(run.id)).settled
    goes_on.set()
    assert (await driving).status == "succeeded"


async def test_plain_guards_beyond_the_threads_wait_for_one(world: World) -> None:
    flow = side_by_side(acting(input_guards=[Guard("plain", "1", lambda value, about: True)]), 60)
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    guards = [t for t in threading.enumerate() if t.name.startswith("mayura guard ")]
    assert 0 < len(guards) <= GUARD_THREADS_MAX
    assert all(thread.daemon for thread in guards)


async def test_a_slow_guard_holds_up_its_own_step_only(world: World) -> None:
    """G3: what waits comes before the dispatch commit, and no sibling waits for it."""
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slowly(value: object, about: object) -> bool:
        asked.set()
        await answer.wait()
        return True

    flow = two_steps(
        acting("shop.quick"), acting("shop.slow", input_guards=[Guard("slow", "1", slowly)])
    )
    engine = await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(asked)
    await until_step(engine, run.id, "first", "succeeded")
    seen = await engine.inspect(run.id)
    assert steps_of(seen) == {"first": "succeeded", "then": "pending"}
    assert seen.status == "running"
    answer.set()
    assert (await driving).status == "succeeded"
