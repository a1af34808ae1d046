"""Approvals: bound to the exact call and to one expiry, decided once, by a person who may."""

from __future__ import annotations

import asyncio

import pytest

from mayura.runtime import Code, Engine, Flow, Guard, MayuraError, Person, Policy, RunId, workflow
from mayura.runtime.inspection import ApprovalRequest
from tests.runtime.shop import LEDGER, acting, grants_of, one_step, policy_for, two_steps
from tests.runtime.world import World, everywhere, refused, step_of, steps_of

ACT = acting()
ASKING = one_step(ACT, approval=True)
HOUR_S = 3600
TWO = two_steps(ACT, approval=True)
ADA, BOB = "key-of-ada", "key-of-bob"


async def asked(
    engine: Engine, key: str = "o-1", requested_by: str | None = None
) -> tuple[RunId, ApprovalRequest]:
    """A run that waits for an approval, and the request."""
    run = await engine.submit(ASKING, "o-1", key=key, requested_by=requested_by)
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, step_of(seen).status) == ("waiting", "waiting")
    return run.id, await engine.approval_request(run.id, "act")


@everywhere
async def test_a_call_is_made_only_after_a_person_approved_exactly_it(world: World) -> None:
    engine = await world.engine(TWO)
    run = await engine.submit(TWO, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert "approval" in seen.why
    assert not LEDGER.of("then")
    request = await engine.approval_request(run.id, "then")
    assert (request.tool, request.version) == ("shop.act", "1")
    assert request.input == {"order": "first"}, "what the person is shown is what is called"
    await engine.approve(run.id, "then", request.digest, credential=ADA)
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    assert LEDGER.inputs["then"] == "first"
    (approved,) = [e for e in await engine.events(run.id) if e.type == "approval.approved"]
    assert (approved.data["person"], approved.data["digest"]) == ("ada", request.digest)
    with refused(Code.NOT_FOUND):
        await engine.approval_request(run.id, "then")


@everywhere
async def test_an_approval_wakes_its_run(world: World) -> None:
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine)
    assert (await engine.run_once()).advanced == ()
    await (await world.elsewhere(ASKING)).approve(run_id, "act", request.digest, credential=ADA)
    assert (await engine.run_once()).advanced == (run_id,)
    assert (await engine.inspect(run_id)).status == "succeeded"


async def test_a_digest_approves_nothing_else(world: World) -> None:
    engine = await world.engine(ASKING, TWO)
    first, request = await asked(engine)
    second, other = await asked(engine, key="o-2")
    assert request.digest != other.digest
    for digest in (other.digest, "0" * 64, "", "zz"):
        with refused(Code.CONFLICT):
            await engine.approve(first, "act", digest, credential=ADA)
    with refused(Code.NOT_FOUND):
        await engine.approve(first, "atc", request.digest, credential=ADA)
    assert [await steps_in(engine, run) for run in (first, second)] == ["waiting", "waiting"]


async def steps_in(engine: Engine, run_id: RunId) -> str:
    return steps_of(await engine.inspect(run_id))["act"]


@everywhere
async def test_the_same_decision_again_changes_nothing_and_any_other_is_a_conflict(
    world: World,
) -> None:
    """Case J4: a double click, another decision, another person; one dispatch."""
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine)
    await engine.approve(run_id, "act", request.digest, credential=ADA)
    for _ in range(2):
        revision = (await engine.inspect(run_id)).revision
        await engine.approve(run_id, "act", request.digest, credential=ADA)
        with refused(Code.CONFLICT):
            await engine.reject(run_id, "act", request.digest, credential=ADA)
        for decide in (engine.approve, engine.reject):
            with refused(Code.CONFLICT):
                await decide(run_id, "act", request.digest, credential=BOB)
        assert (await engine.inspect(run_id)).revision == revision
        await engine.run_until_settled(run_id)
    assert len(LEDGER.entered) == 1


