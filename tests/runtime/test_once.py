"""`once`: a tool acts at most once for a subject, over all runs of a scope (G16)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mayura.runtime import (
    Call,
    Code,
    Engine,
    Flow,
    RunId,
    Scope,
    Snapshot,
    Workflow,
    tool,
    workflow,
)
from tests.runtime.in_hand import in_hand, refusing_after
from tests.runtime.shop import (
    LEDGER,
    Body,
    Order,
    acting,
    one_step,
    policy_for,
    raising,
    refusing,
    waiting_for,
)
from tests.runtime.trouble import Between, When, at_point, through_trouble
from tests.runtime.world import World, everywhere, step_of, steps_of, until, until_step

PROCESSES = 6
COST = 10
ONCE = acting("shop.refund", once="order", cost_micros=COST)
REFUND = one_step(ONCE, name="shop.refund")
ASKING = one_step(ONCE, name="shop.asking", approval=True)


async def driven(
    engine: Engine, key: str, order: str = "o-1", flow: Workflow[str, str] = REFUND
) -> Snapshot:
    """A run for this order, under this key, as far as it comes."""
    run = await engine.submit(flow, order, key=key)
    return await engine.run_until_settled(run.id)


async def first_call(engine: Engine, run_id: RunId, node: str = "act") -> object:
    """Which call a refused step names."""
    (blocked,) = [
        e.data
        for e in await engine.events(run_id)
        if e.type == "step.blocked" and e.data["node"] == node
    ]
    assert (blocked["code"], blocked["acted"]) == ("ALREADY_DONE", "no")
    return blocked["detail"]


def assert_refused(seen: Snapshot, node: str = "act") -> None:
    """Blocked, ALREADY_DONE; nothing was done, asked or spent."""
    step = step_of(seen, node)
    assert (step.status, step.code, step.acted) == ("blocked", Code.ALREADY_DONE, "no")
    assert (step.receipt, step.charged_micros, step.reserved_micros) == (None, 0, 0)


# --- taken ----------------------------------------------------------------------------------------


@everywhere
async def test_a_second_run_for_a_subject_is_refused_and_names_the_first_call(
    world: World,
) -> None:
    engine, elsewhere = await world.engine(REFUND), await world.elsewhere(REFUND)
    first = await driven(engine, "a")
    for each, key in ((engine, "b"), (elsewhere, "c")):
        seen = await driven(each, key)
        assert_refused(seen)
        assert (seen.status, seen.acted) == ("blocked", "no")
        assert await first_call(each, seen.id) == f"run {first.id}, step act"
    assert (await driven(engine, "d", "o-2")).status == "succeeded"
    assert LEDGER.entered == [f"{first.id}/step:act", LEDGER.calls["act"].call_id]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (raising(ValueError()), "unknown"),
        (raising(asyncio.CancelledError()), "unknown"),
        (lambda call: 42, "blocked"),
    ],
    ids=["raised", "cancelled", "nonsense"],
)
async def test_a_subject_stays_taken_while_its_call_may_have_acted(
    world: World, body: Body, status: str
) -> None:
    engine = await world.engine(REFUND)
    LEDGER.does("act", body)
    assert step_of(await driven(engine, "a")).status == status
    assert_refused(await driven(engine, "b"))


async def test_a_subject_is_taken_from_its_dispatch_on(world: World) -> None:
    """In a call, then abandoned, then settled: nobody knows whether it acted."""
    theirs, ours = await in_hand(world, REFUND), await world.engine(REFUND)
    assert_refused(await driven(ours, "b"))
    await theirs.dies(world)
    assert_refused(await driven(ours, "c"))
    world.clock.advance(90)
    assert step_of(await ours.run_until_settled(theirs.run_id)).status == "unknown"
    seen = await driven(ours, "d")
    assert_refused(seen)
    assert await first_call(ours, seen.id) == f"run {theirs.run_id}, step act"


async def test_another_version_of_a_tool_acts_on_the_same_subjects(world: World) -> None:
    @tool("shop.refund", version="2", effects="write", once="order")
    async def newer(call: Call, order: str) -> str:
        raise AssertionError("it was refunded by the older one")

    newer_flow = one_step(newer, name="shop.newer")
    engine = await world.engine(REFUND, newer_flow)
    assert (await driven(engine, "a")).status == "succeeded"
    assert_refused(await driven(engine, "b", flow=newer_flow))


async def test_a_subject_is_one_tools(world: World) -> None:
    other = one_step(acting("shop.other", once="order"), name="shop.other")
    engine = await world.engine(REFUND, other)
    assert (await driven(engine, "a")).status == "succeeded"
    assert (await driven(engine, "b", flow=other)).status == "succeeded"


async def test_two_steps_of_one_run_are_two_calls_for_one_subject(world: World) -> None:
    @workflow("shop.twice", version="1")
    def twice(flow: Flow, order: Order) -> list[str]:
        steps = [flow.tool(name, ONCE.on(order.order_id)) for name in ("one", "two")]
        steps.append(flow.tool("constant", ONCE.on("o-2")))
        return flow.join("all", steps).output

    engine = await world.engine(twice)
    run = await engine.submit(twice, Order(order_id="o-1"), key="a")
    seen = await engine.run_until_settled(run.id)
    assert steps_of(seen) == {
        "one": "succeeded",
        "two": "blocked",
        "constant": "succeeded",
        "all": "skipped",
    }
    assert_refused(seen, "two")
    assert await first_call(engine, run.id, "two") == f"run {run.id}, step one"


# --- given back -----------------------------------------------------------------------------------


@everywhere
async def test_a_refusal_gives_the_subject_back(world: World) -> None:
    engine = await world.engine(REFUND)
    LEDGER.does("act", refusing())
    assert (await driven(engine, "a")).status == "failed"
    LEDGER.does("act", lambda call: "done")
    assert (await driven(engine, "b")).status == "succeeded"
    assert_refused(await driven(engine, "c"))


@everywhere
async def test_a_declined_call_gives_the_subject_back(world: World) -> None:
    engine, elsewhere = await world.engine(REFUND), await world.elsewhere(REFUND)
    run = await engine.submit(REFUND, "o-1", key="a")
    with at_point("check.before", lambda: elsewhere.cancel(run.id, by="ops")):
        assert (await engine.run_until_settled(run.id)).status == "cancelled"
    assert not LEDGER.entered
    assert (await driven(elsewhere, "b")).status == "succeeded"


async def test_a_late_refusal_gives_the_subject_back(world: World) -> None:
    """Settled as unknown, and then its own process could say that it did not act."""
    theirs = await in_hand(world, REFUND, ending=refusing_after)
    ours = await world.engine(REFUND)
    world.clock.advance(90)
    assert step_of(await ours.run_until_settled(theirs.run_id)).status == "unknown"
    assert_refused(await driven(ours, "b"))
    assert step_of(await theirs.ends()).receipt == "not_started"
    LEDGER.does("act", lambda call: "done")
    assert (await driven(ours, "c")).status == "succeeded"


async def test_a_refused_call_gives_nothing_back_that_it_did_not_hold(world: World) -> None:
    """Refused, cancelled or failed before its dispatch: the first call keeps the subject."""
    engine = await world.engine(REFUND)
    await driven(engine, "a")
    assert_refused(await driven(engine, "b"))
    run = await engine.submit(REFUND, "o-1", key="c")
    await engine.cancel(run.id, by="ops")
    assert_refused(await driven(engine, "d"))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_call_whose_dispatch_was_not_answered_holds_its_own_subject(
    world: World, when: When, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent again under its nonce, it does not find itself in its own way."""
    monkeypatch.setattr("mayura.runtime.run_writer.BACKOFF_S_MIN", 0.0)
    store = Between(await world.store())
    store.fails("dispatch", when, 3)
    engine = await world.engine(REFUND, store=store)
    run = await engine.submit(REFUND, "o-1", key="a")
    seen, _ = await through_trouble(engine, run.id)
    assert seen.status == "succeeded"
    assert_refused(await driven(engine, "b"))


