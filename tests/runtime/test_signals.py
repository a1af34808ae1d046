"""Signals: every rule of the list, races included."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime

import pytest
from pydantic import BaseModel, Field

from mayura.runtime import Code, Engine, Flow, MayuraError, RunId, workflow
from mayura.runtime.core.definition import JsonValue
from tests.runtime.shop import LEDGER, acting, refusing, waiting_for
from tests.runtime.world import World, everywhere, refused, step_of, steps_of, until

ACT = acting()
PAID: JsonValue = {"amount_cents": 1200}
ROUNDS = 8  #: of each race, on each store and loop
SEED = 20_260_101


class Checkout(BaseModel):
    """An order, and until when it may be paid."""

    order: str = "o-1"
    pay_by: datetime | None = None
    prepaid: bool = True


class Payment(BaseModel):
    """What the bank says."""

    amount_cents: int = Field(gt=0)


@workflow("orders.checkout", version="1")
def checkout(flow: Flow, order: Checkout) -> int:
    """Reserve, wait for the money, ship."""
    reserved = flow.tool("reserve", ACT.on(order.order))
    paid = flow.signal(
        "paid", Payment, name="payment.received", deadline=order.pay_by, after=[reserved]
    )
    flow.tool("ship", ACT.on(order.order), after=[paid])
    return paid.output.amount_cents


@workflow("orders.maybe", version="1")
def maybe(flow: Flow, order: Checkout) -> str:
    """The signal's step is bypassed where `prepaid` is false."""
    reserved = flow.tool("reserve", ACT.on(order.order))
    flow.signal("paid", Payment, when=order.prepaid, after=[reserved])
    return reserved.output


async def waiting(engine: Engine, order: Checkout | None = None, key: str = "o-1") -> RunId:
    """A run that waits for its payment."""
    run = await engine.submit(checkout, order or Checkout(), key=key)
    seen = await engine.run_until_settled(run.id)
    assert steps_of(seen)["paid"] == "waiting"
    return run.id


def pay_by(seconds: float, world: World) -> Checkout:
    return Checkout(pay_by=datetime.fromisoformat(world.clock.iso(seconds)))


async def without_effect(engine: Engine, run_id: RunId) -> int:
    """How often the log says that a signal has no effect."""
    return sum(
        event.type == "signal.without_effect" or event.data.get("without_effect") is True
        for event in await engine.events(run_id)
    )


@everywhere
async def test_a_signals_payload_becomes_its_steps_output(world: World) -> None:
    engine = await world.engine(checkout)
    run_id = await waiting(engine)
    await engine.signal(run_id, "payment.received", "p-1", PAID)
    seen = await engine.run_until_settled(run_id)
    assert (seen.status, seen.output) == ("succeeded", 1200)
    assert steps_of(seen)["ship"] == "succeeded"


@everywhere
async def test_a_signal_wakes_its_run(world: World) -> None:
    """Delivered by a process that runs nothing: the run is due for those that do (G13)."""
    engine = await world.engine(checkout)
    run_id = await waiting(engine)
    assert (await engine.run_once()).advanced == ()
    await (await world.elsewhere(checkout)).signal(run_id, "payment.received", "p-1", PAID)
    assert (await engine.run_once()).advanced == (run_id,)
    assert (await engine.inspect(run_id)).status == "succeeded"


@everywhere
async def test_the_same_signal_again_changes_nothing(world: World) -> None:
    """Case I8: a sender that does not know whether it was heard sends it again, at any time."""
    engine, elsewhere = await world.engine(checkout), await world.elsewhere(checkout)
    run_id = await waiting(engine)
    for each in (engine, elsewhere):
        await each.signal(run_id, "payment.received", "p-1", PAID)
    await engine.run_until_settled(run_id)
    await elsewhere.signal(run_id, "payment.received", "p-1", PAID)
    events = await engine.events(run_id)
    assert len([e for e in events if e.type == "signal.received"]) == 1


