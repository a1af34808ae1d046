"""What a store that does not answer, or refuses, makes of runs and of their callers (G2, G4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from mayura.runtime import Code, Engine, Flow, RunId, workflow
from tests.runtime.in_hand import ended
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    two_steps,
)
from tests.runtime.trouble import (
    Between,
    Kind,
    When,
    through_trouble,
    unavailable,
    violation,
)
from tests.runtime.world import World, everywhere, refused, step_of

COST = 10
ACT = acting(cost_micros=COST)
ONE = one_step(ACT)
TWO = two_steps(ACT)
both_ways = pytest.mark.parametrize("when", ["before", "after"])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is asked again at once."""
    monkeypatch.setattr("mayura.runtime.run_writer.BACKOFF_S_MIN", 0.0)
    monkeypatch.setattr("mayura.runtime.run_writer.BACKOFF_S_MAX", 0.0)


# --- no answer ------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize(("when", "times"), [("before", 1), ("before", 20), ("after", 1)])
@pytest.mark.parametrize("kind", ["dispatch", "receipt", "completion"])
async def test_an_unanswered_write_is_sent_again_under_its_nonce_and_applies_once(
    world: World, kind: Kind, when: When, times: int
) -> None:
    store = Between(await world.store())
    store.fails(kind, when, times)
    engine = await world.engine(TWO, store=store)
    run = await engine.submit(TWO, "o-1", key="o-1")
    seen, failures = await through_trouble(engine, run.id)
    assert (seen.status, seen.budget.spent_micros) == ("succeeded", 2 * COST)
    assert failures >= 1, "the caller heard of it"
    assert len({write.nonce for write in store.sent_of(kind)[: times + 1]}) == 1
    types = [event.type for event in await engine.events(run.id)]
    assert [types.count(f"step.{kind}") for kind in ("dispatching", "receipt", "succeeded")] == [
        2
    ] * 3
    assert LEDGER.entered == [f"{run.id}/step:first", f"{run.id}/step:then"]


@both_ways
async def test_a_caller_hears_at_once_while_the_receipt_is_kept_trying(
    world: World, when: When
) -> None:
    """G4: an impatient caller is told what it knows; evidence waits for as long as it takes."""
    store = Between(await world.store())
    outage = store.fails("receipt", when)
    engine = await world.engine(TWO, store=store)
    run = await engine.submit(TWO, "o-1", key="o-1")
    for _ in range(3):
        with refused(Code.STORAGE_UNAVAILABLE):
            await engine.run_until_settled(run.id)
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.pause(run.id, by="ops")
    assert outage.left > 0, "all of them heard it while the store was away"
    assert [len(LEDGER.of("first")), len(LEDGER.of("then"))] == [1, 0]
    outage.over()
    seen, _ = await through_trouble(engine, run.id)
    assert seen.status == "succeeded"
    receipts = [e.data["node"] for e in await engine.events(run.id) if e.type == "step.receipt"]
    assert receipts == ["first", "then"]


async def test_what_a_store_raises_by_mistake_is_no_answer_and_is_not_shown(world: World) -> None:
    store = Between(await world.store())
    store.fails("receipt", "after", 3, OSError("password=4711"))
    engine = await world.engine(ONE, store=store)
    run = await engine.submit(ONE, "o-1", key="o-1")
    with refused(Code.STORAGE_UNAVAILABLE) as caught:
        await engine.run_until_settled(run.id)
    assert "4711" not in str(caught.value)
    seen, _ = await through_trouble(engine, run.id)
    assert seen.status == "succeeded"
    assert len({write.nonce for write in store.sent_of("receipt")}) == 1


@everywhere
@both_ways
async def test_a_submission_that_was_not_answered_is_sent_again_and_is_one_run(
    world: World, when: When
) -> None:
    store = Between(await world.store())
    store.fails("create", when, 1)
    engine = await world.engine(ONE, store=store)
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.submit(ONE, "o-1", key="o-1")
    run = await engine.submit(ONE, "o-1", key="o-1")
    assert run.created == (when == "before")
    assert await world.place.run_ids() == [run.id]
    assert (await engine.run_until_settled(run.id)).status == "succeeded"


@workflow("shop.asks", version="1")
def asks(flow: Flow, order: str) -> str:
    """Takes every kind of command."""
    flow.signal("paid", int)
    flow.tool("act", ACT.on(order), approval=True)
    return flow.human("ask", str, prompt="Is it right?").output


async def _approve(engine: Engine, run_id: RunId, digest: str) -> None:
    reason = "It is what we ordered."
    await engine.approve(
        run_id, "act", digest, credential="key-of-bea", reason=reason, command_id="c-1"
    )


async def _respond(engine: Engine, run_id: RunId, digest: str) -> None:
    await engine.respond(run_id, "ask", digest, "yes", credential="key-of-bea", command_id="c-1")


COMMANDS: dict[str, tuple[Callable[[Engine, RunId, str], Awaitable[None]], str]] = {
    "pause": (lambda e, r, _: e.pause(r, by="ops", command_id="c-1"), "run.pause_requested"),
    "cancel": (lambda e, r, _: e.cancel(r, by="ops", command_id="c-1"), "run.cancelled"),
    "signal": (lambda e, r, _: e.signal(r, "paid", "p-1", 1), "signal.received"),
    "approve": (_approve, "approval.approved"),
    "respond": (_respond, "question.answered"),
}