@everywhere
async def test_of_two_people_who_decide_at_once_one_decides(world: World) -> None:
    engine, elsewhere = await world.engine(ASKING), await world.elsewhere(ASKING)
    run_id, request = await asked(engine)
    done = await asyncio.gather(
        engine.approve(run_id, "act", request.digest, credential=ADA),
        elsewhere.reject(run_id, "act", request.digest, credential=BOB),
        elsewhere.approve(run_id, "act", request.digest, credential="key-of-eve"),
        return_exceptions=True,
    )
    assert sum(each is None for each in done) == 1
    conflicts = [each.code for each in done if isinstance(each, MayuraError)]
    assert conflicts == [Code.CONFLICT] * 2
    seen = await engine.run_until_settled(run_id)
    assert seen.status == ("blocked" if done[1] is None else "succeeded")


@everywhere
async def test_a_rejected_step_is_blocked_and_nothing_acted(world: World) -> None:
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine)
    await engine.reject(run_id, "act", request.digest, credential=ADA, reason="Too dear.")
    await engine.reject(run_id, "act", request.digest, credential=ADA, reason="Too dear.")
    seen = await engine.run_until_settled(run_id)
    step = step_of(seen)
    assert (seen.status, step.status, step.code) == ("blocked", "blocked", Code.REJECTED)
    assert (step.acted, step.receipt) == ("no", None)
    assert not LEDGER.entered
    assert "Too dear." not in str(await engine.events(run_id)), "events hold no payloads"


@pytest.mark.parametrize("reason", ["x" * 513, "a\0b", "\ud800"])
async def test_a_reason_that_cannot_be_kept_is_refused(world: World, reason: str) -> None:
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine)
    with pytest.raises(MayuraError):
        await engine.approve(run_id, "act", request.digest, credential=ADA, reason=reason)
    assert await steps_in(engine, run_id) == "waiting"


# --- who may decide -------------------------------------------------------------------------------


async def test_only_a_person_that_the_verifier_knows_decides(world: World) -> None:
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine)
    for nobody in ({}, {"credential": "forged"}, {"credential": ""}, {"unverified": "ada"}):
        for decide in (engine.approve, engine.reject):
            with refused(Code.PERMISSION_DENIED):
                await decide(run_id, "act", request.digest, **nobody)
    assert await steps_in(engine, run_id) == "waiting"


