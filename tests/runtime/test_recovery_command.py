"""Calls of dead processes, settled on a person's word; and what a crash leaves behind (G9)."""

from __future__ import annotations

import asyncio

import pytest

from mayura.runtime import (
    Code,
    Flow,
    workflow,
)
from mayura.runtime.core.definition import Effects
from tests.runtime.in_hand import (
    ACT,
    COST,
    ONE,
    SOON_S,
    abandonments,
    act_of,
    crash_at,
    ended,
    in_hand,
    settled_late,
)
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    policy_for,
    side_by_side,
    two_steps,
    waiting_for,
)
from tests.runtime.world import World, everywhere, refused, step_of, steps_of, until

# --- what a crash around the dispatch commit leaves behind ---------------------------------------


@everywhere
async def test_a_crash_before_the_dispatch_commit_leaves_nothing_behind(world: World) -> None:
    """Case B12: no reservation without a step that owns it; the next process is not refused."""
    flow = one_step(acting(concurrency=1, cost_micros=COST))
    policy = policy_for(flow, budget_micros=COST)
    theirs = await world.elsewhere(flow, policy=policy)
    ours = await world.engine(flow, policy=policy)
    run = await theirs.submit(flow, "o-1", key="o-1")
    async with crash_at("dispatch.before_commit", world, theirs, run.id):
        seen = await ours.inspect(run.id)
        assert (steps_of(seen), seen.budget.reserved_micros) == ({"act": "pending"}, 0)
        assert (await ours.run_once()).advanced == (run.id,)
    seen = await ours.inspect(run.id)
    assert (seen.status, seen.budget.spent_micros) == ("succeeded", COST)


@everywhere
async def test_a_crash_after_the_dispatch_commit_leaves_a_step_that_owns_its_reservation(
    world: World,
) -> None:
    """Case B12: settled at its deadline, and the next run is not refused meanwhile."""
    flow = one_step(acting(concurrency=1, cost_micros=COST, timeout=SOON_S))
    theirs, ours = await world.elsewhere(flow, margin=SOON_S), await world.engine(flow)
    run = await theirs.submit(flow, "o-1", key="o-1")
    async with crash_at("dispatch.committed", world, theirs, run.id):
        seen = await ours.inspect(run.id)
        assert steps_of(seen) == {"act": "dispatching"}
        assert seen.budget.reserved_micros == step_of(seen).reserved_micros == COST
        other = await ours.submit(flow, "o-2", key="o-2")
        assert (await ours.run_until_settled(other.id)).status == "succeeded"
        seen = await settled_late(world, ours, run.id, 2 * SOON_S)
    expected = ("unknown", Code.OUTCOME_UNKNOWN, "abandoned", None, "unknown", 0, COST)
    assert ended(step_of(seen)) == expected
    assert len(LEDGER.entered) == 1, "the call that was lost was never entered"


# --- on a person's word ---------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("effects", ["write", "read"])
async def test_a_person_may_have_a_dead_processs_calls_settled_before_their_deadline(
    world: World, effects: Effects
) -> None:
    flow = two_steps(act_of(effects))
    theirs = await in_hand(world, flow, node="first")
    await theirs.dies(world)
    ours = await world.engine(flow)
    for _ in range(2):  # the same command again changes nothing
        await ours.recover_abandoned(theirs.run_id, credential="key-of-bea", command_id="c-1")
    seen = await ours.inspect(theirs.run_id)
    step = step_of(seen, "first")
    if effects == "read":
        assert ended(step) == ("failed", Code.ABANDONED, "abandoned", None, "no", COST, 0)
    else:
        assert (seen.status, step.status, step.acted) == ("outcome_unknown", "unknown", "unknown")
    assert (seen.settled, steps_of(seen)["then"]) == (True, "skipped")
    (event,) = [e for e in await ours.events(theirs.run_id) if e.type == "step.abandoned"]
    assert event.data.items() >= {"node": "first", "command": "c-1", "person": "bea"}.items()
    with refused(Code.CONFLICT):  # the id of another command
        await ours.recover_abandoned(theirs.run_id, credential="key-of-carl", command_id="c-1")
        await ours.cancel(theirs.run_id, by="ops", command_id="c-1")


