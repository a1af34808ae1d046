"""Timers: absolute times, kept by the store, with nobody awake in between."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone

import pytest
from pydantic import (
    AwareDatetime,
    BaseModel,
    FutureDate,
    FutureDatetime,
    NaiveDatetime,
    PastDate,
    PastDatetime,
    create_model,
)

from mayura.runtime import Code, Engine, Flow, Policy, RunId, TimerFired, workflow
from tests.runtime.shop import LEDGER, acting, one_step, policy_for, waiting_for
from tests.runtime.world import Clock, World, refused, step_of, steps_of, until

ACT = acting()
DAY_S = 86_400


class Send(BaseModel):
    """What to send, and when."""

    text: str = "hello"
    at: datetime


@workflow("letters.send", version="1")
def send(flow: Flow, letter: Send) -> TimerFired:
    """Draft, wait, send."""
    drafted = flow.tool("draft", ACT.on(letter.text))
    due = flow.timer("send-at", letter.at, after=[drafted])
    flow.tool("post", ACT.on(drafted.output), after=[due])
    return due.output


@workflow("letters.remind", version="1")
def remind(flow: Flow, letter: Send) -> str:
    """A call and a timer side by side."""
    flow.timer("timer", letter.at)
    return flow.tool("slow", ACT.on(letter.text)).output


@workflow("letters.answer", version="1")
def answer_by(flow: Flow, letter: Send) -> str:
    """Everything that has a deadline."""
    flow.human("ask", str, prompt="Well?", deadline=letter.at)
    flow.signal("hear", str, deadline=letter.at)
    return flow.tool("approve", ACT.on(letter.text), approval=True).output


def at(seconds: float, clock: Clock) -> Send:
    return Send(at=datetime.fromisoformat(clock.iso(seconds)))


async def sent(engine: Engine, letter: Send) -> RunId:
    run = await engine.submit(send, letter, key="o-1")
    await engine.run_until_settled(run.id)
    return run.id


async def test_a_timer_waits_until_its_time_and_says_when_it_fired(world: World) -> None:
    engine = await world.engine(send)
    run_id = await sent(engine, at(60, world.clock))
    seen = await engine.inspect(run_id)
    assert (seen.status, seen.next_wake_at_us) == ("waiting", world.clock.wall_us + 60_000_000)
    world.clock.advance(59.999999)
    assert (await engine.run_until_settled(run_id)).status == "waiting"
    world.clock.advance(5.000001)
    seen = await engine.run_until_settled(run_id)
    assert (seen.status, steps_of(seen)["post"]) == ("succeeded", "succeeded")
    fired = TimerFired.model_validate(seen.output)
    assert (fired.fired_at - fired.fire_at).total_seconds() == 5


async def test_a_waiting_run_is_due_when_its_timer_is_and_not_before(world: World) -> None:
    """Case B17: a sweep after an outage fires what fell into it."""
    engine = await world.engine(send)
    run_id = await sent(engine, at(60, world.clock))
    for seconds in (0, 59.999):
        world.clock.advance(seconds)
        assert (await engine.run_once()).advanced == ()
    world.clock.advance(7 * DAY_S)
    assert (await engine.run_once()).advanced == (run_id,)
    assert (await engine.inspect(run_id)).status == "succeeded"


@pytest.mark.parametrize("seconds", [0, -1, -7 * DAY_S])
async def test_a_time_in_the_past_is_due_at_once(world: World, seconds: float) -> None:
    engine = await world.engine(send)
    run_id = await sent(engine, at(seconds, world.clock))
    assert (await engine.inspect(run_id)).status == "succeeded"


async def test_a_time_has_one_meaning_whatever_its_offset(world: World) -> None:
    engine = await world.engine(send)
    here = datetime.fromisoformat(world.clock.iso(60))
    there = here.astimezone(timezone(timedelta(hours=5, minutes=45)))
    run = await engine.submit(send, Send(at=there), key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert seen.next_wake_at_us == world.clock.wall_us + 60_000_000


async def test_a_time_without_an_offset_fails_its_step(world: World) -> None:
    engine = await world.engine(send)
    run_id = await sent(engine, Send(at=datetime(2026, 1, 1)))  # noqa: DTZ001 - that is the point
    seen = await engine.inspect(run_id)
    assert seen.status == "failed"
    assert step_of(seen, "send-at").code is Code.INVALID_INPUT


async def test_timers_do_not_fire_while_paused_and_fire_after_the_resume(world: World) -> None:
    engine = await world.engine(send)
    run_id = await sent(engine, at(60, world.clock))
    await engine.pause(run_id, by="ops")
    world.clock.advance(120)
    assert (await engine.inspect(run_id)).next_wake_at_us is None
    assert (await engine.run_until_settled(run_id)).status == "paused"
    await engine.resume(run_id, by="ops")
    assert (await engine.run_until_settled(run_id)).status == "succeeded"


async def test_a_timer_that_came_due_beside_a_call_fires_with_its_completion(
    world: World,
) -> None:
    """Nothing that could be done now is left when the run comes to rest."""
    done = asyncio.Event()
    LEDGER.does("slow", waiting_for(done))
    engine = await world.engine(remind)
    run = await engine.submit(remind, at(60, world.clock), key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("slow"))
    assert (await engine.inspect(run.id)).next_wake_at_us == world.clock.wall_us + 60_000_000
    world.clock.advance(61)
    done.set()
    assert (await driving).status == "succeeded"


async def test_a_sweep_fires_a_timer_beside_a_call_that_goes_on(world: World) -> None:
    done = asyncio.Event()
    LEDGER.does("slow", waiting_for(done))
    engine, elsewhere = await world.engine(remind), await world.elsewhere(remind)
    run = await engine.submit(remind, at(60, world.clock), key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("slow"))
    world.clock.advance(61)
    assert (await elsewhere.run_once()).advanced == (run.id,)
    assert steps_of(await engine.inspect(run.id)) == {"timer": "succeeded", "slow": "dispatching"}
    done.set()
    assert (await driving).status == "succeeded"


@pytest.mark.parametrize("days", [8, 30, 400])
async def test_months_pass_in_a_moment_and_only_when_the_clock_says_so(
    world: World, days: int
) -> None:
    """Cases H2 and Q2: timers, deadlines and approvals of weeks, with a restart every week."""
    began = time.monotonic()
    flows = (send, answer_by)
    policy: Policy = policy_for(*flows, approval_lifetime=20 * DAY_S)
    engine = await world.engine(*flows, policy=policy)
    letter = at(days * DAY_S, world.clock)
    timer = await engine.submit(send, letter, key="timer")
    answer = await engine.submit(answer_by, letter, key="answer")
    for _ in range(0, days - 7, 7):
        await engine.run_once()
        seen = await engine.inspect(timer.id), await engine.inspect(answer.id)
        assert [str(each.status) for each in seen] == ["waiting", "waiting"]
        world.clock.advance(7 * DAY_S)
        await world.crash(engine)
        engine = await world.elsewhere(*flows, policy=policy)
    world.clock.advance(7 * DAY_S)
    await engine.run_once()
    assert (await engine.inspect(timer.id)).status == "succeeded"
    over = steps_of(await engine.inspect(answer.id))
    assert (over["ask"], over["hear"]) == ("timed_out", "timed_out")
    assert time.monotonic() - began < 10, "nothing waited for real time"


async def test_a_call_of_a_dead_process_is_settled_after_thirty_days_of_fake_time(
    world: World,
) -> None:
    """Case Q2, abandonment."""
    one = one_step(ACT)
    LEDGER.does("act", waiting_for(asyncio.Event()))
    dead = await world.elsewhere(one)
    run = await dead.submit(one, "o-1", key="o-1")
    driving = asyncio.create_task(dead.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    await world.crash(dead)
    await driving
    world.clock.advance(30 * DAY_S)
    engine = await world.engine(one)
    assert (await engine.run_once()).advanced == (run.id,)
    assert (await engine.inspect(run.id)).status == "outcome_unknown"


async def test_a_stepped_wall_clock_settles_no_live_call(world: World) -> None:
    """Settle deadlines are on the steady clock; wall time serves due times (model, Times)."""
    one = one_step(ACT)
    done = asyncio.Event()
    LEDGER.does("act", waiting_for(done))
    engine, elsewhere = await world.engine(one), await world.elsewhere(one)
    run = await engine.submit(one, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    world.clock.step_wall(7 * DAY_S)
    await elsewhere.run_once()
    assert steps_of(await elsewhere.inspect(run.id)) == {"act": "dispatching"}
    done.set()
    assert (await driving).status == "succeeded"


class Aware(BaseModel):
    """A time that says where it is that time."""

    at: AwareDatetime


async def test_a_time_without_an_offset_is_refused_at_its_submission(world: World) -> None:
    @workflow("letters.aware", version="1")
    def aware(flow: Flow, letter: Aware) -> TimerFired:
        return flow.timer("due", letter.at).output

    engine = await world.engine(aware)
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - the mistake
    with refused(Code.INVALID_INPUT) as error:
        await engine.submit(aware, Aware.model_construct(at=naive), key="o-1")
    assert "at" in str(error.value)
    run = await engine.submit(aware, Aware(at=naive.astimezone()), key="o-1")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"


@pytest.mark.parametrize(
    "declared",
    [AwareDatetime, NaiveDatetime, PastDatetime, FutureDatetime, PastDate, FutureDate],
    ids=lambda declared: declared.__name__,
)
def test_what_pydantic_puts_in_place_of_a_time_is_a_value(declared: type) -> None:
    dated = create_model("Dated", at=(declared, ...))

    def dating(flow: Flow, letter: BaseModel) -> str:
        return flow.tool("say", ACT.on("x")).output

    dating.__annotations__["letter"] = dated
    assert workflow("letters.dated", version="1")(dating).id == "letters.dated"