@pytest.mark.parametrize(
    "broken", ["raises", "says yes", "names nobody", "forges a line", "knows it is unverified"]
)
async def test_a_verifier_that_does_not_verify_lets_nobody_in(
    world: World, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    def verify(credential: str) -> Person | None:
        if broken == "raises":
            raise KeyError(credential)
        if broken == "says yes":
            return True  # type: ignore[return-value]
        if broken == "knows it is unverified":
            return Person(id="ada", verified=False)
        return Person(id="" if broken == "names nobody" else "ada\nroot")

    engine = await world.engine(ASKING, verify_human=verify)
    run_id, request = await asked(engine)
    with pytest.raises(MayuraError) as caught:
        await engine.approve(run_id, "act", request.digest, credential=ADA)
    assert caught.value.code in (Code.PERMISSION_DENIED, Code.INVALID_INPUT)
    assert ADA not in str(caught.value)
    assert await steps_in(engine, run_id) == "waiting"
    assert ADA not in caplog.text
    if broken == "raises":
        assert "KeyError at " in caplog.text
        assert caught.value.__cause__ is None, "whose text holds the credential"


async def test_an_async_verifier_is_waited_for(world: World) -> None:
    async def verify(credential: str) -> Person:
        await asyncio.sleep(0)
        return Person(id="ada", issuer="shop", method="passkey")

    engine = await world.engine(ASKING, verify_human=verify)
    run_id, request = await asked(engine)
    await engine.approve(run_id, "act", request.digest, credential="anything")
    (approved,) = [e for e in await engine.events(run_id) if e.type == "approval.approved"]
    assert approved.data["method"] == "passkey"
    assert "unverified" not in approved.data


async def test_an_unverified_person_decides_where_the_policy_says_so(world: World) -> None:
    policy = policy_for(ASKING, unverified_people=True)
    engine = await world.engine(ASKING, policy=policy, verify_human=None)
    run_id, request = await asked(engine)
    await engine.approve(run_id, "act", request.digest, unverified="ops@host")
    (approved,) = [e for e in await engine.events(run_id) if e.type == "approval.approved"]
    assert (approved.data["person"], approved.data["unverified"]) == ("ops@host", True)


async def test_whoever_requested_a_run_does_not_approve_it_where_duties_are_separate(
    world: World,
) -> None:
    policy = policy_for(ASKING, separation_of_duties=True)
    engine = await world.engine(ASKING, policy=policy)
    run_id, request = await asked(engine, requested_by="ada")
    for decide in (engine.approve, engine.reject):
        with refused(Code.PERMISSION_DENIED):
            await decide(run_id, "act", request.digest, credential=ADA)
    await engine.approve(run_id, "act", request.digest, credential=BOB)
    assert (await engine.run_until_settled(run_id)).status == "succeeded"


async def test_where_duties_are_separate_somebody_must_have_requested_the_run(
    world: World,
) -> None:
    """Else nobody could be told apart from whoever did; and a run of before stays unapproved."""
    policy = policy_for(ASKING, separation_of_duties=True)
    free = one_step(ACT, name="shop.free")
    engine = await world.engine(ASKING, free, policy=policy)
    with refused(Code.INVALID_INPUT) as caught:
        await engine.submit(ASKING, "o-1", key="o-1")
    assert "node 'act' asks for an approval" in str(caught.value)
    assert "requested_by" in str(caught.value)
    await engine.submit(free, "o-1", key="asks nobody")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mayura.runtime.engine.refuse_no_requester", lambda *_: None)
        run_id, request = await asked(engine)
    for decide in (engine.approve, engine.reject):
        with refused(Code.PERMISSION_DENIED) as caught:
            await decide(run_id, "act", request.digest, credential=BOB)
        assert "nobody is named" in str(caught.value)


async def test_without_separate_duties_whoever_requested_a_run_may_approve_it(
    world: World,
) -> None:
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine, requested_by="ada")
    await engine.approve(run_id, "act", request.digest, credential=ADA)
    assert (await engine.run_until_settled(run_id)).status == "succeeded"


# --- until when -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("off_ms", "taken"), [(-1, True), (0, False), (1, False)])
async def test_an_expiry_is_the_stores_clock_and_nobodys_sweep(
    world: World, off_ms: int, taken: bool
) -> None:
    """Cases J2 and J8: a millisecond before it a request is open, a millisecond after it is not."""
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine)
    world.clock.advance(HOUR_S + off_ms / 1_000)
    if taken:
        assert await engine.approval_request(run_id, "act") == request
        await engine.approve(run_id, "act", request.digest, credential=ADA)
    else:
        with refused(Code.NOT_FOUND):
            await engine.approval_request(run_id, "act")
        for decide in (engine.approve, engine.reject):
            with refused(Code.CONFLICT):
                await decide(run_id, "act", request.digest, credential=ADA)


async def test_a_lapsed_request_is_asked_anew_with_another_digest(world: World) -> None:
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine)
    world.clock.advance(HOUR_S)
    assert (await engine.run_once()).advanced == (run_id,)
    again = await engine.approval_request(run_id, "act")
    assert again.digest != request.digest
    assert again.expires_at_us == request.expires_at_us + HOUR_S * 1_000_000
    with refused(Code.CONFLICT):
        await engine.approve(run_id, "act", request.digest, credential=ADA)
    await engine.approve(run_id, "act", again.digest, credential=ADA)
    assert (await engine.run_until_settled(run_id)).status == "succeeded"


@pytest.mark.parametrize(("later_s", "calls"), [(HOUR_S - 1, 1), (HOUR_S, 0)])
async def test_an_approval_is_good_for_its_lifetime_from_the_decision(
    world: World, later_s: float, calls: int
) -> None:
    """G13: given just before the expiry, it does not lapse with the request."""
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine)
    world.clock.advance(HOUR_S - 1)
    await engine.approve(run_id, "act", request.digest, credential=ADA)
    world.clock.advance(later_s)
    seen = await engine.run_until_settled(run_id)
    assert len(LEDGER.entered) == calls
    assert seen.status == ("succeeded" if calls else "waiting"), "lapsed: asked anew"


