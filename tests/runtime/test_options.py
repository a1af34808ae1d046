"""Every option of an engine and of its policy does what its row in the table says."""

from __future__ import annotations

import pytest

from mayura.runtime import Code, Engine, Policy, RunId, Scope
from tests.runtime.shop import acting, acting_in_thread, grants_of, one_step, policy_for, two_steps
from tests.runtime.world import World, everywhere, refused, step_of, steps_of

FREE = one_step(acting("shop.free"))
PAID = one_step(acting("shop.paid", cost_micros=10), name="shop.paying")


@everywhere
async def test_the_store_is_the_applications_to_close(world: World) -> None:
    store = await world.store()
    async with Engine(store, workflows=[FREE], policy=policy_for(FREE)) as engine:
        run = await engine.submit(FREE, "o-1", key="o-1")
    assert await store.load(run.id) is not None


@everywhere
async def test_runs_of_another_scope_are_not_there(world: World) -> None:
    ours = await world.engine(FREE, store=await world.store(Scope("orders", "shop")))
    theirs = await world.engine(FREE, store=await world.store(Scope("orders", "other")))
    run = await ours.submit(FREE, "o-1", key="o-1")
    with refused(Code.NOT_FOUND):
        await theirs.inspect(run.id)
    with refused(Code.NOT_FOUND):
        await theirs.events(run.id)
    with refused(Code.NOT_FOUND):
        await theirs.cancel(run.id, by="mallory")
    other = await theirs.submit(FREE, "another", key="o-1")
    assert other.created
    assert other.id != run.id
    await theirs.run_until_settled(other.id)
    await ours.run_until_settled(run.id)


@pytest.mark.parametrize("part", ["", "a\nb", "a\x1b[31m", "x" * 129, "\ud800"])
def test_a_scope_is_two_short_lines(part: str) -> None:
    """Case N8."""
    with refused(Code.INVALID_INPUT):
        Scope(part, "shop")
    with refused(Code.INVALID_INPUT):
        Scope("orders", part)


