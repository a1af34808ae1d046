"""Every status of a run, as its row in the table says, and `why` beside it."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from mayura.runtime import Code, Flow, Workflow, workflow
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    policy_for,
    raising,
    refusing,
    two_steps,
    waiting_for,
)
from tests.runtime.world import World, everywhere, refused, step_of, steps_of, until

ACT = acting()
READ = acting("shop.look", effects="read")
ONE = one_step(ACT)
TWO = two_steps(ACT)


class Times(BaseModel):
    """When things are due."""

    at: datetime


@workflow("shop.waiting", version="1")
def waits(flow: Flow, times: Times) -> str:
    """A timer, a signal and a question, side by side."""
    flow.timer("timer", times.at)
    flow.signal("paid", int, deadline=times.at)
    return flow.human("review", str, prompt="Is it right?").output


@everywhere
async def test_running_is_a_run_whose_call_another_process_has_in_hand(world: World) -> None:
    done = asyncio.Event()
    LEDGER.does("act", waiting_for(done))
    ours, theirs = await world.engine(ONE), await world.elsewhere(ONE)
    run = await ours.submit(ONE, "o-1", key="o-1")
    driving = asyncio.create_task(ours.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    seen = await theirs.run_until_settled(run.id)
    assert seen.status == "running"
    assert not seen.settled
    assert "'act' is in a call" in seen.why
    done.set()
    assert (await driving).status == "succeeded"


async def test_waiting_names_what_it_waits_for_and_wakes_for_the_earliest(world: World) -> None:
    engine = await world.engine(waits)
    at = world.clock.iso(60)
    run = await engine.submit(waits, Times(at=datetime.fromisoformat(at)), key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert seen.status == "waiting"
    assert seen.next_wake_at_us == world.clock.wall_us + 60_000_000
    assert "'timer' waits until" in seen.why
    assert "'paid' waits for the signal 'paid'" in seen.why
    assert "'review' waits for a person's answer" in seen.why


@everywhere
async def test_paused_is_a_run_that_nothing_runs_in_until_it_is_resumed(world: World) -> None:
    engine = await world.engine(ONE)
    run = await engine.submit(ONE, "o-1", key="o-1")
    await engine.pause(run.id, by="ops")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.pausing) == ("paused", True)
    assert "paused" in seen.why
    assert not LEDGER.entered
    await engine.resume(run.id, by="ops")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"


@everywhere
async def test_succeeded_has_every_step_done_and_the_validated_result(world: World) -> None:
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.output, seen.settled) == ("succeeded", "then", True)
    assert steps_of(seen) == {"first": "succeeded", "then": "succeeded"}
    assert (seen.settlement, seen.next_wake_at_us, seen.acted) == (1, None, "yes")
    assert LEDGER.inputs["then"] == "first"


async def test_failed_is_a_run_with_a_step_that_failed(world: World) -> None:
    LEDGER.does("first", refusing())
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.acted) == ("failed", "no")
    assert steps_of(seen) == {"first": "failed", "then": "skipped"}
    assert "'first' is failed" in seen.why


async def test_failed_is_a_run_whose_result_does_not_fit(world: World) -> None:
    picky = _picky()
    engine = await world.engine(picky)
    run = await engine.submit(picky, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.code) == ("failed", Code.INVALID_OUTPUT)
    assert steps_of(seen) == {"act": "succeeded"}
    assert seen.acted == "yes"
    assert "result" in seen.why


def _picky() -> Workflow[str, str]:
    """Its step's output fits the step's type, and not the result's."""

    @workflow("shop.picky", version="1")
    def picky(flow: Flow, order: str) -> Annotated[str, Field(max_length=2)]:
        return flow.tool("act", ACT.on(order)).output

    return picky


async def test_blocked_is_a_run_with_a_step_that_policy_stopped(world: World) -> None:
    engine = await world.engine(TWO, policy=policy_for())
    run = await engine.submit(TWO, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.acted) == ("blocked", "no")
    assert steps_of(seen) == {"first": "blocked", "then": "skipped"}


@everywhere
async def test_cancelled_is_a_run_that_somebody_cancelled(world: World) -> None:
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    await engine.cancel(run.id, by="ops")
    seen = await engine.inspect(run.id)
    assert (seen.status, seen.cancelled, seen.settled) == ("cancelled", True, True)
    assert steps_of(seen) == {"first": "skipped", "then": "skipped"}
    assert not LEDGER.entered


