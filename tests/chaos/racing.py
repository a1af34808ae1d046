"""The role of a racer: six of them drive every run at once, and none of them has claimed it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Final

from mayura.runtime import Code, Engine, MayuraError, RunId, Snapshot
from tests.chaos import roles
from tests.chaos.faults import Faults
from tests.chaos.gates import Gate
from tests.chaos.place import Place
from tests.chaos.shop import Message, Order, here, racing

RACERS: Final = 6
STARTS_WITHIN_S: Final = 60.0
PAUSE_S_MAX: Final = 0.004
LOOK_AGAIN_S: Final = 0.01
AT_DISPATCH: Final = "dispatch.before_commit"


@dataclass(frozen=True, slots=True)
class Race:
    """Which rounds, and from which seed their delays come."""

    seed: int
    rounds: int

    @property
    def keys(self) -> list[str]:
        """The key of each round's run."""
        return [f"round-{number}" for number in range(self.rounds)]


@dataclass(slots=True)
class Seen:
    """What one racer saw of one round's run once it had settled."""

    key: str
    racer: int
    status: str = ""
    output: object = None
    message: object = None
    met: list[str] = field(default_factory=list)  #: errors that reached it
    sent: bool = False  #: its own signal was accepted
    agreed: bool = False  #: its own approval was accepted


class Jitter(Faults):
    """Meets the other racers at the first dispatch of a round; elsewhere, a delay of its own."""

    def __init__(self, seed: str) -> None:
        super().__init__(meets={AT_DISPATCH: RACERS})
        self._chosen = random.Random(seed)

    async def __call__(self, point: str) -> None:
        await super().__call__(point)
        await self.pause()

    async def pause(self) -> None:
        """Wait a little, as the seed says, or not at all."""
        if self._chosen.random() < 0.5:
            await asyncio.sleep(self._chosen.random() * PAUSE_S_MAX)

    def early(self) -> bool:
        """Whether to send the signal before its step waits."""
        return self._chosen.random() < 0.5


def jitters(race: Race) -> Iterator[Jitter]:
    """The faults of each racer."""
    yield from (Jitter(f"{race.seed}/{racer}") for racer in range(RACERS))


async def race_through(place: Place, race: Race, racer: int) -> None:
    """Drive the run of every round together with the others, and write down what was seen."""
    async with roles.engine(place, margin=60.0) as opened:
        for key in race.keys:
            await place.gate(f"{key}-start").meet(RACERS, within_s=STARTS_WITHIN_S)
            here.faults.next_round(partial(_gate_of, place, key))
            seen = await _one_round(opened, Seen(key, racer))
            with place.folder.joinpath(f"seen-{racer}.jsonl").open("a") as file:
                file.write(json.dumps(asdict(seen)) + "\n")


async def _one_round(opened: Engine, seen: Seen) -> Seen:
    faults = here.faults
    assert isinstance(faults, Jitter)
    run = (await opened.submit(racing, Order(order_id=seen.key), key=seen.key)).id
    early = asyncio.create_task(_send(opened, run, seen)) if faults.early() else None
    while True:
        now = await opened.run_until_settled(run)
        if now.settled:
            break
        if not seen.sent and Code.CONFLICT not in seen.met and early is None:
            await _send(opened, run, seen)
        await _agree(opened, now, seen)
        await asyncio.sleep(LOOK_AGAIN_S)
    if early is not None:
        await early
    last = await opened.inspect(run, outputs=True)
    seen.status, seen.output = last.status, last.output
    seen.message = last.steps[roles.MESSAGE].output
    return seen


async def _send(opened: Engine, run: RunId, seen: Seen) -> None:
    message = Message(sender=seen.racer, text=f"from racer {seen.racer}")
    try:
        await opened.signal(run, roles.MESSAGE, f"from-{seen.racer}", message.model_dump())
        seen.sent = True
    except MayuraError as error:
        seen.met.append(error.code)


async def _agree(opened: Engine, now: Snapshot, seen: Seen) -> None:
    if now.steps[roles.AGREED].status != "waiting" or seen.agreed:
        return
    try:
        request = await opened.approval_request(now.id, roles.AGREED)
    except MayuraError as error:
        if error.code is not Code.NOT_FOUND:  # decided since it was seen: nobody is asked any more
            seen.met.append(error.code)
        return
    try:
        person = f"racer-{seen.racer}"
        await opened.approve(now.id, roles.AGREED, request.digest, credential=person)
        seen.agreed = True
    except MayuraError as error:
        seen.met.append(error.code)


def all_seen(place: Place) -> list[Seen]:
    """What every racer wrote down."""
    files = [place.folder / f"seen-{racer}.jsonl" for racer in range(RACERS)]
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [Seen(**json.loads(line)) for line in lines]


def _gate_of(place: Place, key: str, point: str) -> Gate:
    return place.gate(f"{key}-{point}")
