"""Abandoned calls: who may settle one, when, and what becomes of it (G9)."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from mayura.runtime import (
    Code,
    Engine,
    Flow,
    Guard,
    RunId,
    Snapshot,
    workflow,
)
from mayura.runtime.core.definition import Effects
from tests.runtime.in_hand import (
    COST,
    ONE,
    abandonments,
    act_of,
    crash_at,
    ended,
    in_hand,
    refusing_after,
)
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    refusing,
    two_steps,
    waiting_for,
)
from tests.runtime.trouble import Between, Kind
from tests.runtime.world import World, refused, step_of, steps_of, until

DAY_S = 86_400.0
A_MOMENT_S = 0.001
NOTHING: tuple[Effects, ...] = ("none", "read")
SOMETHING: tuple[Effects, ...] = ("write", "host")


# --- not by its own process -----------------------------------------------------------------------


async def test_a_call_in_hand_is_never_settled_by_its_own_process_however_late(
    world: World,
) -> None:
    done = asyncio.Event()
    LEDGER.does("act", waiting_for(done))
    engine, second = await world.engine(ONE), await world.engine(ONE)
    run = await engine.submit(ONE, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    world.clock.advance(DAY_S)
    again = asyncio.create_task(engine.run_until_settled(run.id))
    await engine.pause(run.id, by="ops")  # a commit of the engine that drives it
    await second.resume(run.id, by="ops")  # and one of another engine of the same process
    assert (await second.run_once()).advanced == (run.id,)
    assert steps_of(await second.run_until_settled(run.id)) == {"act": "dispatching"}
    done.set()
    seen = await driving
    assert (seen.status, await again) == ("succeeded", seen)
    assert await abandonments(engine, run.id) == []


@pytest.mark.parametrize(
    ("effects", "kind"), [("write", "receipt"), ("write", "completion"), ("read", "completion")]
)
async def test_a_call_is_in_hand_until_its_end_is_stored(
    world: World, effects: Effects, kind: Kind
) -> None:
    """What waits for its receipt or its completion to be stored is as good as running."""
    flow = one_step(act_of(effects))
    store = Between(await world.store())
    outage = store.fails(kind, "before")
    engine, second = await world.engine(flow, store=store), await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.run_until_settled(run.id)
    assert outage.met.is_set()
    world.clock.advance(DAY_S)
    assert steps_of(await second.run_until_settled(run.id)) == {"act": "dispatching"}
    outage.over()
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    assert await abandonments(engine, run.id) == []


# --- by anybody else, at the stored deadline ------------------------------------------------------


@pytest.mark.parametrize("effects", [*NOTHING, *SOMETHING])
async def test_another_process_settles_a_call_at_its_deadline_and_not_before(
    world: World, effects: Effects
) -> None:
    flow = two_steps(act_of(effects))
    theirs = await in_hand(world, flow, node="first")
    ours = await world.engine(flow)
    world.clock.advance(90 - A_MOMENT_S)
    assert (await ours.run_once()).advanced == (), "nobody is woken before"
    assert steps_of(await ours.run_until_settled(theirs.run_id))["first"] == "dispatching"
    world.clock.advance(A_MOMENT_S)
    assert (await ours.run_once()).advanced == (theirs.run_id,)
    seen = await ours.inspect(theirs.run_id)
    if effects in NOTHING:
        expected = ("failed", Code.ABANDONED, "abandoned", None, "no", COST, 0)
        assert seen.status == "failed"
    else:
        expected = ("unknown", Code.OUTCOME_UNKNOWN, "abandoned", None, "unknown", 0, COST)
        assert seen.status == "outcome_unknown"
    assert ended(step_of(seen, "first")) == expected
    assert steps_of(seen)["then"] == "skipped"
    await theirs.ends()
    await check_late_end(ours, theirs.run_id, seen)


async def check_late_end(engine: Engine, run_id: RunId, before: Snapshot) -> None:
    """A late completion changes no status; its receipt is merged (G5, G6)."""
    late = await engine.inspect(run_id, outputs=True)
    step, was = step_of(late, "first"), step_of(before, "first")
    assert (late.status, step.status, step.code) == (before.status, was.status, was.code)
    assert (step.receipt, step.output) == ("succeeded", None), "the output stays withheld"
    assert (step.charged_micros, step.reserved_micros) == (COST, 0)
    assert step.acted == ("no" if was.acted == "no" else "yes")
    assert late.settlement == before.settlement
    assert await abandonments(engine, run_id) == ["first"]


async def test_a_late_refusal_of_a_settled_call_gives_its_reservation_back(world: World) -> None:
    theirs, ours = await in_hand(world, ONE, ending=refusing_after), await world.engine(ONE)
    world.clock.advance(90)
    assert step_of(await ours.run_until_settled(theirs.run_id)).reserved_micros == COST
    seen = await theirs.ends()
    assert (seen.status, steps_of(seen)) == ("outcome_unknown", {"act": "unknown"})
    expected = ("unknown", Code.OUTCOME_UNKNOWN, "refused", "not_started", "no", 0, 0)
    assert ended(step_of(seen)) == expected


async def test_a_call_whose_receipt_says_that_it_succeeded_ends_blocked(world: World) -> None:
    """Its effect is known, and what it put out was never judged: withheld."""
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slowly(value: object, about: object) -> bool:
        asked.set()
        await answer.wait()
        return True

    flow = one_step(acting(output_guards=[Guard("slow", "1", slowly)], cost_micros=COST))
    theirs, ours = await world.elsewhere(flow), await world.engine(flow)
    run = await theirs.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(theirs.run_until_settled(run.id))
    await until(asked)
    world.clock.advance(90)
    seen = await ours.run_until_settled(run.id)
    step = step_of(await ours.inspect(run.id, outputs=True))
    assert ended(step) == ("blocked", Code.ABANDONED, "abandoned", "succeeded", "yes", COST, 0)
    assert (seen.status, seen.acted, step.output) == ("blocked", "yes", None)
    answer.set()
    assert await driving == seen, "the late yes of the guard changes nothing"


async def test_a_call_whose_receipt_says_that_it_did_not_start_ends_failed(world: World) -> None:
    LEDGER.does("act", refusing())
    theirs, ours = await world.elsewhere(ONE), await world.engine(ONE)
    run = await theirs.submit(ONE, "o-1", key="o-1")
    async with crash_at("completion.before_commit", world, theirs, run.id):
        world.clock.advance(90)
        seen = await ours.run_until_settled(run.id)
    expected = ("failed", Code.ABANDONED, "abandoned", "not_started", "no", 0, 0)
    assert ended(step_of(seen)) == expected


async def test_a_dead_processs_call_is_never_begun_again(world: World) -> None:
    """Cases A12 and B10: restarted at once and after the deadline; the old body still goes on."""
    theirs = await in_hand(world, ONE)
    await theirs.dies(world)
    ours = await world.engine(ONE)
    for seconds, status in ((0, "dispatching"), (89, "dispatching"), (1, "unknown")):
        world.clock.advance(seconds)
        restarted = await world.elsewhere(ONE)
        await restarted.run_once()
        seen = await restarted.run_until_settled(theirs.run_id)
        assert steps_of(seen) == {"act": status}
    theirs.done.set()
    assert await abandonments(ours, theirs.run_id) == ["act"]
    assert len(LEDGER.entered) == 1


async def test_a_stepped_wall_clock_settles_nothing(world: World) -> None:
    theirs, ours = await in_hand(world, ONE), await world.engine(ONE)
    world.clock.step_wall(DAY_S)
    await ours.run_once()
    assert steps_of(await ours.run_until_settled(theirs.run_id)) == {"act": "dispatching"}
    world.clock.advance(90)
    assert steps_of(await ours.run_until_settled(theirs.run_id)) == {"act": "unknown"}
    await theirs.ends()


async def test_a_restart_of_the_host_proves_its_calls_dead(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = await in_hand(world, ONE)
    await theirs.dies(world)
    world.clock.epoch = "boot-2"
    world.clock.steady_us = 0
    monkeypatch.setattr("mayura.storage.sqlite.boot_id", lambda: "boot-2")
    seen = await (await world.elsewhere(ONE)).run_until_settled(theirs.run_id)
    assert steps_of(seen) == {"act": "unknown"}


@pytest.mark.parametrize("version", ["1", "2"], ids=["edited", "new version"])
@pytest.mark.parametrize(
    ("timeout_s", "margin_s"), [(1, 60), (3600, 60), (30, 1)], ids=["shorter", "longer", "margin"]
)
async def test_the_stored_deadline_counts_whatever_a_later_release_says(
    world: World, timeout_s: float, margin_s: float, version: str
) -> None:
    """A deploy settles no live call, and it does not need the code that made it (G12)."""
    theirs = await in_hand(world, ONE)
    later = one_step(act_of(timeout=timeout_s), version=version)
    ours = await world.engine(later, margin=margin_s)
    world.clock.advance(90 - A_MOMENT_S)
    swept = await ours.run_once()
    assert (swept.advanced, swept.not_loaded) == ((), ())
    world.clock.advance(A_MOMENT_S)
    swept = await ours.run_once()
    assert swept.advanced + swept.not_loaded == (theirs.run_id,)
    seen = await ours.inspect(theirs.run_id)
    assert (seen.status, steps_of(seen)) == ("outcome_unknown", {"act": "unknown"})
    await theirs.ends()


async def test_every_call_is_settled_at_its_own_deadline(world: World) -> None:
    """Case G12: two tools of one process, a second and an hour."""

    @workflow("shop.unequal", version="1")
    def unequal(flow: Flow, order: str) -> list[str]:
        short = flow.tool("short", acting("shop.short", timeout=1).on(order))
        long = flow.tool("long", acting("shop.long", timeout=3600).on(order))
        return flow.join("all", [short, long]).output

    done = asyncio.Event()
    LEDGER.does("short", waiting_for(done))
    LEDGER.does("long", waiting_for(done))
    theirs, ours = await world.elsewhere(unequal), await world.engine(unequal)
    run = await theirs.submit(unequal, "o-1", key="o-1")
    driving = asyncio.create_task(theirs.run_until_settled(run.id))
    await until(LEDGER.began("short"))
    await until(LEDGER.began("long"))
    await world.crash(theirs)
    await asyncio.gather(driving, return_exceptions=True)
    passed_s = 0.0
    for at_s, short, long in (
        (61 - A_MOMENT_S, "dispatching", "dispatching"),
        (61, "unknown", "dispatching"),
        (3660 - A_MOMENT_S, "unknown", "dispatching"),
        (3660, "unknown", "unknown"),
    ):
        world.clock.advance(at_s - passed_s)
        passed_s = at_s
        await ours.run_once()  # woken by the stored wake time, and by nothing else
        seen = steps_of(await ours.inspect(run.id))
        assert (seen["short"], seen["long"]) == (short, long), at_s


FORKS = """
import os
from mayura.runtime.ids import new_nonce
from mayura.runtime.in_flight import THIS_PROCESS

THIS_PROCESS.enter(new_nonce())
child = os.fork()
if child == 0:
    os._exit(len(THIS_PROCESS))
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), len(THIS_PROCESS))
"""


def test_a_forked_process_has_none_of_its_parents_calls_in_hand() -> None:
    """Else it would never settle them, were the parent to die."""
    said = subprocess.check_output([sys.executable, "-c", FORKS], text=True, timeout=60)
    assert said.split() == ["0", "1"]