@everywhere
async def test_the_same_id_with_another_payload_or_a_second_signal_is_a_conflict(
    world: World,
) -> None:
    engine = await world.engine(checkout)
    run_id = await waiting(engine)
    await engine.signal(run_id, "payment.received", "p-1", PAID)
    for _ in range(2):
        with refused(Code.CONFLICT):
            await engine.signal(run_id, "payment.received", "p-1", {"amount_cents": 1})
        with refused(Code.CONFLICT):
            await engine.signal(run_id, "payment.received", "p-2", PAID)
        await engine.run_until_settled(run_id)
    assert (await engine.inspect(run_id)).output == 1200


async def test_a_payload_that_does_not_fit_is_refused_and_the_step_keeps_waiting(
    world: World,
) -> None:
    engine = await world.engine(checkout)
    run_id = await waiting(engine)
    payloads: list[JsonValue] = [
        None,
        {},
        {"amount_cents": 0},
        {"amount_cents": "many"},
        {"amount_cents": float("inf")},
    ]
    for payload in payloads:
        with refused(Code.INVALID_INPUT):
            await engine.signal(run_id, "payment.received", "p-1", payload)
    assert steps_of(await engine.inspect(run_id))["paid"] == "waiting"


async def test_an_unknown_name_is_not_found_and_the_nearest_is_named(world: World) -> None:
    engine = await world.engine(checkout)
    run_id = await waiting(engine)
    with refused(Code.NOT_FOUND) as caught:
        await engine.signal(run_id, "payment.recieved", "p-1", PAID)
    assert "did you mean 'payment.received'" in str(caught.value)
    with refused(Code.NOT_FOUND):
        await engine.signal(run_id, "paid", "p-1", PAID)  # the node's id is not its name


async def test_a_signals_id_is_one_short_line(world: World) -> None:
    """Case N8."""
    engine = await world.engine(checkout)
    run_id = await waiting(engine)
    for signal_id in ("", "x" * 129, "a\nb", "a\0", "\ud800"):
        with refused(Code.INVALID_INPUT):
            await engine.signal(run_id, "payment.received", signal_id, PAID)


@everywhere
async def test_a_signal_that_comes_before_its_step_waits_is_kept(world: World) -> None:
    engine = await world.engine(checkout)
    run = await engine.submit(checkout, Checkout(), key="o-1")
    await engine.signal(run.id, "payment.received", "p-1", PAID)
    assert steps_of(await engine.inspect(run.id))["paid"] == "pending"
    assert (await engine.run_until_settled(run.id)).output == 1200


async def test_without_a_signal_the_step_times_out_and_later_ones_are_refused(
    world: World,
) -> None:
    engine = await world.engine(checkout)
    run_id = await waiting(engine, pay_by(60, world))
    world.clock.advance(60)
    with refused(Code.CONFLICT):
        await engine.signal(run_id, "payment.received", "p-1", PAID)
    seen = await engine.run_until_settled(run_id)
    assert (seen.status, step_of(seen, "paid").status) == ("failed", "timed_out")
    assert steps_of(seen)["ship"] == "skipped"
    with refused(Code.CONFLICT):
        await engine.signal(run_id, "payment.received", "p-1", PAID)


async def test_a_signal_in_time_counts_however_late_it_is_looked_at(world: World) -> None:
    engine = await world.engine(checkout)
    run_id = await waiting(engine, pay_by(60, world))
    world.clock.advance(59)
    await engine.signal(run_id, "payment.received", "p-1", PAID)
    world.clock.advance(3600)
    assert (await engine.run_until_settled(run_id)).status == "succeeded"


@pytest.mark.parametrize(("sent_after_s", "counts"), [(59, True), (61, False)])
async def test_a_kept_early_signal_counts_only_if_it_arrived_before_the_deadline(
    world: World, sent_after_s: float, counts: bool
) -> None:
    engine = await world.engine(checkout)
    run = await engine.submit(checkout, pay_by(60, world), key="o-1")
    world.clock.advance(sent_after_s)
    await engine.signal(run.id, "payment.received", "p-1", PAID)
    world.clock.advance(60)
    seen = await engine.run_until_settled(run.id)
    assert steps_of(seen)["paid"] == ("succeeded" if counts else "timed_out")


