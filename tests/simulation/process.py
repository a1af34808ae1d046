"""A simulated process: one engine and its calls in hand; it can die or freeze."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from mayura.runtime import Code, Engine, MayuraError, Person
from mayura.runtime.in_flight import InFlight
from tests.simulation.loop import OWNER, Fate

if TYPE_CHECKING:
    from tests.simulation.world import World

SWEEPS_MAX: Final = 12  # a sweep lasts as long as its longest call
CLIENT_PATIENCE_S: Final = 6.0
NOTHING_WRONG: Final = (Code.STORAGE_UNAVAILABLE,)


@dataclass(frozen=True, slots=True)
class Heard:
    """What a client heard of its command: an answer, an error's code, or nothing at all."""

    kind: Literal["answer", "error", "nothing"]
    code: Code | None = None

    @property
    def acknowledged(self) -> bool:
        """Whether the command was accepted, for certain."""
        return self.kind == "answer"


NOTHING: Final = Heard("nothing")


class SimulatedProcess:
    """One life of one process; the next one has a new number, a new engine and empty hands."""

    def __init__(
        self, world: World, number: int, *, dies_at: int | None, freezes_at: int | None
    ) -> None:
        self.world = world
        self.number = number
        self.in_flight = InFlight()
        self.alive = True
        self.engine: Engine | None = None  #: None until it is open
        self._dies_at = dies_at
        self._freezes_at = freezes_at
        self._frozen = False
        self._aside: list[asyncio.Handle] = []
        self._steps = 0
        self._sweeps = 0
        self._calls: set[asyncio.Future[Heard]] = set()
        self._context = copy_context()
        self._context.run(OWNER.set, self)

    # --- dying and freezing -----------------------------------------------------------------

    def fate(self) -> Fate:
        if not self.alive:
            return "dead"
        if self._frozen:
            return "frozen"
        self._steps += 1
        if self._steps == self._dies_at:
            self.die()
            return "dead"
        if self._steps == self._freezes_at:
            self.freeze()
            return "frozen"
        return "runs"

    def lay_aside(self, handle: asyncio.Handle) -> None:
        self._aside.append(handle)

    def die(self) -> None:
        """Stop for ever: nothing of it runs again."""
        self.alive = False
        self._aside.clear()
        self.world.tell("dies", self.number)
        for call in tuple(self._calls):
            if not call.done():
                call.set_result(NOTHING)
        self.world.died(self)

    def freeze(self) -> None:
        """Stop for a while, and go on as if nothing had been."""
        self._frozen = True
        self.world.tell("freezes", self.number)
        self.world.loop.call_later(self.world.weather.freeze_s(), self.thaw)

    def thaw(self) -> None:
        """Go on."""
        if self._frozen and self.alive:
            self._frozen = False
            self.world.tell("thaws", self.number)
            for handle in self._aside:
                self.world.loop.again(handle)
            self._aside.clear()

    def settle_down(self) -> None:
        """The faults are over: it neither dies nor freezes any more."""
        self._dies_at = self._freezes_at = None
        self.thaw()

    @property
    def full(self) -> bool:
        """Whether a step waits for a slot here, which a body may hold long after its time."""
        return self.engine is not None and self.engine._process.slots.statistics().waiting > 0

    # --- living -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin its life."""
        self.world.tell("starts", self.number)
        self._start(self._live())

    def ask(self, command: Callable[[Engine], Awaitable[object]]) -> asyncio.Future[Heard]:
        """Give this process a command from outside; its death is no answer."""
        heard: asyncio.Future[Heard] = self.world.loop.create_future()
        self._calls.add(heard)
        heard.add_done_callback(self._calls.discard)
        self.world.loop.call_later(CLIENT_PATIENCE_S, _give_up, heard)
        self._start(self._carry_out(command, heard))
        return heard

    def _start(self, work: Coroutine[object, object, None]) -> None:
        self.world.loop.create_task(work, context=self._context.copy())

    async def _carry_out(
        self, command: Callable[[Engine], Awaitable[object]], heard: asyncio.Future[Heard]
    ) -> None:
        assert self.engine is not None, "only an open process is asked"
        try:
            await command(self.engine)
        except MayuraError as error:
            said = Heard("error", error.code)
        else:
            said = Heard("answer")
        if not heard.done():
            heard.set_result(said)

    async def _live(self) -> None:
        world = self.world
        engine = Engine(
            world.store_of(self),
            workflows=world.workflows,
            policy=world.policy,
            verify_human=_person,
            margin=world.margin_s,
            calls_max=world.weather.calls_max(),
            in_flight=self.in_flight,
        )
        self.engine = await engine.__aenter__()
        while True:
            await asyncio.sleep(world.weather.between_sweeps_s())
            if self._sweeps < SWEEPS_MAX:
                self._sweeps += 1
                self._start(self._sweep(engine))

    async def _sweep(self, engine: Engine) -> None:
        try:
            swept = await engine.run_once()
        except MayuraError as error:
            self._expect(error.code)
        else:
            for _, code in swept.failed:
                self._expect(code)
        self._sweeps -= 1

    def _expect(self, code: Code) -> None:
        if code not in NOTHING_WRONG:
            self.world.watch.object(f"process {self.number} could not go on: {code}")


def process_here() -> SimulatedProcess:
    """The process whose code is running."""
    owner = OWNER.get()
    assert isinstance(owner, SimulatedProcess), "only a process runs tools"
    return owner


async def _person(credential: str) -> Person:
    return Person(id=credential)


def _give_up(heard: asyncio.Future[Heard]) -> None:
    if not heard.done():
        heard.set_result(NOTHING)
