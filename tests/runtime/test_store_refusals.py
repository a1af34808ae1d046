"""What a store that refuses a write, or dies with its process, makes of runs (G2, G4, G10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mayura.runtime import Code, Flow, workflow
from mayura.runtime.core.definition import Effects
from mayura.runtime.ports import Refused, RunWrite, WriteAnswer
from tests.runtime.in_hand import ended
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    side_by_side,
    two_steps,
    waiting_for,
)
from tests.runtime.trouble import (
    Between,
    kinds_of,
    violation,
)
from tests.runtime.world import (
    World,
    everywhere,
    refused,
    slots_of,
    step_of,
    steps_of,
    until,
)

COST = 10
ACT = acting(cost_micros=COST)
ONE = one_step(ACT)
TWO = two_steps(ACT)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is asked again at once."""
    monkeypatch.setattr("mayura.runtime.run_writer.BACKOFF_S_MIN", 0.0)
    monkeypatch.setattr("mayura.runtime.run_writer.BACKOFF_S_MAX", 0.0)


# --- a store that would lose a dispatch -----------------------------------------------------------


def forgetful(write: RunWrite) -> WriteAnswer | None:
    """A store whose dispatches would not survive a crash (G2)."""
    return Refused("not_durable", "set fsync = on") if write.dispatches else None


@everywhere
async def test_nothing_is_called_where_the_store_would_forget_that_it_was(world: World) -> None:
    store = Between(await world.store())
    store.answers = forgetful
    engine = await world.engine(ONE, store=store)
    run = await engine.submit(ONE, "o-1", key="o-1")
    for _ in range(2):
        with refused(Code.INVALID_CONFIG) as caught:
            await engine.run_until_settled(run.id)
        assert "set fsync = on" in str(caught.value)
    assert dict((await engine.run_once()).failed) == {run.id: Code.INVALID_CONFIG}
    seen = await engine.inspect(run.id)
    assert (steps_of(seen), seen.budget.reserved_micros) == ({"act": "pending"}, 0)
    assert not LEDGER.entered
    assert len(world.process) == 0
    store.answers = lambda write: None
    assert (await engine.run_until_settled(run.id)).status == "succeeded"


async def test_what_was_done_is_kept_where_the_next_dispatch_is_refused(world: World) -> None:
    """The completion that made it ready travels with it, and is then written alone at once."""
    store = Between(await world.store())

    def becomes_forgetful(call: object) -> str:
        store.answers = forgetful
        return "done"

    LEDGER.does("first", becomes_forgetful)
    engine = await world.engine(TWO, store=store)
    run = await engine.submit(TWO, "o-1", key="o-1")
    with refused(Code.INVALID_CONFIG):
        await engine.run_until_settled(run.id)
    assert {"dispatch", "completion"} in [kinds_of(write) for write in store.sent]
    seen = await engine.inspect(run.id, outputs=True)
    assert steps_of(seen) == {"first": "succeeded", "then": "pending"}
    assert step_of(seen, "first").output == "done"
    assert len(LEDGER.entered) == 1
    store.answers = lambda write: None
    assert (await engine.run_until_settled(run.id)).status == "succeeded"


# --- a store that refuses a part ------------------------------------------------------------------


def refusing_output_of(*nodes: str) -> Callable[[RunWrite], WriteAnswer | None]:
    """A store that takes no output of these steps."""

    def answer(write: RunWrite) -> WriteAnswer | None:
        if {name for name, _ in write.payloads} & {f"output:{node}" for node in nodes}:
            raise violation()
        return None

    return answer


