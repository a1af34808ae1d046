"""Human requests: every field of the table, the typed answer, and its deadline."""

from __future__ import annotations

import asyncio
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from pydantic import BaseModel

from mayura.runtime import Code, Engine, Flow, MayuraError, RunId, workflow
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.inspection import HumanRequest
from tests.runtime.shop import LEDGER, acting, policy_for
from tests.runtime.world import World, everywhere, refused, step_of, steps_of

ACT = acting()
YES: JsonValue = {"publish": True, "note": "nice"}


class Plan(StrEnum):
    """What somebody chooses."""

    CHEAP = "cheap"
    FAST = "fast"


class Draft(BaseModel):
    """What somebody is asked about."""

    text: str = "hello"
    review_by: datetime | None = None


class Review(BaseModel):
    """The answer."""

    publish: bool
    note: str = ""


@workflow("posts.publish", version="1")
def publish(flow: Flow, draft: Draft) -> str:
    """Write, ask, write."""
    written = flow.tool("write", ACT.on(draft.text))
    review = flow.human(
        "review",
        Review,
        prompt="Is this ready?",
        schema_id="posts.review",
        context=written.output,
        deadline=draft.review_by,
    )
    return flow.tool("post", ACT.on(review.output.note)).output


@workflow("posts.correct", version="1")
def correct(flow: Flow, digest: str) -> str:
    """A correction, and then a choice of plan."""
    asked = flow.human(
        "fix", str, prompt="What should it say?", kind="correction", subject_digest=digest
    )
    plan = flow.human("plan", Plan, prompt="How?", kind="plan_selection", after=[asked])
    return flow.tool("apply", ACT.on(plan.output)).output


async def asking(
    engine: Engine, draft: Draft | None = None, key: str = "o-1"
) -> tuple[RunId, HumanRequest]:
    """A run that waits for its review."""
    run = await engine.submit(publish, draft or Draft(), key=key)
    seen = await engine.run_until_settled(run.id)
    assert seen.status == "waiting"
    return run.id, await engine.human_request(run.id, "review")


def by(seconds: float, world: World) -> Draft:
    """A draft that is to be reviewed by then."""
    return Draft(review_by=datetime.fromisoformat(world.clock.iso(seconds)))


async def test_a_request_shows_everything_that_its_digest_binds(world: World) -> None:
    engine = await world.engine(publish)
    run_id, request = await asking(engine, by(60, world))
    assert (request.run_id, request.node, request.kind) == (run_id, "review", "information")
    assert (request.prompt, request.schema_id) == ("Is this ready?", "posts.review")
    assert request.context == "write", "what the person is shown"
    assert request.deadline_us == world.clock.wall_us + 60_000_000
    assert request.subject_digest is None
    assert isinstance(request.schema, dict)
    assert len(request.digest) == 64


async def test_a_correction_names_what_it_corrects_and_plans_are_chosen(world: World) -> None:
    engine = await world.engine(correct)
    subject = sha256(b"the post").hexdigest()
    run = await engine.submit(correct, subject, key="o-1")
    await engine.run_until_settled(run.id)
    request = await engine.human_request(run.id, "fix")
    assert (request.kind, request.subject_digest) == ("correction", subject)
    await engine.respond(run.id, "fix", request.digest, "Hello!", credential="key-of-ada")
    await engine.run_until_settled(run.id)
    request = await engine.human_request(run.id, "plan")
    assert request.kind == "plan_selection"
    with refused(Code.INVALID_INPUT):
        await engine.respond(run.id, "plan", request.digest, "slow", credential="key-of-ada")
    await engine.respond(run.id, "plan", request.digest, "fast", credential="key-of-ada")
    assert (await engine.run_until_settled(run.id)).status == "succeeded"
    assert LEDGER.inputs["apply"] == "fast"


