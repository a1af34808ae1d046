"""A store that went back behind a dispatch: what the process of the call still knows (G15)."""

from __future__ import annotations

import asyncio
import copy

import pytest

from mayura.runtime import Code
from tests.runtime.shop import LEDGER, acting, one_step, waiting_for
from tests.runtime.world import InMemory, World, refused, until

ONE = one_step(acting())


@pytest.mark.parametrize("empty_world", ["memory"], indirect=True)
async def test_a_call_whose_dispatch_vanished_is_not_made_again_and_its_receipt_is_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(world.place, InMemory)
    runs = world.place.database.runs
    engine, done = await world.engine(ONE), asyncio.Event()
    LEDGER.does("act", waiting_for(done))
    run = await engine.submit(ONE, "o-1", key="o-1")
    backup = copy.deepcopy(runs[run.id])
    driving = asyncio.create_task(engine.run_until_settled(run.id))
    await until(LEDGER.began("act"))
    runs[run.id] = backup
    beside = asyncio.create_task(engine.run_until_settled(run.id))  # finds a step to begin
    done.set()
    for asked in (driving, beside):
        with refused(Code.INTEGRITY_VIOLATION):
            await asked
    assert LEDGER.entered == [f"{run.id}/step:act"]
    key = LEDGER.calls["act"].key
    said = [record.getMessage() for record in caplog.records if record.name == "mayura.runtime"]
    assert [text for text in said if f"call {run.id}/step:act (key {key}, " in text]
    assert [text for text in said if text.endswith("its receipt: succeeded")]
    del runs[run.id]  # what it holds is in no order that any store could have
