"""The other system that the tools talk to: it keeps its own ledger, and it is not always kind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, Literal, cast

from mayura.runtime import Call, Refusal
from mayura.runtime.ids import CallId
from tests.simulation.process import SimulatedProcess, process_here

if TYPE_CHECKING:
    from tests.simulation.world import World

Manner = Literal[
    "answers", "answers slowly", "refuses", "breaks before", "breaks after", "hangs", "acts late",
    "talks nonsense", "costs more", "loses count",
]  # fmt: skip

MANNERS: Final[Mapping[Manner, int]] = {
    "answers": 56,
    "answers slowly": 12,
    "refuses": 6,
    "breaks before": 4,
    "breaks after": 4,
    "hangs": 4,
    "acts late": 5,
    "talks nonsense": 4,
    "costs more": 3,
    "loses count": 2,
}
"""How often each of them, of a hundred."""
CERTAIN: Final[frozenset[Manner]] = frozenset(
    {"answers", "answers slowly", "refuses", "talks nonsense", "costs more"}
)
"""After these the caller knows whether it acted."""

ANSWER: Final = 7
SLOW_S: Final = 0.6
LATE_S: Final = 2.5


class Broken(Exception):
    """A tool that fails without saying whether it acted."""


@dataclass(slots=True)
class Entry:
    """A call as the provider saw it: one line of the ledger."""

    call: CallId
    process: SimulatedProcess
    manner: Manner
    subject: str | None
    acted: bool = False
    ended: bool = False


class Provider:
    """Serves calls, each in a manner that the seed chose."""

    def __init__(self, world: World, rng: Random) -> None:
        self.ledger: dict[CallId, Entry] = {}
        self._world = world
        self._rng = rng
        self.kind = world.weather.fair or rng.random() < 0.3  #: it always answers

    async def ponder(self) -> bool:
        """A guard's verdict, after a while."""
        if self._rng.random() < 0.3:
            await asyncio.sleep(self._rng.random() * SLOW_S)
        return self.kind or self._rng.random() < 0.95

    async def serve(self, call: Call, subject: str | None = None) -> int:
        """Enter the call into the ledger, and do what is asked for."""
        entry = Entry(call.call_id, process_here(), self._manner(), subject)
        self._world.watch.entered(entry)
        self.ledger.setdefault(call.call_id, entry)
        try:
            return await self._perform(call, entry)
        except asyncio.CancelledError:
            entry.manner = "hangs"  # it took too long, whatever it meant to do
            raise
        finally:
            entry.ended = True

    async def _perform(self, call: Call, entry: Entry) -> int:
        match entry.manner:
            case "refuses":
                raise Refusal("not today")
            case "breaks before":
                raise Broken
            case "answers slowly":
                await asyncio.sleep(self._rng.random() * SLOW_S)
            case "hangs":
                await asyncio.sleep(LATE_S)
            case "acts late":
                await self._insist(LATE_S)
            case "costs more":
                call.report_usage(call.cost_micros + 3)
            case "loses count":
                call.report_usage(0, unknown_micros=1)
            case _:
                pass
        self._act(entry)
        if entry.manner == "breaks after":
            raise Broken
        return cast(int, "nonsense") if entry.manner == "talks nonsense" else ANSWER

    async def _insist(self, seconds: float) -> None:
        """Take this long, whoever asks to stop."""
        until_s = self._world.loop.time() + seconds
        while (left_s := until_s - self._world.loop.time()) > 0:
            try:
                await asyncio.sleep(left_s)
            except asyncio.CancelledError:
                continue

    def _act(self, entry: Entry) -> None:
        entry.acted = True
        self._world.watch.acted(entry)

    def _manner(self) -> Manner:
        if self.kind:
            return "answers" if self._rng.random() < 0.8 else "answers slowly"
        return self._rng.choices(list(MANNERS), list(MANNERS.values()))[0]