@both_ways
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_that_was_not_answered_is_given_again_and_is_carried_out_once(
    world: World, command: str, when: When
) -> None:
    give, event = COMMANDS[command]
    store = Between(await world.store())
    engine = await world.engine(asks, store=store)
    run = await engine.submit(asks, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    read = {
        "approve": (await engine.approval_request(run.id, "act")).digest,
        "respond": (await engine.human_request(run.id, "ask")).digest,
    }
    outage = store.fails("command", when)
    with refused(Code.STORAGE_UNAVAILABLE):
        await give(engine, run.id, read.get(command, ""))
    outage.over()
    for _ in range(2):
        await give(engine, run.id, read.get(command, ""))
    assert [e.type for e in await engine.events(run.id)].count(event) == 1


# --- overtaken while it was not answered ----------------------------------------------------------


async def test_an_unanswered_dispatch_that_another_process_overtook_is_given_up(
    world: World,
) -> None:
    """It was never stored: the other process made the call, and this one frees what it took."""
    flow = one_step(acting(concurrency=1))
    store = Between(await world.store())
    outage = store.fails("dispatch", "before")
    engine, other = await world.engine(flow, store=store), await world.elsewhere(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.run_until_settled(run.id)
    assert (await other.run_until_settled(run.id)).status == "succeeded"
    outage.over()
    assert (await through_trouble(engine, run.id))[0].status == "succeeded"
    assert len(world.process) == 0
    next_run = await engine.submit(flow, "o-2", key="o-2")
    assert (await engine.run_until_settled(next_run.id)).status == "succeeded", "the slot is free"


@everywhere
async def test_an_unanswered_dispatch_that_was_stored_is_declined_where_the_run_was_cancelled(
    world: World,
) -> None:
    store = Between(await world.store())
    outage = store.fails("dispatch", "after")
    engine, other = await world.engine(ONE, store=store), await world.elsewhere(ONE)
    run = await engine.submit(ONE, "o-1", key="o-1")
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.run_until_settled(run.id)
    assert not LEDGER.entered, "unresolved: not called (G2)"
    await other.cancel(run.id, by="ops")
    outage.over()
    seen, _ = await through_trouble(engine, run.id)
    assert (seen.status, seen.acted) == ("cancelled", "no")
    step = step_of(seen)
    assert (step.status, step.receipt, step.reserved_micros) == ("skipped", "not_started", 0)
    assert not LEDGER.entered


async def test_an_unanswered_dispatch_that_was_settled_meanwhile_is_declined(world: World) -> None:
    """Nobody could know that it had not acted; its own process does, and says so."""
    store = Between(await world.store())
    outage = store.fails("dispatch", "after")
    engine, other = await world.engine(ONE, store=store), await world.elsewhere(ONE)
    run = await engine.submit(ONE, "o-1", key="o-1")
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.run_until_settled(run.id)
    world.clock.advance(90)
    assert (await other.run_until_settled(run.id)).status == "outcome_unknown"
    outage.over()
    seen, _ = await through_trouble(engine, run.id)
    expected = ("unknown", Code.OUTCOME_UNKNOWN, "abandoned", "not_started", "no", 0, 0)
    assert (seen.status, ended(step_of(seen))) == ("outcome_unknown", expected)
    assert not LEDGER.entered


# --- one run's trouble is not the others' ---------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (violation(), Code.INTEGRITY_VIOLATION),
        (unavailable(), Code.STORAGE_UNAVAILABLE),
        (ValueError("nonsense in column 7"), Code.INTEGRITY_VIOLATION),
    ],
    ids=["violation", "unavailable", "surprise"],
)
async def test_a_pass_over_the_due_runs_goes_on_with_the_others(
    world: World, error: Exception, code: Code
) -> None:
    """Case B2: of ten runs one is unreadable, one not loaded, and one lacks its values."""
    other = one_step(ACT, name="shop.other")
    store = Between(await world.store())
    engine, elsewhere = await world.engine(ONE, store=store), await world.elsewhere(ONE, other)
    runs = [(await elsewhere.submit(ONE, f"o-{n}", key=f"o-{n}")).id for n in range(9)]
    stranger = (await elsewhere.submit(other, "o-9", key="o-9")).id
    store.unreadable[runs[2]] = error
    store.lost.add(runs[6])
    for _ in range(2):
        swept = await engine.run_once()
        assert swept.not_loaded == (stranger,)
        assert dict(swept.failed) == {runs[2]: code, runs[6]: Code.INTEGRITY_VIOLATION}
    for number, run_id in enumerate(runs):
        assert (await elsewhere.inspect(run_id)).settled == (number not in (2, 6))
    store.unreadable.clear()
    store.lost.clear()
    assert set((await engine.run_once()).advanced) == {runs[2], runs[6]}


async def test_a_pass_that_cannot_even_ask_what_is_due_says_so(world: World) -> None:
    store = Between(await world.store())
    engine = await world.engine(ONE, store=store)
    store.deaf = unavailable()
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.run_once()