@pytest.mark.parametrize("missing", ["tool:shop.graded", "stock:write", "effect:write"])
async def test_a_step_without_one_of_its_grants_is_blocked(world: World, missing: str) -> None:
    graded = one_step(acting("shop.graded", capabilities=["stock:write"]))
    policy = Policy(version="1", allow=[g for g in grants_of(graded) if g != missing])
    engine = await world.engine(graded, policy=policy)
    run = await engine.submit(graded, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert seen.status == "blocked"
    step = step_of(seen)
    assert (step.status, step.code, step.acted) == ("blocked", Code.PERMISSION_DENIED, "no")
    blocked = [event for event in await engine.events(run.id) if event.type == "step.blocked"]
    assert missing in str(blocked[0].data["detail"])


async def test_another_policy_version_is_another_submission(world: World) -> None:
    first = await world.engine(FREE)
    run = await first.submit(FREE, "o-1", key="o-1")
    second = await world.engine(FREE, policy=policy_for(FREE, version="2"))
    with refused(Code.CONFLICT):
        await second.submit(FREE, "o-1", key="o-1")
    await first.run_until_settled(run.id)


async def test_a_budget_of_nothing_allows_only_free_tools(world: World) -> None:
    allow = [*grants_of(FREE), *grants_of(PAID)]
    engine = await world.engine(FREE, PAID, policy=Policy(version="1", allow=allow))
    free = await engine.submit(FREE, "o-1", key="free")
    paid = await engine.submit(PAID, "o-1", key="paid")
    assert (await engine.run_until_settled(free.id)).status == "succeeded"
    seen = await engine.run_until_settled(paid.id)
    assert (seen.status, step_of(seen).code) == ("blocked", Code.BUDGET_EXCEEDED)


async def test_the_budget_is_shared_by_all_steps_of_a_run_and_by_no_other_run(
    world: World,
) -> None:
    both = two_steps(acting("shop.paid", cost_micros=10))
    engine = await world.engine(both, policy=policy_for(both, budget_micros=15))
    for key in ("o-1", "o-2"):
        run = await engine.submit(both, key, key=key)
        seen = await engine.run_until_settled(run.id)
        assert steps_of(seen) == {"first": "succeeded", "then": "blocked"}
        assert (seen.budget.spent_micros, seen.budget.maximum_micros) == (10, 15)


async def test_without_a_verifier_nobody_can_approve(world: World) -> None:
    asking = one_step(acting(), approval=True)
    engine = await world.engine(asking, verify_human=None)
    run = await engine.submit(asking, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    request = await engine.approval_request(run.id, "act")
    with refused(Code.PERMISSION_DENIED):
        await engine.approve(run.id, "act", request.digest, credential="key-of-ada")
    with refused(Code.PERMISSION_DENIED):
        await engine.approve(run.id, "act", request.digest)


async def test_an_approval_is_good_for_an_hour_unless_the_policy_says_otherwise(
    world: World,
) -> None:
    asking = one_step(acting(), approval=True)
    quick = policy_for(asking, version="quick", approval_lifetime=90)
    for policy, seconds in ((policy_for(asking), 3600), (quick, 90)):
        engine = await world.engine(asking, policy=policy)
        run = await engine.submit(asking, "o-1", key=policy.version)
        await engine.run_until_settled(run.id)
        request = await engine.approval_request(run.id, "act")
        assert request.expires_at_us == world.clock.wall_us + seconds * 1_000_000


async def test_the_largest_input_output_and_result_are_the_policys(world: World) -> None:
    engine = await world.engine(FREE, policy=policy_for(FREE, output_bytes_max=20))
    with refused(Code.LIMIT_EXCEEDED):
        await engine.submit(FREE, "x" * 19, key="too-long")  # with its quotes 21 bytes
    run = await engine.submit(FREE, "x" * 4, key="short")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"


async def test_sixteen_earlier_policies_may_be_listed_and_no_more(world: World) -> None:
    earlier = [policy_for(FREE, version=f"old-{number}") for number in range(17)]
    with refused(Code.LIMIT_EXCEEDED):
        await world.engine(FREE, previous_policies=earlier)
    first = await world.engine(FREE, policy=earlier[3])
    run = await first.submit(FREE, "o-1", key="o-1")
    now = await world.engine(FREE, previous_policies=earlier[:16])
    assert (await now.run_until_settled(run.id)).status == "succeeded"


async def test_a_workflow_that_the_engine_was_not_given_cannot_be_submitted(world: World) -> None:
    engine = await world.engine(FREE)
    with refused(Code.INVALID_CONFIG):
        await engine.submit(PAID, "o-1", key="o-1")


async def test_the_margin_is_part_of_the_settle_deadline(world: World) -> None:
    slow = one_step(acting_in_thread(timeout=7))
    engine = await world.engine(slow, margin=3)
    run = await engine.submit(slow, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    loaded = await (await world.store()).load(run.id)
    assert loaded is not None
    (step,) = loaded.run.steps.values()
    assert step.dispatch is not None
    assert step.dispatch.settle_wait_us == 10_000_000


async def test_a_key_is_one_short_line(world: World) -> None:
    """Case N8."""
    engine = await world.engine(FREE)
    for key in ("", "a\nb", "a\0b", "\x1b[2J", "\x9b2J", "a\u2028b", "x" * 129, "\ud800"):
        with refused(Code.INVALID_INPUT):
            await engine.submit(FREE, "o-1", key=key)
        with refused(Code.INVALID_INPUT):
            await engine.submit(FREE, "o-1", key="o-1", requested_by=key * 3)


@everywhere
async def test_what_is_no_run_id_is_not_found(world: World) -> None:
    """Case N4."""
    engine = await world.engine(FREE)
    for text in ("", "o-1", "0" * 31, "G" * 32, "0" * 33, "'); --", "a\0b", "\ud800"):
        run_id = RunId(text)
        for ask in (engine.inspect, engine.events, engine.run_until_settled, engine.result):
            with refused(Code.NOT_FOUND):
                await ask(run_id)
        with refused(Code.NOT_FOUND):
            await engine.cancel(run_id, by="ada")
