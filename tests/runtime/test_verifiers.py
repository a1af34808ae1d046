"""Who asks the application for a person waits a bounded time, stops nobody, and fails closed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mayura.runtime import Code, Person
from mayura.runtime.people import VerifyHuman
from tests.runtime.shop import people, policy_for
from tests.runtime.test_approvals import ADA, ASKING, asked, steps_in
from tests.runtime.world import World, refused


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_verifier_that_does_not_answer_lets_nobody_in_and_stops_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    monkeypatch.setattr("mayura.runtime.people.VERIFY_TIME_S_MAX", 0.02)
    end = threading.Event()

    async def verify(credential: str) -> Person | None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.to_thread(end.wait, 10)
        return None

    def verify_plainly(credential: str) -> Person | None:
        end.wait(10)
        return None

    verifier: VerifyHuman = verify if kind == "async" else verify_plainly
    engine = await world.engine(ASKING, verify_human=verifier)
    run_id, request = await asked(engine)
    with refused(Code.PERMISSION_DENIED) as caught:
        await engine.approve(run_id, "act", request.digest, credential=ADA)
    end.set()
    assert "did not answer" in str(caught.value)
    assert "did not answer" in caplog.text
    assert ADA not in caplog.text
    assert await steps_in(engine, run_id) == "waiting"


async def test_a_plain_verifier_does_not_stop_the_loop(world: World) -> None:
    goes_on = threading.Event()

    def verify(credential: str) -> Person | None:
        return people(credential) if goes_on.wait(5) else None

    engine = await world.engine(ASKING, verify_human=verify)
    run_id, request = await asked(engine)
    deciding = asyncio.create_task(engine.approve(run_id, "act", request.digest, credential=ADA))
    await engine.inspect(run_id)
    goes_on.set()
    await deciding


async def test_who_names_nobody_is_told_how_to(world: World) -> None:
    policy = policy_for(ASKING, unverified_people=True)
    engine = await world.engine(ASKING, policy=policy, verify_human=None)
    run_id, request = await asked(engine)
    with refused(Code.PERMISSION_DENIED) as caught:
        await engine.approve(run_id, "act", request.digest)
    assert "`unverified`" in str(caught.value)