async def test_recovery_needs_a_person_who_may(world: World) -> None:
    theirs = await in_hand(world, ONE)
    await theirs.dies(world)
    ours, deaf = await world.engine(ONE), await world.engine(ONE, verify_human=None)
    for engine, who in (
        (ours, {}),
        (ours, {"unverified": "bea"}),
        (ours, {"credential": "stolen"}),
        (deaf, {"credential": "key-of-bea"}),
    ):
        with refused(Code.PERMISSION_DENIED):
            await engine.recover_abandoned(theirs.run_id, **who)
    assert (await ours.inspect(theirs.run_id)).revision == 2, "nothing was written"


async def test_an_unverified_person_may_where_the_runs_policy_says_so(world: World) -> None:
    policy = policy_for(ONE, unverified_people=True)
    theirs = await in_hand(world, ONE, policy=policy)
    await theirs.dies(world)
    ours = await world.engine(ONE, policy=policy)
    await ours.recover_abandoned(theirs.run_id, unverified="bea")
    (event,) = [e for e in await ours.events(theirs.run_id) if e.type == "step.abandoned"]
    assert event.data.items() >= {"person": "bea", "unverified": True}.items()


@everywhere
async def test_a_call_that_this_process_has_in_hand_is_not_recovered(world: World) -> None:
    """Nor by another engine of the same process; and none of the run's calls is, then."""
    flow = side_by_side(ACT, 2)
    done = asyncio.Event()
    LEDGER.does("s1", waiting_for(done))
    LEDGER.does("s2", waiting_for(done))
    engine, second = await world.engine(flow), await world.engine(flow)
    run = await engine.submit(flow, "o-1", key="o-1")
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("s1"))
    await until(LEDGER.began("s2"))
    for each in (engine, second):
        with refused(Code.CONFLICT):
            await each.recover_abandoned(run.id, credential="key-of-bea", command_id="c-1")
    done.set()
    assert (await driving).status == "succeeded"


async def test_a_call_that_was_recovered_while_it_ran_only_merges_its_receipt(world: World) -> None:
    """The person was wrong: no second call, and the truth is kept beside the status."""
    theirs, ours = await in_hand(world, ONE), await world.engine(ONE)
    await ours.recover_abandoned(theirs.run_id, credential="key-of-bea")
    seen = await theirs.ends()
    step = step_of(seen)
    assert (seen.status, step.status) == ("outcome_unknown", "unknown")
    assert (step.receipt, step.acted, step.charged_micros) == ("succeeded", "yes", COST)


async def test_where_nothing_is_in_a_call_nothing_is_recovered(world: World) -> None:
    engine = await world.engine(ONE)
    run = await engine.submit(ONE, "o-1", key="o-1")
    await engine.recover_abandoned(run.id, credential="key-of-bea")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    assert await abandonments(engine, run.id) == []


# --- going on elsewhere ---------------------------------------------------------------------------


async def test_going_on_after_an_answer_repeats_nothing_of_what_went_before(world: World) -> None:
    """Case A16: ten rounds of a write and a question, each answered and driven elsewhere."""
    rounds = 10

    @workflow("shop.rounds", version="1")
    def rounds_of(flow: Flow, order: str) -> str:
        said = order
        for number in range(rounds):
            written = flow.tool(f"write{number}", ACT.on(said))
            said = flow.human(f"ask{number}", str, prompt="Go on?", after=[written]).output
        return said

    engine = await world.engine(rounds_of)
    run = await engine.submit(rounds_of, "o-1", key="o-1")
    for number in range(rounds):
        engine = await world.elsewhere(rounds_of)
        await engine.run_until_settled(run.id)
        assert len(LEDGER.entered) == number + 1
        request = await engine.human_request(run.id, f"ask{number}")
        await engine.respond(
            run.id, f"ask{number}", request.digest, f"a{number}", credential="key-of-bea"
        )
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, seen.output) == ("succeeded", "a9")
    assert LEDGER.entered == [f"{run.id}/step:write{number}" for number in range(rounds)]
