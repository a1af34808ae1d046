"""One seed's world: processes on one database, people around them, and things going wrong.

play(seed)         the whole story; raises `Violation` with what did not hold
play(seed, tell=print)   the same story with a line for each event
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from random import Random
from typing import Final
from unittest import mock

from mayura.runtime import dispatch, run_writer
from mayura.runtime.core.definition import Definition
from mayura.runtime.core.state import Instant, Run
from mayura.runtime.ids import RunId
from mayura.storage.memory_database import MemoryDatabase
from tests.simulation import verdict
from tests.simulation.actors import Actors, intentions
from tests.simulation.loop import SimulatedLoop, Stuck
from tests.simulation.network import Network, SimulatedStore
from tests.simulation.process import SimulatedProcess
from tests.simulation.provider import Provider
from tests.simulation.watch import Watch
from tests.simulation.weather import Weather
from tests.simulation.workflows import APPROVED, MARGIN_S, POLICY, TIMEOUT_S, WORKFLOWS

PROCESSES: Final = (1, 3, 3, 3)  #: how many there are: whose call it was matters to settling
START: Final = datetime(2030, 1, 1, tzinfo=UTC)
START_US: Final = int(START.timestamp()) * 1_000_000
QUIET_S: Final = TIMEOUT_S + MARGIN_S + 4.0
ROUND_S: Final = 2.5
ROUNDS_MAX: Final = 24
AFTERMATH_S: Final = 7.5
"""A body that insists on acting late has ended by then, and a receipt that waited is stored."""


class Violation(Exception):
    """Something that the guarantee promises did not hold."""


@dataclass(frozen=True, slots=True)
class Story:
    """What became of a seed. The same seed has the same trace, on every machine."""

    trace: str
    steps: int
    seconds: float
    settled: tuple[str, ...]


Tell = Callable[[str], None]


class World:
    """Everything there is in one seed."""

    def __init__(self, seed: int, tell: Tell | None = None) -> None:
        rng = Random(seed)
        self.loop = SimulatedLoop(rng)  # type: ignore[abstract]  # nobody asks for the rest
        self.weather = Weather(rng)
        self.watch = Watch(self)
        self.provider = Provider(self, rng)
        self.database = MemoryDatabase(clock=self.clock, secret=bytes(32))
        self.network = Network(self.loop, self.weather)
        self.processes: list[SimulatedProcess] = []
        self.intended = intentions(rng, START)
        self.workflows = tuple({intended.workflow for intended in self.intended})
        self.policy = POLICY
        self.margin_s = MARGIN_S
        self._rng = rng
        self._tell = tell
        self._actors = Actors(self, rng, self.intended)
        self._lives = 0
        self._wall_offset_us = self._latest_offset_us = 0
        self._boots = 1
        self._digest = sha256()

    # --- what the others ask ----------------------------------------------------------------

    def clock(self) -> Instant:
        """The database's clocks: wall time jumps, the steady one starts anew at each boot."""
        now_us = round(self.loop.time() * 1_000_000)
        return Instant(START_US + now_us + self._wall_offset_us, now_us, f"boot {self._boots}")

    def definition(self, run: Run) -> Definition:
        """The definition of a run."""
        return _DEFINITIONS[run.definition]

    def needs_approval(self, run: Run) -> frozenset[str]:
        """The steps of a run that nobody may make without a person's yes."""
        return APPROVED.get(run.definition, frozenset())

    def stored(self, run_id: RunId) -> Run | None:
        """The run as the database has it."""
        kept = self.database.runs.get(run_id)
        return None if kept is None else kept.run

    def store_of(self, process: SimulatedProcess) -> SimulatedStore:
        """A process's connection."""
        return SimulatedStore(process)

    def tell(self, what: str, *facts: object) -> None:
        """One line of the story."""
        line = f"{self.loop.time():9.4f} {what:9} {' '.join(map(str, facts))}"
        self._digest.update(line.encode())
        if self._tell is not None:
            self._tell(line)

    def died(self, process: SimulatedProcess) -> None:
        """A process is gone: another one comes in its place."""
        self.processes.remove(process)
        self.loop.call_later(self.weather.restarts_after_s(), self._start_process)

    # --- the story --------------------------------------------------------------------------

    def play(self) -> Story:
        """Let it all happen. Raises Violation."""
        try:
            self.loop.run(self._story())
        except Stuck as stuck:
            self.watch.object(str(stuck))
        wrong = [*self.watch.objections, *self.loop.complaints]
        if wrong:
            raise Violation("\n".join(wrong))
        settled = tuple(
            f"{intended.key} {run.status}"
            for intended in self.intended
            if (run := self.stored(intended.run_id)) is not None
        )
        self._digest.update(self.loop.trace.to_bytes(8, "big"))
        return Story(self._digest.hexdigest(), self.loop.steps, self.loop.time(), settled)

    async def _story(self) -> None:
        for _ in range(self._rng.choice(PROCESSES)):
            self._start_process()
        self._actors.start()
        nature = self.loop.create_task(self._nature())
        await asyncio.sleep(self._rng.choice((3.0, 8.0, 14.0)))
        nature.cancel()
        self.tell("clears up")
        self.weather.clear_up()
        self._wall_offset_us = self._latest_offset_us  # the clock is right again
        for process in self.processes:
            process.settle_down()
        self._actors.answering = False
        await self._quiet()
        self._actors.answering = True
        for _ in range(ROUNDS_MAX):
            if not any(verdict.unfinished(self)):
                break
            await asyncio.sleep(ROUND_S)
        self._object(verdict.unfinished(self))
        await asyncio.sleep(AFTERMATH_S)
        self._object(verdict.flaws(self))

    async def _quiet(self) -> None:
        """Nobody answers anything: every run comes to a rest that has a name."""
        if any(verdict.unfinished(self)):
            await asyncio.sleep(QUIET_S)
            self._object(verdict.without_reason(self))

    async def _nature(self) -> None:
        """Clocks that jump, and hosts that lose their power."""
        while not self.weather.over:
            await asyncio.sleep(self._rng.random() * 6)
            if self.weather.chance(0.15):
                self._wall_offset_us += self._rng.choice((-20, -1, 5, 300)) * 1_000_000
                self._latest_offset_us = max(self._latest_offset_us, self._wall_offset_us)
                self.tell("jumps", self._wall_offset_us // 1_000_000)
            if self.weather.chance(0.05):
                self._boots += 1
                self.tell("boots", self._boots)
                for process in tuple(self.processes):
                    process.die()

    def _start_process(self) -> None:
        self._lives += 1
        process = SimulatedProcess(
            self,
            self._lives,
            dies_at=self.weather.dies_at(),
            freezes_at=self.weather.freezes_at(),
        )
        self.processes.append(process)
        process.start()

    def _object(self, found: Iterator[str]) -> None:
        for wrong in found:
            self.watch.object(wrong)


def play(seed: int, tell: Tell | None = None) -> Story:
    """The story of one seed. Raises Violation."""
    world = World(seed, tell)
    with _steady_time_of(world):
        return world.play()


@contextmanager
def _steady_time_of(world: World) -> Iterator[None]:
    """The engine's steady clock is the loop's, and its complaints about tools are not printed."""
    log = logging.getLogger("mayura")
    log.setLevel(logging.CRITICAL + 1)
    try:
        with (
            mock.patch.object(dispatch, "monotonic", world.loop.time),
            mock.patch.object(run_writer, "monotonic", world.loop.time),
        ):
            yield
    finally:
        log.setLevel(logging.NOTSET)


_DEFINITIONS: Final = {w.definition.digest: w.definition for w in WORKFLOWS}