@everywhere
async def test_outcome_unknown_is_a_run_with_a_step_that_may_have_acted(world: World) -> None:
    LEDGER.does("first", raising(RuntimeError("the line went dead")))
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.acted) == ("outcome_unknown", "unknown")
    assert steps_of(seen) == {"first": "unknown", "then": "skipped"}
    assert "'first'" in seen.why
    assert step_of(seen, "first").code is Code.OUTCOME_UNKNOWN


async def test_the_status_is_that_of_the_worst_step(world: World) -> None:
    """Unknown weighs more than blocked, and blocked more than failed."""

    @workflow("shop.worst", version="1")
    def worst(flow: Flow, order: str) -> str:
        flow.tool("refused", READ.on(order))
        flow.tool("withheld", acting("shop.graded", capabilities=["nobody:has"]).on(order))
        flow.tool("unclear", ACT.on(order))
        return flow.tool("fine", ACT.on(order)).output

    LEDGER.does("refused", raising(ValueError()))
    for key, bodies, expected in (
        ("1", {"unclear": raising(ValueError())}, "outcome_unknown"),
        ("2", {"unclear": lambda call: "fine"}, "blocked"),
    ):
        for node, body in bodies.items():
            LEDGER.does(node, body)
        allowed = [g for g in policy_for(worst).allow if g != "nobody:has"]
        policy = policy_for(version=key)
        policy = type(policy)(version=key, allow=allowed)
        engine = await world.engine(worst, policy=policy)
        run = await engine.submit(worst, "o-1", key=key)
        seen = await engine.run_until_settled(run.id)
        assert seen.status == expected
        assert seen.acted == ("unknown" if expected == "outcome_unknown" else "yes")
        assert steps_of(seen)["fine"] == "succeeded", "siblings run to their end"


@everywhere
async def test_reading_a_run_advances_nothing(world: World) -> None:
    engine = await world.engine(ONE)
    run = await engine.submit(ONE, "o-1", key="o-1")
    first, second = await engine.inspect(run.id), await engine.inspect(run.id)
    assert first == second
    assert first.revision == 1
    assert not LEDGER.entered


async def test_a_settled_run_takes_no_more_commands(world: World) -> None:
    engine = await world.engine(ONE)
    run = await engine.submit(ONE, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    for command in (engine.pause, engine.resume, engine.cancel):
        with refused(Code.CONFLICT):
            await command(run.id, by="ops")
    assert (await engine.run_until_settled(run.id)).revision == (
        await engine.inspect(run.id)
    ).revision


async def test_a_run_that_is_due_now_says_since_when(world: World) -> None:
    """Submitted and not yet driven; and where its code is not loaded."""
    engine, stranger = await world.engine(ONE), await world.elsewhere(TWO)
    run = await engine.submit(ONE, "o-1", key="o-1")
    since_us = world.clock.wall_us
    world.clock.advance(5)
    assert (await engine.inspect(run.id)).next_wake_at_us == since_us
    await stranger.run_once()
    assert (await stranger.inspect(run.id)).next_wake_at_us == since_us
    await engine.run_until_settled(run.id)
    assert (await engine.inspect(run.id)).next_wake_at_us is None


async def test_the_outputs_of_steps_are_shown_on_request(world: World) -> None:
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    assert step_of(await engine.inspect(run.id), "first").output is None
    assert step_of(await engine.inspect(run.id, outputs=True), "first").output == "first"


async def test_waiting_for_a_result_ends_when_the_run_settles_or_time_is_up(world: World) -> None:
    done = asyncio.Event()
    LEDGER.does("act", waiting_for(done))
    engine = await world.engine(ONE)
    run = await engine.submit(ONE, "o-1", key="o-1")
    with refused(Code.TIMEOUT):
        await engine.result(run.id, timeout=0.001)
    waiting = [asyncio.create_task(engine.result(run.id, timeout=10)) for _ in range(2)]
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    done.set()
    assert [(await each).status for each in waiting] == ["succeeded"] * 2
    await driving
    for timeout in (0, 0.0, 1e-9):
        assert (await engine.result(run.id, timeout=timeout)).status == "succeeded"