# --- the key of the call --------------------------------------------------------------------------


async def test_calls_for_one_subject_carry_one_key_and_others_another(world: World) -> None:
    """What a provider is sent is the same whoever asks, and whenever."""
    other = one_step(acting("shop.other", once="order"), name="shop.other")
    engine, elsewhere = await world.engine(REFUND, other), await world.elsewhere(REFUND)
    keys: list[str] = []
    for each, key, order, flow in (
        (engine, "a", "o-1", REFUND),
        (elsewhere, "b", "o-1", REFUND),
        (engine, "c", "o-2", REFUND),
        (engine, "d", "o-1", other),
    ):
        LEDGER.does("act", refusing())
        await driven(each, key, order, flow)
        keys.append(LEDGER.calls["act"].key)
    assert len(LEDGER.entered) == 4
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    assert all(len(key) == 32 and int(key, 16) >= 0 for key in keys)


@everywhere
async def test_the_subjects_of_two_scopes_do_not_meet(world: World) -> None:
    keys: set[str] = set()
    for principal in ("ada", "bob"):
        store = await world.store(Scope(principal=principal))
        engine = await world.engine(REFUND, store=store)
        assert (await driven(engine, "a")).status == "succeeded"
        assert_refused(await driven(engine, "b"))
        keys.add(LEDGER.calls["act"].key)
    assert len(keys) == 2


# --- which fields ---------------------------------------------------------------------------------


@tool("shop.pay", version="1", effects="write", once=["order.order_id", "order.amount_cents", "to"])
async def pay(call: Call, order: Order, to: str, note: str) -> str:
    """Pays an amount for an order to somebody."""
    return str(LEDGER.perform(call, order.order_id))