@everywhere
async def test_writes_before_and_after_a_person_happen_once_each(world: World) -> None:
    """Case A16: no answer makes an earlier step happen again."""
    engine = await world.engine(publish)
    run_id, request = await asking(engine)
    assert (len(LEDGER.of("write")), len(LEDGER.of("post"))) == (1, 0)
    await engine.respond(run_id, "review", request.digest, YES, credential="key-of-ada")
    seen = await engine.run_until_settled(run_id)
    assert steps_of(seen) == {"write": "succeeded", "review": "succeeded", "post": "succeeded"}
    assert LEDGER.inputs["post"] == "nice"
    assert len(LEDGER.entered) == 2


@everywhere
async def test_an_answer_to_another_question_is_refused(world: World) -> None:
    engine = await world.engine(publish)
    first, request = await asking(engine)
    _, other = await asking(engine, key="o-2")
    assert request.digest != other.digest
    with refused(Code.CONFLICT):
        await engine.respond(first, "review", other.digest, YES, credential="key-of-ada")
    with refused(Code.NOT_FOUND):
        await engine.respond(first, "revew", request.digest, YES, credential="key-of-ada")
    with refused(Code.NOT_FOUND):
        await engine.respond(first, "post", request.digest, YES, credential="key-of-ada")


@everywhere
async def test_the_same_answer_again_changes_nothing_and_another_is_a_conflict(
    world: World,
) -> None:
    """Case J10: before and after the step went on."""
    engine = await world.engine(publish)
    run_id, request = await asking(engine)
    ada = {"credential": "key-of-ada", "command_id": "c-1"}
    await engine.respond(run_id, "review", request.digest, YES, **ada)
    revision = (await engine.inspect(run_id)).revision
    for _ in range(2):
        await engine.respond(run_id, "review", request.digest, YES, **ada)
        others: list[tuple[JsonValue, str]] = [
            ({"publish": False}, "c-1"),
            ({"publish": False}, "c-2"),
            (YES, "c-2"),
        ]
        for value, command in others:
            with refused(Code.CONFLICT):
                await engine.respond(
                    run_id, "review", request.digest, value,
                    credential="key-of-ada", command_id=command,
                )  # fmt: skip
        with refused(Code.CONFLICT):
            await engine.respond(
                run_id, "review", request.digest, YES, credential="key-of-bob", command_id="c-1"
            )
        assert (await engine.inspect(run_id)).revision == revision
        await engine.run_until_settled(run_id)
        revision = (await engine.inspect(run_id)).revision
    assert LEDGER.inputs["post"] == "nice", "the first answer stays"


async def test_an_answer_that_does_not_fit_leaves_the_question_open(world: World) -> None:
    engine = await world.engine(publish)
    run_id, request = await asking(engine)
    values: list[JsonValue] = [
        None,
        [],
        {"publish": "perhaps"},
        {"publish": True, "surplus": 1, "note": 3},
        {"publish": True, "note": "a\0b"},
        {"publish": True, "note": "\ud800"},
        {"publish": float("nan")},
    ]
    for value in values:
        with refused(Code.INVALID_INPUT):
            await engine.respond(run_id, "review", request.digest, value, credential="key-of-ada")
    assert await engine.human_request(run_id, "review") == request


async def test_who_may_answer_is_for_the_verifier_to_say(world: World) -> None:
    engine = await world.engine(publish)
    run_id, request = await asking(engine)
    for nobody in ({}, {"credential": "forged"}, {"unverified": "ada"}, {"credential": ""}):
        with refused(Code.PERMISSION_DENIED):
            await engine.respond(run_id, "review", request.digest, YES, **nobody)
    assert (await engine.inspect(run_id)).revision == 4, "nothing was written"


async def test_a_person_is_stored_and_their_credential_is_not(world: World) -> None:
    engine = await world.engine(publish)
    run_id, request = await asking(engine)
    await engine.respond(run_id, "review", request.digest, YES, credential="key-of-ada")
    (answered,) = [e for e in await engine.events(run_id) if e.type == "question.answered"]
    assert {k: answered.data[k] for k in ("person", "issuer", "method")} == {
        "person": "ada",
        "issuer": "shop",
        "method": "key",
    }
    dump = await world.place.dump()
    assert "key-of-ada" not in dump


