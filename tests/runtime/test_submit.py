"""Submissions: a key is one run for ever, whatever became of it."""

from __future__ import annotations

import asyncio

import pytest

from mayura.runtime import Code, Engine, RunId, Scope, SubmitConflict
from tests.runtime.meddling import submitting
from tests.runtime.shop import (
    LEDGER,
    acting,
    one_step,
    policy_for,
    raising,
    refusing,
    two_steps,
    waiting_for,
)
from tests.runtime.world import World, everywhere, refused, until

ONE = one_step(acting())
SECRET = "card 4711 0815"


async def _run(engine: Engine, run_id: RunId) -> str:
    return str((await engine.run_until_settled(run_id)).status)


@everywhere
@pytest.mark.parametrize(
    "state", ["running", "succeeded", "failed", "outcome_unknown", "cancelled", "paused"]
)
async def test_the_identical_request_finds_its_run_whatever_became_of_it(
    world: World, state: str
) -> None:
    """Case A18: the same run, no second effect, and no error."""
    engine, elsewhere = await world.engine(ONE), await world.elsewhere(ONE)
    done = asyncio.Event()
    bodies = {
        "running": waiting_for(done),
        "failed": refusing(),
        "outcome_unknown": raising(ValueError()),
    }
    if state in bodies:
        LEDGER.does("act", bodies[state])
    first = await engine.submit(ONE, "o-1", key="o-1", requested_by="ada")
    assert first.created
    driving = None
    if state == "running":
        driving = asyncio.create_task(engine.run_until_settled(first.id))
        await until(LEDGER.began("act"))
    elif state == "cancelled":
        await engine.cancel(first.id, by="ops")
    elif state == "paused":
        await engine.pause(first.id, by="ops")
    else:
        assert await _run(engine, first.id) == state
    entered = list(LEDGER.entered)
    for each in (engine, elsewhere):
        again = await each.submit(ONE, "o-1", key="o-1", requested_by="ada")
        assert (again.id, again.created) == (first.id, False)
    if state not in ("running", "paused"):
        assert await _run(elsewhere, first.id) == state
    assert LEDGER.entered == entered
    done.set()
    if driving is not None:
        assert (await driving).status == "succeeded"


@everywhere
async def test_of_many_who_submit_at_once_one_makes_the_run(world: World) -> None:
    engines = [await world.engine(ONE), *[await world.elsewhere(ONE) for _ in range(2)]]
    submitted = await asyncio.gather(
        *(each.submit(ONE, "o-1", key="o-1") for each in engines for _ in range(5))
    )
    assert sum(each.created for each in submitted) == 1
    assert len({each.id for each in submitted}) == 1


async def test_another_submission_under_a_key_is_refused_by_what_differs(world: World) -> None:
    """Case N2: which field, never its content; and which run holds the key."""
    other, renewed = two_steps(acting()), one_step(acting(), version="2")
    engine = await world.engine(ONE, other, renewed)
    strict = await world.engine(ONE, other, renewed, policy=policy_for(ONE, version="2"))
    first = await engine.submit(ONE, SECRET, key="o-1", requested_by="ada")
    others = [
        ("input", engine.submit(ONE, f"{SECRET}!", key="o-1", requested_by="ada")),
        ("requester", engine.submit(ONE, SECRET, key="o-1", requested_by="bob")),
        ("requester", engine.submit(ONE, SECRET, key="o-1")),
        ("definition", engine.submit(other, SECRET, key="o-1", requested_by="ada")),
        ("definition", engine.submit(renewed, SECRET, key="o-1", requested_by="ada")),
        ("policy", strict.submit(ONE, SECRET, key="o-1", requested_by="ada")),
    ]
    for differs, submission in others:
        with pytest.raises(SubmitConflict) as caught:
            await submission
        assert caught.value.code is Code.CONFLICT
        assert (caught.value.run_id, caught.value.status) == (first.id, "running")
        assert differs in str(caught.value)
        assert SECRET not in str(caught.value)
        assert "ada" not in str(caught.value)
    assert (await engine.inspect(first.id)).revision == 1, "it is none the worse for it"


@everywhere
async def test_a_key_taken_in_another_scope_is_free_in_ours(world: World) -> None:
    """Case N2."""
    ours = await world.engine(ONE, store=await world.store(Scope("orders", "shop")))
    theirs = await world.engine(ONE, store=await world.store(Scope("mallory", "shop")))
    taken = await theirs.submit(ONE, "a trap", key="o-1")
    run = await ours.submit(ONE, "o-1", key="o-1")
    assert run.created
    assert run.id != taken.id
    assert await _run(ours, run.id) == "succeeded"


async def test_an_identical_request_after_the_policy_changed_needs_the_old_one(
    world: World,
) -> None:
    """A key belongs to everything that was asked for, the settings included."""
    old, new = policy_for(ONE), policy_for(ONE, version="2")
    before = await world.engine(ONE, policy=old)
    await before.submit(ONE, "o-1", key="o-1")
    after = await world.engine(ONE, policy=new, previous_policies=[old])
    with refused(Code.CONFLICT):
        await after.submit(ONE, "o-1", key="o-1")


async def test_nobody_can_find_out_an_input_by_submitting_guesses_elsewhere(
    world: World,
) -> None:
    """Payload digests are keyed with a salt of the run's own."""
    engine = await world.engine(ONE)
    for key in ("o-1", "o-2"):
        await engine.submit(ONE, SECRET, key=key)
    store = await world.store()
    runs = [await store.load(run_id) for run_id in await world.place.run_ids()]
    salts = {loaded.run.salt for loaded in runs if loaded is not None}
    assert len(salts) == 2


@everywhere
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_submission_whose_answer_was_lost_is_sent_again(world: World, when: str) -> None:
    """Acknowledged or not, the same request leads to one run (G13)."""
    store = submitting(await world.store(), fails=when)
    engine = await world.engine(ONE, store=store)
    with refused(Code.STORAGE_UNAVAILABLE):
        await engine.submit(ONE, "o-1", key="o-1")
    run = await engine.submit(ONE, "o-1", key="o-1")
    assert run.created == (when == "before")
    assert await _run(engine, run.id) == "succeeded"
    assert len(LEDGER.entered) == 1


@everywhere
async def test_a_submitted_run_is_due_for_whoever_sweeps(world: World) -> None:
    """G13: an acknowledged submission moves on as long as one worker lives."""
    server, worker = await world.engine(ONE), await world.elsewhere(ONE)
    runs = [await server.submit(ONE, "o", key=f"o-{number}") for number in range(5)]
    await world.crash(server)
    swept = await worker.run_once()
    assert sorted(swept.advanced) == sorted(run.id for run in runs)
    assert (swept.failed, swept.not_loaded) == ((), ())
    assert (await worker.run_once()).advanced == ()


async def test_a_sweep_takes_no_more_runs_than_it_was_told(world: World) -> None:
    engine = await world.engine(ONE)
    for number in range(5):
        await engine.submit(ONE, "o", key=f"o-{number}")
    assert [len((await engine.run_once(limit=2)).advanced) for _ in range(4)] == [2, 2, 1, 0]