async def test_a_subject_of_several_fields_is_the_same_only_in_all_of_them(world: World) -> None:
    @workflow("shop.pays", version="1")
    def pays(flow: Flow, order: Order) -> list[str]:
        same: dict[str, Any] = {"order": order, "to": "bob", "note": "n"}
        others: dict[str, dict[str, Any]] = {
            "first": {},
            "amount": {"order": Order(order_id="o-1", amount_cents=1)},
            "order": {"order": Order(order_id="o-2")},
            "to": {"to": "eve"},
            "note": {"note": "another"},
        }
        steps: list[Any] = []
        for name, changes in others.items():
            steps.append(flow.tool(name, pay.on(**{**same, **changes}), after=steps[:1]))
        return flow.join("all", steps).output

    engine = await world.engine(pays)
    run = await engine.submit(pays, Order(order_id="o-1"), key="a")
    seen = await engine.run_until_settled(run.id)
    done = {"first", "amount", "order", "to"}
    assert {n for n, status in steps_of(seen).items() if status == "succeeded"} == done
    assert_refused(seen, "note")


# --- before a person is asked ---------------------------------------------------------------------


@everywhere
async def test_nobody_is_asked_about_a_subject_that_is_taken(world: World) -> None:
    engine = await world.engine(REFUND, ASKING)
    await driven(engine, "a")
    seen = await driven(engine, "b", flow=ASKING)
    assert_refused(seen)
    assert seen.settled
    assert not [e for e in await engine.events(seen.id) if e.type.startswith("approval")]


async def test_an_approval_does_not_free_a_subject_that_was_taken_meanwhile(world: World) -> None:
    engine = await world.engine(ASKING)
    runs = [(await driven(engine, key, flow=ASKING)).id for key in ("a", "b")]
    for run_id in runs:
        request = await engine.approval_request(run_id, "act")
        await engine.approve(run_id, "act", request.digest, credential="key-of-bea")
        await engine.run_until_settled(run_id)
    assert (await engine.inspect(runs[0])).status == "succeeded"
    assert_refused(await engine.inspect(runs[1]))
    assert await first_call(engine, runs[1]) == f"run {runs[0]}, step act"


# --- at once, and beside others -------------------------------------------------------------------


@everywhere
async def test_of_many_processes_with_one_order_under_many_keys_one_acts(world: World) -> None:
    engines = [await world.elsewhere(REFUND) for _ in range(PROCESSES)]
    seen = await asyncio.gather(
        *(driven(engine, f"key-{number}") for number, engine in enumerate(engines))
    )
    assert len(LEDGER.entered) == 1
    (winner,) = [run for run in seen if run.status == "succeeded"]
    assert LEDGER.entered == [f"{winner.id}/step:act"]
    for engine, run in zip(engines, seen, strict=True):
        if run.id != winner.id:
            assert_refused(run)
            assert await first_call(engine, run.id) == f"run {winner.id}, step act"


@pytest.mark.parametrize("approval", [False, True], ids=["dispatch", "approval"])
async def test_a_lookup_holds_up_no_other_step_of_its_run(world: World, approval: bool) -> None:
    act = acting()

    @workflow("shop.beside", version="1")
    def beside(flow: Flow, order: str) -> list[str]:
        early = flow.tool("early", act.on(order))
        flow.tool("refund", ONCE.on(order), approval=approval)
        late = flow.tool("late", act.on(early.output))
        return flow.join("all", [early, late]).output

    store = Between(await world.store())
    engine = await world.engine(REFUND, beside, store=store)
    await driven(engine, "a")
    store.looking_up = asyncio.Event()
    run = await engine.submit(beside, "o-1", key="b")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until_step(engine, run.id, "all", "succeeded")
    seen = await engine.inspect(run.id)
    assert (seen.status, steps_of(seen)["refund"]) == ("running", "pending")
    store.looking_up.set()
    assert_refused(await driving, "refund")


async def test_steps_beside_a_subject_that_is_free_all_begin_at_once(world: World) -> None:
    act, done = acting(), asyncio.Event()

    @workflow("shop.crowd", version="1")
    def crowd(flow: Flow, order: str) -> list[str]:
        steps = [flow.tool("s1", act.on(order)), flow.tool("s2", ONCE.on("x"))]
        steps += [flow.tool("s3", ONCE.on("y")), flow.tool("s4", act.on(order))]
        return flow.join("all", steps).output

    for number in range(1, 5):
        LEDGER.does(f"s{number}", waiting_for(done))
    engine = await world.engine(crowd, policy=policy_for(crowd))
    run = await engine.submit(crowd, "o-1", key="a")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    for number in range(1, 5):
        await until(LEDGER.began(f"s{number}"))
    done.set()
    assert (await driving).status == "succeeded"
