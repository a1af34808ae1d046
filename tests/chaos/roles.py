"""What a driver process does: each role is an async function of the place it works at.

`tests.chaos.processes` starts them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from mayura.runtime import Code, Engine, MayuraError, RunId, Snapshot
from mayura.runtime.core.deadlines import passed
from mayura.runtime.core.state import StepStatus
from mayura.runtime.core.transitions import Person
from mayura.runtime.ids import NodeId
from tests.chaos.gates import Gate
from tests.chaos.place import Place
from tests.chaos.shop import (
    BY_ID,
    POLICY,
    WORKFLOWS,
    Message,
    Order,
    here,
    paying_once,
    waiting_chain,
)

MARGIN_S: Final = 4.0
"""How long after its timeout a call is settled here: a quarter of it is ample for a loaded machine,
and all of it is not too long to wait for."""
LOOK_AGAIN_S: Final = 0.02
SWEEP_AGAIN_S: Final = 0.1
PAUSED_SHARE: Final = 0.1
RESUMED_SHARE: Final = 0.5
CANCELLED_SHARE: Final = 0.01
AT_ONCE: Final = 2  #: runs that a brave driver has in hand
STARTS_WITHIN_S: Final = 30.0
MESSAGE: Final = NodeId("message")  #: the signal of every workflow that has one
AGREED: Final = NodeId("agreed")  #: the step that a person approves


@asynccontextmanager
async def engine(place: Place, *, margin: float = MARGIN_S) -> AsyncIterator[Engine]:
    """An engine over a store of this process' own."""
    store = await place.open()
    try:
        async with Engine(
            store,
            workflows=WORKFLOWS,
            policy=POLICY,
            margin=margin,
            verify_human=lambda name: Person(id=name),
        ) as opened:
            yield opened
    finally:
        await store.close()


async def submit_and_drive(place: Place, workflow_id: str, keys: Sequence[str]) -> None:
    """Submit a run under each key and drive them all, side by side, until each has settled."""
    async with engine(place) as opened:
        runs = [
            (await opened.submit(BY_ID[workflow_id], Order(order_id=key), key=key)).id
            for key in keys
        ]
        await asyncio.gather(*(finish(opened, run) for run in runs))


async def pay_once(place: Place, order_id: str, key: str) -> None:
    """Submit a run of its own for an order that others may be paying, and drive it to its end."""
    async with engine(place) as opened:
        run = await opened.submit(paying_once, Order(order_id=order_id), key=key)
        await finish(opened, run.id)


async def pay_once_together(place: Place, orders: Sequence[str], racer: int, racers: int) -> None:
    """For each order, submit and drive a run of its own at the same moment as the others do."""
    async with engine(place, margin=60.0) as opened:
        for order_id in orders:
            await place.gate(f"{order_id}-start").meet(racers, within_s=STARTS_WITHIN_S)
            here.faults.next_round(partial(_gate_of, place, order_id))
            key = f"{order_id}-by-{racer}"
            run = await opened.submit(paying_once, Order(order_id=order_id), key=key)
            await finish(opened, run.id)


async def submit_in_turn(place: Place, keys: Sequence[str], beside: int) -> None:
    """Carry runs with an approval and a signal from submission to end, some at a time.

    What was acknowledged is written down before anything else happens.
    """
    left = iter(keys)

    async def carry() -> None:
        for key in left:
            run = (await opened.submit(waiting_chain, Order(order_id=key), key=key)).id
            _acknowledged(place, "run.created", key)
            while not (seen := await opened.run_until_settled(run)).settled:
                for event in await give(opened, seen, "ada", Message(sender=0, text="go on")):
                    _acknowledged(place, event, key)
                await asyncio.sleep(LOOK_AGAIN_S)
            place.gate("finished").arrive()

    async with engine(place, margin=60.0) as opened:
        await asyncio.gather(*(carry() for _ in range(beside)))


def _acknowledged(place: Place, event: str, key: str) -> None:
    with place.folder.joinpath("acknowledged.txt").open("a") as file:
        file.write(f"{event} {key}\n")


async def drive(place: Place, runs: Collection[RunId]) -> None:
    """Sweep until each of these runs of others has settled, saying yes to whatever is asked."""
    async with engine(place) as opened:
        left = list(runs)
        while left:
            await opened.run_once()
            seen = [await opened.inspect(run) for run in left]
            for each in seen:
                await give(opened, each, "ada", Message(sender=0, text="go on"))
            left = [each.id for each in seen if not each.settled]
            await asyncio.sleep(SWEEP_AGAIN_S)