@everywhere
async def test_the_signal_of_a_bypassed_step_is_kept_without_effect_and_the_log_says_so(
    world: World,
) -> None:
    """Case I2, G13: acknowledged is kept, whether it came before the bypass or after."""
    engine = await world.engine(maybe)
    done = asyncio.Event()
    early = await engine.submit(maybe, Checkout(prepaid=False), key="early")
    await engine.signal(early.id, "paid", "p-1", PAID)
    assert steps_of(await engine.run_until_settled(early.id))["paid"] == "bypassed"

    @workflow("orders.maybe.later", version="1")
    def later(flow: Flow, order: Checkout) -> str:
        flow.signal("paid", Payment, when=order.prepaid)
        return flow.tool("slow", ACT.on(order.order)).output

    LEDGER.does("slow", waiting_for(done))
    other = await world.engine(later)
    late = await other.submit(later, Checkout(prepaid=False), key="late")
    driving = asyncio.create_task(other.run_until_settled(late.id))
    await until(LEDGER.began("slow"))
    await other.signal(late.id, "paid", "p-1", PAID)
    done.set()
    await driving
    for each, run_id in ((engine, early.id), (other, late.id)):
        assert await without_effect(each, run_id) == 1


async def test_a_cancelled_runs_early_signal_is_kept_without_effect(world: World) -> None:
    engine = await world.engine(checkout)
    run = await engine.submit(checkout, Checkout(), key="o-1")
    await engine.signal(run.id, "payment.received", "p-1", PAID)
    await engine.cancel(run.id, by="ops")
    assert (await engine.inspect(run.id)).status == "cancelled"
    assert await without_effect(engine, run.id) == 1
    await engine.signal(run.id, "payment.received", "p-1", PAID)  # known: nothing changes
    with refused(Code.CONFLICT):
        await engine.signal(run.id, "payment.received", "p-2", PAID)


async def test_signals_for_many_steps_from_many_processes_each_reach_their_own(
    world: World,
) -> None:
    """Case I2: 64 signals in random order, before their steps begin to wait."""

    @workflow("orders.many", version="1")
    def many(flow: Flow, order: str) -> list[int]:
        begun = flow.tool("begin", ACT.on(order))
        waits = [flow.signal(f"s{number}", int, after=[begun]) for number in range(64)]
        return flow.join("all", waits).output

    engines = [await world.engine(many), *[await world.elsewhere(many) for _ in range(3)]]
    run = await engines[0].submit(many, "o-1", key="o-1")
    order = list(range(64))
    random.Random(SEED).shuffle(order)
    await asyncio.gather(*(engines[n % 4].signal(run.id, f"s{n}", f"id-{n}", n) for n in order))
    seen = await engines[0].run_until_settled(run.id)
    assert seen.output == list(range(64))


@everywhere
@pytest.mark.parametrize("end", ["succeeds", "fails", "is cancelled"])
async def test_a_signal_is_heard_before_the_end_or_refused(world: World, end: str) -> None:
    """Case I4: acceptance and closing are one order of commits; never both OK and ignored."""

    @workflow("orders.race", version="1")
    def race(flow: Flow, order: Checkout) -> str:
        flow.signal("paid", Payment, when=order.prepaid)
        return flow.tool("last", ACT.on(order.order)).output

    engine, sender = await world.engine(race), await world.elsewhere(race)
    operator = await world.elsewhere(race)  # which has to read the run first, as the sender has
    if end == "fails":
        LEDGER.does("last", refusing())
    for number in range(ROUNDS):
        run = await engine.submit(race, Checkout(prepaid=False), key=f"o-{number}")

        async def signalled(run_id: RunId = run.id) -> bool:
            try:
                await sender.signal(run_id, "paid", "p-1", PAID)
            except MayuraError as refusal:
                if refusal.code is not Code.CONFLICT:
                    raise
                return False
            return True

        ending = operator.cancel(run.id, by="ops") if end == "is cancelled" else None
        sides = [signalled(), ending or engine.run_until_settled(run.id)]
        if number == 0:  # the two orders themselves, then the race between them
            heard, _ = [await side for side in sides]
            assert heard, "before the end"
        elif number == 1:
            _, heard = [await side for side in reversed(sides)]
            assert not heard, "after the end"
        else:
            if number % 2:
                sides.reverse()
            heard = True in await asyncio.gather(*sides)
        events = [e.type for e in await engine.events(run.id)]
        assert events.count("signal.received") == heard
        assert events[-1] == "run.settled", "nothing is heard after the end"