async def test_an_unverified_person_may_answer_where_the_policy_says_so(world: World) -> None:
    engine = await world.engine(publish, policy=policy_for(publish, unverified_people=True))
    run_id, request = await asking(engine)
    for name in ("", "a\nb", "x" * 257):
        with refused(Code.INVALID_INPUT):
            await engine.respond(run_id, "review", request.digest, YES, unverified=name)
    await engine.respond(run_id, "review", request.digest, YES, unverified="ops")
    (answered,) = [e for e in await engine.events(run_id) if e.type == "question.answered"]
    assert answered.data["unverified"] is True
    assert (await engine.run_until_settled(run_id)).status == "succeeded"


async def test_after_its_deadline_a_question_times_out_and_takes_no_answer(world: World) -> None:
    engine = await world.engine(publish)
    run_id, request = await asking(engine, by(60, world))
    world.clock.advance(59.999)
    assert await engine.human_request(run_id, "review") == request
    world.clock.advance(0.001)
    with refused(Code.CONFLICT):
        await engine.respond(run_id, "review", request.digest, YES, credential="key-of-ada")
    with refused(Code.NOT_FOUND):
        await engine.human_request(run_id, "review")
    seen = await engine.run_until_settled(run_id)
    assert seen.status == "failed"
    step = step_of(seen, "review")
    assert (step.status, step.code) == ("timed_out", Code.TIMEOUT)
    assert steps_of(seen)["post"] == "skipped"
    with refused(Code.CONFLICT):
        await engine.respond(run_id, "review", request.digest, YES, credential="key-of-ada")


async def test_an_answer_in_time_counts_however_late_it_is_looked_at(world: World) -> None:
    """G13: an acknowledged answer is never dropped."""
    engine = await world.engine(publish)
    run_id, request = await asking(engine, by(60, world))
    await engine.respond(run_id, "review", request.digest, YES, credential="key-of-ada")
    with refused(Code.NOT_FOUND):
        await engine.human_request(run_id, "review")
    world.clock.advance(3600)
    assert (await engine.run_until_settled(run_id)).status == "succeeded"


async def test_a_deadline_that_has_passed_when_the_question_comes_up_times_out(
    world: World,
) -> None:
    engine = await world.engine(publish)
    run = await engine.submit(publish, by(-1, world), key="o-1")
    seen = await engine.run_until_settled(run.id)
    assert steps_of(seen)["review"] == "timed_out"


async def test_of_two_people_who_answer_at_once_one_is_heard(world: World) -> None:
    engine, elsewhere = await world.engine(publish), await world.elsewhere(publish)
    run_id, request = await asking(engine)
    answers = [
        each.respond(
            run_id, "review", request.digest, {"publish": True, "note": name},
            credential=f"key-of-{name}",
        )
        for each, name in ((engine, "ada"), (elsewhere, "bob"), (engine, "eve"))
    ]  # fmt: skip
    done = await asyncio.gather(*answers, return_exceptions=True)
    assert sum(answer is None for answer in done) == 1
    refusals = [answer for answer in done if isinstance(answer, MayuraError)]
    assert [refusal.code for refusal in refusals] == [Code.CONFLICT] * 2
    (answered,) = [e for e in await engine.events(run_id) if e.type == "question.answered"]
    await engine.run_until_settled(run_id)
    assert LEDGER.inputs["post"] == answered.data["person"]


async def test_an_answer_while_paused_is_kept(world: World) -> None:
    engine = await world.engine(publish)
    run_id, request = await asking(engine)
    await engine.pause(run_id, by="ops")
    await engine.respond(run_id, "review", request.digest, YES, credential="key-of-ada")
    assert (await engine.run_until_settled(run_id)).status == "paused"
    await engine.resume(run_id, by="ops")
    assert (await engine.run_until_settled(run_id)).status == "succeeded"