async def submit(place: Place, workflow_id: str, keys: Sequence[str]) -> None:
    """Submit a run under each key, and drive none."""
    async with engine(place) as opened:
        for key in keys:
            await opened.submit(BY_ID[workflow_id], Order(order_id=key), key=key)


async def brave(place: Place, runs: Sequence[RunId], seed: float) -> None:
    """Sweep among others who do the same, and give what some of the runs wait for."""
    chosen = random.Random(seed)
    async with engine(place) as opened:
        left = list(runs)
        while left:
            await opened.run_once(limit=AT_ONCE)
            for run in chosen.sample(left, min(AT_ONCE, len(left))):
                seen = await opened.inspect(run)
                if seen.settled:
                    left.remove(run)
                    continue
                try:
                    await give(opened, seen, "ada", Message(sender=0, text="go on"))
                    await _command(opened, seen, chosen)
                except MayuraError as error:
                    if error.code not in (Code.CONFLICT, Code.NOT_FOUND):  # others were faster
                        raise


async def _command(opened: Engine, seen: Snapshot, chosen: random.Random) -> None:
    """Now and then pause a run, resume one that is paused, or cancel one."""
    if seen.pausing:
        if chosen.random() < RESUMED_SHARE:
            await opened.resume(seen.id, by="ada")
    elif chosen.random() < PAUSED_SHARE:
        await opened.pause(seen.id, by="ada")
    elif chosen.random() < CANCELLED_SHARE:
        await opened.cancel(seen.id, by="ada")


async def drive_one(place: Place, run: RunId) -> None:
    """Drive one run of others, and nothing else, until it has settled."""
    async with engine(place) as opened:
        await finish(opened, run)


async def look_at(place: Place, run: RunId) -> None:
    """Drive a run of others in one call, whatever that leads to."""
    async with engine(place) as opened:
        await opened.run_until_settled(run)


async def look_once(place: Place, run: RunId) -> None:
    """Drive a run of others in one call, which must be enough."""
    async with engine(place) as opened:
        seen = await opened.run_until_settled(run)
        assert seen.settled, seen.why


async def settle_together(place: Place, runs: Sequence[RunId], settlers: int) -> None:
    """Settle each of these abandoned runs at the same moment as all the other settlers."""
    async with engine(place) as opened:
        for run in runs:
            await until_abandoned(place, run)
            await place.gate(f"{run}-start").meet(settlers, within_s=STARTS_WITHIN_S)
            here.faults.next_round(partial(_gate_of, place, run))
            seen = await opened.run_until_settled(run)
            assert seen.settled, seen.why


async def sweep(place: Place, run: RunId) -> None:
    """Sweep, and drive one run, over and over until it has settled; count the passes."""
    async with engine(place) as opened:
        settled = False
        while not settled:
            await opened.run_once()
            settled = (await opened.run_until_settled(run)).settled
            place.gate("passes").arrive()


def _gate_of(place: Place, name: str, point: str) -> Gate:
    return place.gate(f"{name}-{point}")


async def until_abandoned(place: Place, run: RunId) -> None:
    """Wait until the settle deadline of the run's calls is over, by the store's own clock."""
    store = await place.open()
    try:
        while loaded := await store.load(run):
            calls = [step.dispatch for step in loaded.run.steps.values() if step.dispatch]
            if all(passed(call.settle, loaded.now) for call in calls):
                return
            await asyncio.sleep(LOOK_AGAIN_S)
    finally:
        await store.close()


async def finish(opened: Engine, run: RunId) -> Snapshot:
    """Drive one run to its end; whoever or whatever it waits for comes at once."""
    while not (seen := await opened.run_until_settled(run)).settled:
        await give(opened, seen, "ada", Message(sender=0, text="go on"))
        await asyncio.sleep(LOOK_AGAIN_S)
    return seen


async def give(opened: Engine, seen: Snapshot, person: str, message: Message) -> list[str]:
    """Approve and signal what the run waits for; the events of what was acknowledged."""
    given: list[str] = []
    if _waits(seen, MESSAGE):
        await opened.signal(seen.id, MESSAGE, person, message.model_dump())
        given.append("signal.received")
    if _waits(seen, AGREED):
        request = await opened.approval_request(seen.id, AGREED)
        await opened.approve(seen.id, AGREED, request.digest, credential=person)
        given.append("approval.approved")
    return given


def _waits(seen: Snapshot, node: NodeId) -> bool:
    return node in seen.steps and seen.steps[node].status is StepStatus.WAITING
