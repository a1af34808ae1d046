"""What a review found, each as a test of what must hold."""

from __future__ import annotations

import asyncio

from mayura.runtime import Code, Flow, Workflow, workflow
from mayura.runtime.call import Call, Refusal
from tests.runtime.shop import LEDGER, acting, one_step, policy_for
from tests.runtime.world import World, everywhere, step_of, until

ONCE = acting("shop.refund", once="order")
FREE = acting("shop.look", effects="none")


def refund_again() -> Workflow[str, str]:
    """`a` and, after `c`, `b`: two calls for one subject in one run."""

    @workflow("shop.again", version="1")
    def again(flow: Flow, order: str) -> str:
        flow.tool("a", ONCE.on(order))
        c = flow.tool("c", FREE.on(order))
        return flow.tool("b", ONCE.on(order), after=[c]).output

    return again


@everywhere
async def test_a_subject_given_back_is_held_by_the_call_that_takes_it_in_the_same_wave(
    world: World,
) -> None:
    """A refusal gives the subject back; what became ready beside it must truly take it (G16)."""
    again, single = refund_again(), one_step(ONCE)
    engine = await world.engine(again, single, policy=policy_for(again, single))
    go = asyncio.Event()

    async def refuses(call: Call) -> str:
        await go.wait()
        raise Refusal("not now")

    async def looks(call: Call) -> str:
        await go.wait()
        return "seen"

    LEDGER.does("a", refuses)
    LEDGER.does("c", looks)
    first = (await engine.submit(again, "o-1", key="first")).id
    driving = asyncio.create_task(engine.run_until_settled(first))
    await until(LEDGER.began("a"))
    await until(LEDGER.began("c"))
    go.set()
    seen = await driving
    assert step_of(seen, "b").status == "succeeded"
    second = (await engine.submit(single, "o-1", key="second")).id
    seen = await engine.run_until_settled(second)
    assert step_of(seen).code is Code.ALREADY_DONE
    assert LEDGER.of("act") == []
