"""What the simulation's loop promises: virtual time, seeded order, and deaths that run no code."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from random import Random
from typing import Any

import anyio
import pytest

from tests.simulation.loop import OWNER, Fate, SimulatedLoop, Stuck


def loop(seed: int = 1) -> SimulatedLoop:
    return SimulatedLoop(Random(seed))  # type: ignore[abstract]  # nobody asks for the rest


class Mortal:
    """An owner whose fate a test decides."""

    number = 1

    def __init__(self) -> None:
        self.next: Fate = "runs"
        self.aside: list[asyncio.Handle] = []

    def fate(self) -> Fate:
        return self.next

    def lay_aside(self, handle: asyncio.Handle) -> None:
        self.aside.append(handle)


def owned(simulated: SimulatedLoop, owner: Mortal, work: Coroutine[Any, Any, None]) -> None:
    context = copy_context()
    context.run(OWNER.set, owner)
    simulated.create_task(work, context=context)


def test_time_jumps_to_the_next_timer() -> None:
    simulated = loop()

    async def main() -> float:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 3_600)
            with anyio.move_on_after(60):
                await anyio.sleep_forever()
        return asyncio.get_running_loop().time()

    assert simulated.run(main()) == 3_600


def test_the_seed_decides_who_runs_next() -> None:
    def order(seed: int) -> list[int]:
        ran: list[int] = []

        async def one(number: int) -> None:
            await asyncio.sleep(0)
            ran.append(number)

        async def main() -> None:
            await asyncio.gather(*(one(number) for number in range(8)))

        loop(seed).run(main())
        return ran

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(10)}) > 5


def test_nothing_of_a_dead_owner_runs_again() -> None:
    simulated, owner, ran = loop(), Mortal(), []

    async def work() -> None:
        try:
            ran.append("begun")
            await asyncio.sleep(1)
            ran.append("gone on")
        finally:
            ran.append("cleared up")

    async def main() -> list[str]:
        owned(simulated, owner, work())
        await asyncio.sleep(0.5)
        owner.next = "dead"
        await asyncio.sleep(5)
        return list(ran)

    assert simulated.run(main()) == ["begun"]


def test_a_frozen_owner_goes_on_where_it_stopped() -> None:
    simulated, owner, ran = loop(), Mortal(), []

    async def work() -> None:
        await asyncio.sleep(1)
        ran.append(simulated.time())

    async def main() -> None:
        owned(simulated, owner, work())
        await asyncio.sleep(0.5)
        owner.next = "frozen"
        await asyncio.sleep(5)
        assert not ran
        owner.next = "runs"
        for handle in owner.aside:
            simulated.again(handle)
        await asyncio.sleep(1)

    simulated.run(main())
    assert ran == [5.5]


def test_what_nobody_owns_stays_so_when_an_owner_wakes_it() -> None:
    simulated, owner = loop(), Mortal()

    async def work(answer: asyncio.Future[None]) -> None:
        answer.set_result(None)
        owner.next = "dead"

    async def main() -> None:
        answer: asyncio.Future[None] = simulated.create_future()
        owned(simulated, owner, work(answer))
        await answer

    simulated.run(main())


def test_waiting_for_nothing_is_said() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        loop().run(main())


def test_what_a_callback_raises_is_kept() -> None:
    simulated = loop()

    def fails() -> None:
        raise ValueError

    async def main() -> None:
        simulated.call_soon(fails)
        await asyncio.sleep(1)

    simulated.run(main())
    assert len(simulated.complaints) == 1