@everywhere
@pytest.mark.parametrize("effects", ["write", "read"])
async def test_an_output_that_the_store_refuses_costs_the_output_and_not_the_evidence(
    world: World, effects: Effects
) -> None:
    flow = one_step(acting(effects=effects, cost_micros=COST))
    store = Between(await world.store())
    store.answers = refusing_output_of("act")
    engine = await world.engine(flow, store=store)
    run = await engine.submit(flow, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    status, acted = ("blocked", "yes") if effects == "write" else ("failed", "no")
    expected = (status, Code.INVALID_OUTPUT, None, "succeeded", acted, COST, 0)
    assert (seen.status, ended(step_of(seen))) == (status, expected)
    assert step_of(await engine.inspect(run.id, outputs=True)).output is None


async def test_evidence_does_not_fall_with_a_siblings_mistake(world: World) -> None:
    """Three that end at once share a commit; one of them is at fault."""
    flow = side_by_side(ACT, 3)
    done = asyncio.Event()
    for node in ("s1", "s2", "s3"):
        LEDGER.does(node, waiting_for(done, node))
    store = Between(await world.store())
    store.answers = refusing_output_of("s2")
    engine = await world.engine(flow, store=store)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    for node in ("s1", "s2", "s3"):
        await until(LEDGER.began(node))
    done.set()
    seen = steps_of(await driving)
    assert seen == {"s1": "succeeded", "s2": "blocked", "s3": "succeeded", "all": "skipped"}
    together = [w for w in store.sent_of("receipt") if len(w.payloads) > 1]
    assert together, "they did share one"


async def test_a_refused_dispatch_frees_what_it_took(world: World) -> None:
    """Case B12: the next run is not refused for a call that was never begun."""
    flow = one_step(acting(concurrency=1))
    store = Between(await world.store())
    engine = await world.engine(flow, store=store)
    bad = await engine.submit(flow, "o-1", key="o-1")
    good = await engine.submit(flow, "o-2", key="o-2")

    def refuse(write: RunWrite) -> WriteAnswer | None:
        if write.dispatches and write.before.run_id == bad.id:
            raise violation()
        return None

    store.answers = refuse
    with refused(Code.INTEGRITY_VIOLATION):
        await engine.run_until_settled(bad.id)
    assert len(world.process) == 0
    assert (await engine.run_until_settled(good.id)).status == "succeeded"
    store.answers = lambda write: None
    assert (await engine.run_until_settled(bad.id)).status == "succeeded"


async def test_a_dispatch_that_fell_with_its_commit_frees_what_it_took_and_is_made_again(
    world: World,
) -> None:
    flow = two_steps(acting("shop.first"), acting("shop.then", concurrency=1))
    store = Between(await world.store())
    refusals = 0

    def refuse_once(write: RunWrite) -> WriteAnswer | None:
        nonlocal refusals
        if refusals == 0 and {"dispatch", "completion"} <= kinds_of(write):
            refusals += 1
            raise violation()
        return None

    store.answers = refuse_once
    engine = await world.engine(flow, store=store)
    run = await engine.submit(flow, "o-1", key="o-1")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    assert (refusals, len(world.process)) == (1, 0)
    assert slots_of(engine).statistics().calls == 0


async def test_a_completion_that_the_store_refuses_leaves_the_step_to_its_deadline(
    world: World,
) -> None:
    store = Between(await world.store())

    def refuse(write: RunWrite) -> WriteAnswer | None:
        if "completion" in kinds_of(write):
            raise violation()
        return None

    store.answers = refuse
    engine = await world.engine(ONE, store=store)
    run = await engine.submit(ONE, "o-1", key="o-1")
    with refused(Code.INTEGRITY_VIOLATION):
        await engine.run_until_settled(run.id)
    seen = await engine.run_until_settled(run.id)
    assert (steps_of(seen), step_of(seen).receipt) == ({"act": "dispatching"}, "succeeded")
    world.clock.advance(90)
    seen = await engine.run_until_settled(run.id)
    expected = ("blocked", Code.ABANDONED, "abandoned", "succeeded", "yes", COST, 0)
    assert ended(step_of(seen)) == expected


@workflow("shop.asks", version="1")
def asks(flow: Flow, order: str) -> str:
    """Waits for another system and for a person."""
    flow.signal("paid", int)
    return flow.human("ask", str, prompt="Is it right?").output


async def test_a_value_that_the_store_refuses_is_refused_to_its_sender_alone(world: World) -> None:
    store = Between(await world.store())

    def refuse(write: RunWrite) -> WriteAnswer | None:
        if any(name.startswith("signal:") for name, _ in write.payloads):
            raise violation()
        return None

    engine = await world.engine(asks, store=store)
    run = await engine.submit(asks, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    store.answers = refuse
    request = await engine.human_request(run.id, "ask")
    sent = asyncio.create_task(engine.signal(run.id, "paid", "p-1", 1))
    await engine.respond(run.id, "ask", request.digest, "yes", credential="key-of-bea")
    with refused(Code.INTEGRITY_VIOLATION):
        await sent
    seen = steps_of(await engine.run_until_settled(run.id))
    assert seen == {"paid": "waiting", "ask": "succeeded"}


# --- ending with receipts unstored ----------------------------------------------------------------


@everywhere
async def test_a_drain_that_finds_receipts_unstored_says_so_and_they_are_stored_later(
    world: World,
) -> None:
    store = Between(await world.store())
    outage = store.fails("receipt", "before")
    engine = await world.engine(ONE, store=store)
    run = await engine.submit(ONE, "o-1", key="o-1")
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.run_until_settled(run.id)
    drained = await engine.drain(0)
    assert (drained.calls_left, drained.clean) == (1, False)
    assert outage.left > 0
    assert len(world.process) == 1, "the call is still in hand"
    outage.over()
    assert (await engine.drain()).clean
    step = step_of(await engine.inspect(run.id))
    assert (step.status, step.receipt) == ("succeeded", "succeeded")


async def test_what_an_engine_leaves_behind_is_nobodys(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A body that runs has its time; a store that does not answer, a time of its own."""
    monkeypatch.setattr("mayura.runtime.engine.LEAVE_S_MAX", 0.01)
    store = Between(await world.store())
    store.fails("receipt", "before")
    engine = await world.engine(ONE, store=store)
    run = await engine.submit(ONE, "o-1", key="o-1")
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.run_until_settled(run.id)
    with refused(Code.STORAGE_UNAVAILABLE):
        # The tool may run for 30 s, but no body runs: nothing but the store is waited for.
        await asyncio.wait_for(engine.__aexit__(None, None, None), 10)
    assert f"{run.id}/step:act" in caplog.text
    assert len(world.process) == 0, "it is nobody's now"
    seen = await (await world.elsewhere(ONE)).run_until_settled(run.id)
    assert (steps_of(seen), step_of(seen).receipt) == ({"act": "dispatching"}, None)


async def test_leaving_the_engine_with_receipts_unstored_raises(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayura.runtime.engine.LEAVE_S_MAX", 0.0)
    flow = one_step(acting(timeout=0.01))
    store = Between(await world.store())
    store.fails("receipt", "before")
    engine = await world.engine(flow, store=store)
    run = await engine.submit(flow, "o-1", key="o-1")
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.run_until_settled(run.id)
    with refused(Code.STORAGE_UNAVAILABLE) as caught:
        await engine.__aexit__(None, None, None)
    assert "1 call" in str(caught.value)


async def test_a_drain_waits_until_what_was_done_is_stored(world: World) -> None:
    done = asyncio.Event()
    LEDGER.does("first", waiting_for(done))
    store = Between(await world.store())
    outage = store.fails("receipt", "before")
    engine = await world.engine(TWO, store=store)
    run = await engine.submit(TWO, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("first"))
    draining = asyncio.create_task(engine.drain())
    done.set()
    await until(outage.met)
    assert not draining.done()
    outage.over()
    assert (await draining).clean
    await asyncio.gather(driving, return_exceptions=True)
    seen = await engine.inspect(run.id)
    assert steps_of(seen) == {"first": "succeeded", "then": "pending"}, "and nothing more begins"