async def test_an_approval_while_paused_is_kept_and_nothing_lapses(world: World) -> None:
    """G13: the pause's time is given back beside the digest, which keeps the first expiry."""
    engine = await world.engine(ASKING)
    run_id, request = await asked(engine)
    world.clock.advance(HOUR_S - 60)
    await engine.pause(run_id, by="ops")
    world.clock.advance(7 * 24 * HOUR_S)
    assert (await engine.approval_request(run_id, "act")).digest == request.digest
    await engine.resume(run_id, by="ops")
    kept = await engine.approval_request(run_id, "act")
    assert kept.digest == request.digest
    assert kept.expires_at_us == world.clock.wall_us + 60 * 1_000_000
    await engine.pause(run_id, by="ops")
    world.clock.advance(2 * HOUR_S)
    await engine.approve(run_id, "act", request.digest, credential=ADA)
    world.clock.advance(2 * HOUR_S)
    assert not LEDGER.entered
    await engine.resume(run_id, by="ops")
    assert (await engine.run_until_settled(run_id)).status == "succeeded"


# --- what an approval does not do -----------------------------------------------------------------


async def test_nobody_is_asked_about_a_call_without_its_grants(world: World) -> None:
    engine = await world.engine(ASKING, policy=Policy(version="1", allow=grants_of(ASKING)[1:]))
    run = await engine.submit(ASKING, "o-1", key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, step_of(seen).code) == ("blocked", Code.PERMISSION_DENIED)


async def test_an_approval_adds_no_money(world: World) -> None:
    costly = one_step(acting("shop.costly", cost_micros=10), approval=True)
    engine = await world.engine(costly, policy=policy_for(costly, budget_micros=9))
    run = await engine.submit(costly, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    request = await engine.approval_request(run.id, "act")
    await engine.approve(run.id, "act", request.digest, credential=ADA)
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, step_of(seen).code) == ("blocked", Code.BUDGET_EXCEEDED)


async def test_a_guard_has_its_say_after_the_approval(world: World) -> None:
    no = Guard("no", "1", lambda value, about: False)
    guarded = one_step(acting(input_guards=[no]), approval=True)
    engine = await world.engine(guarded)
    run = await engine.submit(guarded, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    request = await engine.approval_request(run.id, "act")
    await engine.approve(run.id, "act", request.digest, credential=ADA)
    seen = await engine.run_until_settled(run.id)
    assert (seen.status, step_of(seen).code) == ("blocked", Code.GUARD_BLOCKED)
    assert not LEDGER.entered


async def test_siblings_are_asked_about_together_and_decided_one_by_one(world: World) -> None:
    @workflow("shop.several", version="1")
    def several(flow: Flow, order: str) -> list[str]:
        steps = [flow.tool(f"s{n}", ACT.on(order), approval=True) for n in range(5)]
        return flow.join("all", steps).output

    engine = await world.engine(several)
    run = await engine.submit(several, "o-1", key="o-1")
    await engine.run_until_settled(run.id)
    requests = [await engine.approval_request(run.id, f"s{n}") for n in range(5)]
    assert len({request.digest for request in requests}) == 5
    await asyncio.gather(
        *(
            engine.approve(run.id, request.node, request.digest, credential=ADA)
            for request in requests
        )
    )
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    assert len(LEDGER.entered) == 5


async def test_a_run_under_an_earlier_policy_can_still_be_approved(world: World) -> None:
    old, new = policy_for(ASKING), policy_for(ASKING, version="2", approval_lifetime=1)
    before = await world.engine(ASKING, policy=old)
    run_id, request = await asked(before)
    after = await world.engine(ASKING, policy=new, previous_policies=[old])
    assert await after.approval_request(run_id, "act") == request
    await after.approve(run_id, "act", request.digest, credential=ADA)
    assert (await after.run_until_settled(run_id)).status == "succeeded"
