"""What needs neither the code of a run nor its policy goes on without them (G12)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from mayura.runtime import Code, Engine, Flow, RunId, Workflow, workflow
from tests.runtime.in_hand import in_hand
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    two_steps,
)
from tests.runtime.world import World, everywhere, refused, step_of, steps_of

ACT = acting()
ONE = one_step(ACT)
TWO = two_steps(ACT)
ASKING = one_step(ACT, approval=True, name="shop.asking")
OTHER = one_step(ACT, name="shop.other")


async def entry_of(engine: Engine, flow: Workflow[str, Any], key: str = "o-1") -> RunId:
    """A run that was submitted, and not yet driven."""
    return (await engine.submit(flow, "o-1", key=key)).id


# --- what needs neither ---------------------------------------------------------------------------


class Times(BaseModel):
    """When things are due."""

    at: datetime
    order: str = "o-1"


@workflow("shop.due", version="1")
def due(flow: Flow, times: Times) -> str:
    """A timer and a signal that may be late, and what comes after the timer."""
    timer = flow.timer("timer", times.at)
    flow.signal("paid", int, deadline=times.at)
    return flow.tool("act", ACT.on(times.order), after=[timer]).output


@workflow("shop.ripe", version="1")
def ripe(flow: Flow, times: Times) -> str:
    """Ends with a timer: its last step succeeds in whatever process looks."""
    acted = flow.tool("act", ACT.on(times.order))
    flow.timer("timer", times.at, after=[acted])
    return acted.output


@workflow("shop.unpaid", version="1")
def unpaid(flow: Flow, times: Times) -> str:
    """Ends with a signal that does not come."""
    acted = flow.tool("act", ACT.on(times.order))
    flow.signal("paid", int, deadline=times.at, after=[acted])
    return acted.output


def soon(world: World) -> Times:
    return Times(at=datetime.fromisoformat(world.clock.iso(60)))


async def test_an_abandoned_call_is_settled_and_its_run_ends_without_the_code(
    world: World,
) -> None:
    theirs, stranger = await in_hand(world, TWO, node="first"), await world.engine(OTHER)
    await theirs.dies(world)
    world.clock.advance(90)
    assert (await stranger.run_once()).not_loaded == (theirs.run_id,)
    seen = await stranger.inspect(theirs.run_id)
    assert steps_of(seen) == {"first": "unknown", "then": "skipped"}
    assert (seen.status, seen.settled) == ("outcome_unknown", True)


async def test_a_dead_processs_call_is_recovered_without_the_code(world: World) -> None:
    theirs, stranger = await in_hand(world, TWO, node="first"), await world.engine(OTHER)
    await theirs.dies(world)
    await stranger.recover_abandoned(theirs.run_id, credential="key-of-bea")
    assert (await stranger.inspect(theirs.run_id)).status == "outcome_unknown"


@everywhere
async def test_a_run_is_paused_resumed_and_cancelled_without_the_code(world: World) -> None:
    ours, stranger = await world.engine(TWO), await world.elsewhere(OTHER)
    run_id = await entry_of(ours, TWO)
    await stranger.pause(run_id, by="ops")
    assert (await ours.run_until_settled(run_id)).status == "paused"
    await stranger.resume(run_id, by="ops")
    assert (await ours.run_once()).advanced == (run_id,), "it is due for those who have the code"
    other = await entry_of(ours, TWO, "o-2")
    await stranger.cancel(other, by="ops")
    seen = await stranger.inspect(other)
    assert (seen.status, steps_of(seen)) == ("cancelled", {"first": "skipped", "then": "skipped"})


async def test_a_call_in_hand_ends_also_where_somebody_without_the_code_cancelled_its_run(
    world: World,
) -> None:
    theirs, stranger = await in_hand(world, TWO, node="first"), await world.elsewhere(OTHER)
    await stranger.cancel(theirs.run_id, by="ops")
    assert steps_of(await stranger.inspect(theirs.run_id))["first"] == "dispatching"
    seen = await theirs.ends()
    assert steps_of(seen) == {"first": "succeeded", "then": "skipped"}
    assert seen.status == "cancelled"


async def test_what_is_due_happens_without_the_code_and_the_rest_waits_for_it(
    world: World,
) -> None:
    ours, stranger = await world.engine(due), await world.elsewhere(OTHER)
    run = await ours.submit(due, soon(world), key="o-1")
    assert (await ours.run_until_settled(run.id)).status == "waiting"
    world.clock.advance(60)
    for _ in range(2):
        assert (await stranger.run_once()).not_loaded == (run.id,)
        seen = await stranger.inspect(run.id)
        assert steps_of(seen) == {"timer": "succeeded", "paid": "timed_out", "act": "pending"}
        assert seen.status == "running"
    assert (await ours.run_once()).advanced == (run.id,), "it stayed due"
    assert steps_of(await ours.inspect(run.id))["act"] == "succeeded"


async def test_a_run_that_failed_ends_without_the_code_and_one_that_did_not_waits_for_it(
    world: World,
) -> None:
    """The result of a run has a type, and only the code can judge it."""
    ours, stranger = await world.engine(ripe, unpaid), await world.elsewhere(OTHER)
    good = await ours.submit(ripe, soon(world), key="good")
    bad = await ours.submit(unpaid, soon(world), key="bad")
    await ours.run_once()
    world.clock.advance(60)
    for _ in range(2):
        await stranger.run_once()
        assert (await stranger.inspect(bad.id)).status == "failed"
        seen = await stranger.inspect(good.id)
        assert (seen.status, seen.settled) == ("running", False)
        assert set(steps_of(seen).values()) == {"succeeded"}
    assert (await ours.run_once()).advanced == (good.id,)
    assert (await ours.inspect(good.id)).output == "act"


@everywhere
async def test_an_approval_is_given_where_the_code_is_not_loaded(world: World) -> None:
    ours, stranger = await world.engine(ASKING), await world.elsewhere(OTHER)
    run_id = await entry_of(ours, ASKING)
    await ours.run_until_settled(run_id)
    request = await stranger.approval_request(run_id, "act")
    assert request == await ours.approval_request(run_id, "act")
    await stranger.approve(run_id, "act", request.digest, credential="key-of-bea")
    assert not LEDGER.entered
    assert (await ours.run_once()).advanced == (run_id,)
    assert (await ours.inspect(run_id)).status == "succeeded"


# --- values that only the code can judge ----------------------------------------------------------


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("odd")
    return value


Even = Annotated[int, AfterValidator(_even)]
"""What a stored schema cannot say: to it, this is any integer."""


@workflow("shop.even", version="1")
def even(flow: Flow, order: str) -> int:
    """A question and a signal, and what follows from both."""
    kind: Any = Even
    asked = flow.human("ask", kind, prompt="How many?")
    paid = flow.signal("paid", kind)
    flow.tool("act", ACT.on(order), after=[asked, paid])
    answer: int = asked.output
    return answer


async def answered(engine: Engine, run_id: RunId, value: Any) -> None:  # noqa: ANN401
    request = await engine.human_request(run_id, "ask")
    await engine.respond(run_id, "ask", request.digest, value, credential="key-of-bea")


async def signalled(engine: Engine, run_id: RunId, value: Any) -> None:  # noqa: ANN401
    await engine.signal(run_id, "paid", "p-1", value)


WAYS = {"ask": answered, "paid": signalled}


@everywhere
async def test_a_value_is_recorded_without_the_code_and_accepted_by_the_first_advance_with_it(
    world: World,
) -> None:
    ours, stranger = await world.engine(even), await world.elsewhere(OTHER)
    run_id = await entry_of(ours, even)
    await ours.run_until_settled(run_id)
    for node, send in WAYS.items():
        await send(stranger, run_id, 2)
        seen = await stranger.inspect(run_id)
        assert steps_of(seen)[node] == "waiting", "recorded, and not yet judged"
    assert not LEDGER.entered
    assert (await ours.run_once()).advanced == (run_id,)
    seen = await ours.inspect(run_id)
    assert (seen.status, seen.output) == ("succeeded", 2)


@pytest.mark.parametrize("node", WAYS)
async def test_a_recorded_value_that_the_code_refuses_fails_its_step(
    world: World, node: str
) -> None:
    ours, stranger = await world.engine(even), await world.elsewhere(OTHER)
    run_id = await entry_of(ours, even)
    await ours.run_until_settled(run_id)
    await WAYS[node](stranger, run_id, 3)
    await ours.run_until_settled(run_id)
    step = step_of(await ours.inspect(run_id), node)
    assert (step.status, step.code, step.acted) == ("failed", Code.INVALID_INPUT, "no")
    assert not LEDGER.entered


@pytest.mark.parametrize("empty_world", ["memory"], indirect=True)
@pytest.mark.parametrize("value", ["two", 2.5, None, {"n": 2}])
@pytest.mark.parametrize("node", WAYS)
async def test_a_value_that_the_stored_schema_refuses_is_not_recorded(
    world: World, node: str, value: object
) -> None:
    ours, stranger = await world.engine(even), await world.elsewhere(OTHER)
    run_id = await entry_of(ours, even)
    before = await ours.run_until_settled(run_id)
    with refused(Code.INVALID_INPUT):
        await WAYS[node](stranger, run_id, value)
    assert await ours.inspect(run_id) == before, "and the step keeps waiting"


@pytest.mark.parametrize("node", WAYS)
async def test_where_the_code_is_loaded_it_judges_at_once(world: World, node: str) -> None:
    ours = await world.engine(even)
    run_id = await entry_of(ours, even)
    before = await ours.run_until_settled(run_id)
    with refused(Code.INVALID_INPUT):
        await WAYS[node](ours, run_id, 3)
    assert await ours.inspect(run_id) == before


async def test_a_signal_that_came_before_its_step_and_without_the_code_is_judged_by_its_step(
    world: World,
) -> None:
    ours, stranger = await world.engine(even), await world.elsewhere(OTHER)
    for key, value, status in (("good", 2, "succeeded"), ("bad", 3, "failed")):
        run_id = await entry_of(ours, even, key)
        await signalled(stranger, run_id, value)
        assert steps_of(await ours.run_until_settled(run_id))["paid"] == status


async def test_the_books_say_the_same_with_and_without_the_code(world: World) -> None:
    ours, stranger = await world.engine(even), await world.elsewhere(OTHER)
    run_id = await entry_of(ours, even)
    await ours.run_until_settled(run_id)
    assert await stranger.inspect(run_id) == await ours.inspect(run_id)
    assert await stranger.events(run_id) == await ours.events(run_id)
    assert await stranger.human_request(run_id, "ask") == await ours.human_request(run_id, "ask")
