"""Cancel, pause and resume: accepted at any time, recorded, and never a revival."""

from __future__ import annotations

import asyncio

import pytest

from mayura.runtime import Code, Engine, Flow, Guard, RunId, workflow
from mayura.runtime.ports import RunWrite
from tests.runtime.meddling import meddled
from tests.runtime.shop import (
    LEDGER,
    Body,
    acting,
    acting_in_thread,
    chain_of,
    one_step,
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


async def in_a_call(
    world: World, engine: Engine
) -> tuple[RunId, asyncio.Event, asyncio.Task[None]]:
    """A run of two steps whose first call goes on until the event is set."""
    done = asyncio.Event()
    LEDGER.does("first", waiting_for(done))
    run = await engine.submit(TWO, "o-1", key="o-1")

    async def drive() -> None:
        await engine.run_until_settled(run.id)

    driving = asyncio.create_task(drive())
    await until(LEDGER.began("first"))
    return run.id, done, driving


# --- cancel --------------------------------------------------------------------------------------


@everywhere
async def test_cancel_skips_what_has_not_begun_and_lets_a_call_in_hand_end(world: World) -> None:
    engine = await world.engine(TWO)
    run_id, done, driving = await in_a_call(world, engine)
    await engine.cancel(run_id, by="ops")
    seen = await engine.inspect(run_id)
    assert (seen.status, seen.cancelled) == ("running", True), "settled when nothing dispatches"
    assert steps_of(seen) == {"first": "dispatching", "then": "skipped"}
    assert LEDGER.calls["first"].cancellation.is_set()
    done.set()
    await driving
    seen = await engine.inspect(run_id)
    assert (seen.status, seen.acted) == ("cancelled", "yes"), "a cancel undoes nothing (G10)"
    assert step_of(seen, "first").status == "succeeded"


@pytest.mark.parametrize(
    ("ends", "status", "acted"),
    [
        ("refuses", "failed", "no"),
        ("raises", "unknown", "unknown"),
        ("returns", "succeeded", "yes"),
    ],
)
async def test_a_call_that_is_told_of_a_cancel_ends_as_it_would_otherwise(
    world: World, ends: str, status: str, acted: str
) -> None:
    """Case G10."""
    engine = await world.engine(ONE)
    ways: dict[str, Body] = {
        "refuses": refusing(),
        "raises": raising(ValueError()),
        "returns": lambda call: "done",
    }

    async def body(call: object) -> object:
        await LEDGER.calls["act"].cancellation.wait()
        return ways[ends](LEDGER.calls["act"])

    LEDGER.does("act", body)
    run = await engine.submit(ONE, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    await engine.cancel(run.id, by="ops")
    seen = await driving
    assert (seen.status, seen.acted) == ("cancelled", acted)
    assert step_of(seen).status == status
    if status == "unknown":
        assert "'act'" in seen.why, "a cancelled run with an unknown step is to be reconciled"


@everywhere
@pytest.mark.parametrize("kind", ["on the loop", "in a thread"])
async def test_a_call_learns_within_a_moment_that_another_process_cancelled_its_run(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Case G10."""
    monkeypatch.setattr("mayura.runtime.engine.CANCEL_POLL_S", 0.01)
    flow = one_step(ACT if kind == "on the loop" else acting_in_thread("shop.plain"))

    async def on_the_loop(call: object) -> str:
        await LEDGER.calls["act"].cancellation.wait()
        return "stopped"

    def in_a_thread(call: object) -> str:
        assert LEDGER.calls["act"].cancellation.wait_in_thread(10)
        return "stopped"

    LEDGER.does("act", on_the_loop if kind == "on the loop" else in_a_thread)
    engine, elsewhere = await world.engine(flow), await world.elsewhere(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    await elsewhere.cancel(run.id, by="ops")
    seen = await asyncio.wait_for(driving, 10)
    assert (seen.status, step_of(seen).status) == ("cancelled", "succeeded")


@workflow("shop.states", version="1")
def states(flow: Flow, order: str) -> str:
    """One step in every state that waits."""
    flow.human("ask", str, prompt="?")
    flow.signal("hear", str)
    asked = flow.tool("approve", ACT.on(order), approval=True)
    return flow.tool("after", ACT.on(asked.output)).output


async def test_cancel_ends_a_run_whatever_it_waits_for(world: World) -> None:
    engine = await world.engine(states)
    run = await engine.submit(states, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    request = await engine.approval_request(run.id, "approve")
    await engine.cancel(run.id, by="ops")
    seen = await engine.inspect(run.id)
    assert (seen.status, seen.acted) == ("cancelled", "no")
    assert set(steps_of(seen).values()) == {"skipped"}
    for command in (
        engine.approve(run.id, "approve", request.digest, credential="key-of-ada"),
        engine.signal(run.id, "hear", "s-1", "late"),
        engine.pause(run.id, by="ops"),
        engine.resume(run.id, by="ops"),
    ):
        with refused(Code.CONFLICT):
            await command
    await engine.cancel(run.id, by="ops")  # it is cancelled: nothing changes


async def test_cancel_ends_a_paused_run(world: World) -> None:
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    await engine.pause(run.id, by="ops")
    await engine.cancel(run.id, by="ops")
    assert (await engine.inspect(run.id)).status == "cancelled"


async def test_an_approved_step_of_a_cancelled_run_is_not_called(world: World) -> None:
    asking = one_step(ACT, approval=True)
    engine = await world.engine(asking)
    run = await engine.submit(asking, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    request = await engine.approval_request(run.id, "act")
    await engine.approve(run.id, "act", request.digest, credential="key-of-ada")
    await engine.cancel(run.id, by="ops")
    assert (await engine.run_until_settled(run.id)).status == "cancelled"
    assert not LEDGER.entered


# --- pause ---------------------------------------------------------------------------------------


@everywhere
async def test_a_pause_is_accepted_during_a_call_and_holds_once_the_call_has_ended(
    world: World,
) -> None:
    engine = await world.engine(TWO)
    run_id, done, driving = await in_a_call(world, engine)
    await engine.pause(run_id, by="ops")
    seen = await engine.inspect(run_id)
    assert (seen.status, seen.pausing) == ("running", True)
    assert not LEDGER.calls["first"].cancellation.is_set()
    done.set()
    await driving
    seen = await engine.inspect(run_id)
    assert seen.status == "paused"
    assert steps_of(seen) == {"first": "succeeded", "then": "pending"}
    await engine.resume(run_id, by="ops")
    assert (await engine.run_until_settled(run_id)).status == "succeeded"


async def test_a_run_whose_last_call_ends_while_pausing_settles(world: World) -> None:
    done = asyncio.Event()
    LEDGER.does("act", waiting_for(done))
    engine = await world.engine(ONE)
    run = await engine.submit(ONE, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    await engine.pause(run.id, by="ops")
    done.set()
    assert (await driving).status == "succeeded"


async def test_a_paused_run_is_nobodys_to_advance(world: World) -> None:
    engine, elsewhere = await world.engine(TWO), await world.elsewhere(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    await engine.pause(run.id, by="ops")
    revision = (await engine.inspect(run.id)).revision
    world.clock.advance(86_400)
    assert (await elsewhere.run_once()).advanced == ()
    assert (await elsewhere.run_until_settled(run.id)).status == "paused"
    assert (await engine.inspect(run.id)).revision == revision
    await elsewhere.resume(run.id, by="ops")
    assert (await elsewhere.run_once()).advanced == (run.id,)


async def test_a_run_that_is_paused_while_a_guard_is_asked_sleeps(world: World) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slowly(value: object, about: object) -> bool:
        asked.set()
        await answer.wait()
        return True

    guarded = one_step(acting(input_guards=[Guard("slow", "1", slowly)]))
    engine, elsewhere = await world.engine(guarded), await world.elsewhere(guarded)
    run = await engine.submit(guarded, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(asked)
    await engine.pause(run.id, by="ops")
    assert (await engine.inspect(run.id)).status == "paused"
    assert await (await world.store()).due(10) == [], "nobody is woken for it"
    answer.set()
    assert (await driving).status == "paused"
    assert not LEDGER.entered
    await elsewhere.resume(run.id, by="ops")
    assert (await elsewhere.run_until_settled(run.id)).status == "succeeded"


async def test_pause_and_resume_are_idempotent(world: World) -> None:
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    await engine.resume(run.id, by="ops")
    revision = (await engine.inspect(run.id)).revision
    assert revision == 1, "what is not paused is not resumed"
    for _ in range(3):
        await engine.pause(run.id, by="ops")
    assert (await engine.inspect(run.id)).revision == revision + 1
    for _ in range(3):
        await engine.resume(run.id, by="ops")
    assert (await engine.inspect(run.id)).revision == revision + 2
    kinds = [e.type for e in await engine.events(run.id)]
    assert (kinds.count("run.pause_requested"), kinds.count("run.resumed")) == (1, 1)


# --- commands under an id ------------------------------------------------------------------------


@everywhere
async def test_a_command_repeated_under_its_id_changes_nothing_even_much_later(
    world: World,
) -> None:
    engine, elsewhere = await world.engine(TWO), await world.elsewhere(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    await engine.pause(run.id, by="ops", command_id="c-1")
    await engine.resume(run.id, by="ops", command_id="c-2")
    revision = (await engine.inspect(run.id)).revision
    await elsewhere.pause(run.id, by="ops", command_id="c-1")  # delivered again
    assert (await engine.inspect(run.id)).revision == revision
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    await elsewhere.pause(run.id, by="ops", command_id="c-1")  # and again, at the end


async def test_a_command_that_found_nothing_to_do_is_done(world: World) -> None:
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    await engine.resume(run.id, by="ops", command_id="c-1")
    await engine.pause(run.id, by="ops", command_id="c-2")
    await engine.resume(run.id, by="ops", command_id="c-1")  # the first one, delivered again
    assert (await engine.inspect(run.id)).pausing


@everywhere
async def test_an_id_is_of_one_command(world: World) -> None:
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    await engine.pause(run.id, by="ops", command_id="c-1")
    for other in (engine.resume, engine.cancel):
        with refused(Code.CONFLICT):
            await other(run.id, by="ops", command_id="c-1")
    assert (await engine.inspect(run.id)).pausing
    another = await engine.submit(TWO, "o-2", key="o-2")
    await engine.cancel(another.id, by="ops", command_id="c-1")  # ids are a run's own


@everywhere
async def test_a_command_sent_by_two_processes_at_once_is_carried_out_once(world: World) -> None:
    engine, elsewhere = await world.engine(TWO), await world.elsewhere(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    await asyncio.gather(
        *(each.cancel(run.id, by="ops", command_id="c-1") for each in (engine, elsewhere) * 3)
    )
    assert [e.type for e in await engine.events(run.id)].count("run.cancelled") == 1


async def test_commands_for_one_run_at_once_are_each_carried_out(world: World) -> None:
    """One command's fate is not its neighbours'."""
    engine = await world.engine(states)
    run = await engine.submit(states, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    request = await engine.approval_request(run.id, "approve")
    question = await engine.human_request(run.id, "ask")
    known = {"credential": "key-of-ada"}
    await engine.pause(run.id, by="ops", command_id="known")
    done = await asyncio.gather(
        engine.approve(run.id, "approve", request.digest, command_id="c-1", **known),
        engine.respond(run.id, "ask", question.digest, "yes", command_id="c-2", **known),
        engine.respond(run.id, "ask", "0" * 64, "no", command_id="c-3", **known),
        engine.signal(run.id, "hear", "s-1", "here"),
        engine.pause(run.id, by="ops", command_id="known"),
        engine.resume(run.id, by="ops", command_id="c-4"),
        return_exceptions=True,
    )
    assert [each is None for each in done] == [True, True, False, True, True, True]
    assert (await engine.run_until_settled(run.id)).status == "succeeded"


async def test_who_and_under_which_id_are_short_lines(world: World) -> None:
    """Case N8."""
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    for text in ("", "a\nb", "x" * 300, "\ud800"):
        with refused(Code.INVALID_INPUT):
            await engine.cancel(run.id, by=text)
        with refused(Code.INVALID_INPUT):
            await engine.cancel(run.id, by="ops", command_id=text)
    assert (await engine.inspect(run.id)).revision == 1


# --- in between ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["cancel", "pause"])
async def test_no_old_copy_revives_a_run(world: World, command: str) -> None:
    """Case O4: a command lands between the drive loop's read and its save, at each save."""
    chain = chain_of(ACT, 3)
    outside = await world.elsewhere(chain)
    for save in range(1 + 2 * 3):
        meddler = Meddler(outside, command, save)
        engine = await world.engine(chain, store=meddled(await world.store(), before=meddler))
        run = await engine.submit(chain, "o-1", key=f"o-{save}")
        seen = await engine.run_until_settled(run.id)
        if seen.status == "paused":
            await outside.resume(run.id, by="ops")
            seen = await outside.run_until_settled(run.id)
        types = [e.type for e in await outside.events(run.id)]
        assert seen.status == ("cancelled" if command == "cancel" else "succeeded")
        heard = types[types.index(meddler.event) :]
        resumed = heard.index("run.resumed") if "run.resumed" in heard else None
        assert "step.dispatching" not in heard[:resumed], "nothing began after it was recorded"


class Meddler:
    """Commands a run right before its n-th save."""

    def __init__(self, outside: Engine, command: str, save: int) -> None:
        self.event = "run.cancelled" if command == "cancel" else "run.pause_requested"
        self._command = outside.cancel if command == "cancel" else outside.pause
        self._left = save

    async def __call__(self, write: RunWrite) -> None:
        self._left -= 1
        if self._left == -1:
            await self._command(write.before.run_id, by="ops")
