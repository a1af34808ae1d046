"""What every run that is driven in this process shares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from enum import Enum

from mayura.runtime.core.deadlines import ABANDONED_MARGIN_MS
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import RunId
from mayura.runtime.in_flight import InFlight
from mayura.runtime.ports import Store
from mayura.runtime.slots import Slots


class Life(Enum):
    """Where an engine stands; it only goes on, and never back. The value says what to do."""

    NEW = "this engine was not entered: use it inside `async with Engine(...) as engine:`"
    OPEN = "this engine is in use: make another one, an engine is entered once"
    DRAINED = "this engine was drained and starts nothing more: make another one and enter it"
    LEFT = "this engine was left: work inside its `async with`, or make another one and enter it"


@dataclass(slots=True)
class Process:
    """The store, the slots, the calls in hand, and the background work that must not be lost."""

    store: Store
    slots: Slots
    in_flight: InFlight
    margin_ms: int = ABANDONED_MARGIN_MS
    life: Life = Life.NEW
    on_rest: Callable[[RunId], None] = lambda _: None
    background: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def starts(self) -> bool:
        """Whether something new may begin here."""
        return self.life is Life.OPEN

    def require(self, *lives: Life) -> None:
        """Raise INVALID_CONFIG, which says what to do, unless the engine is in one of these."""
        if self.life not in lives:
            raise MayuraError(Code.INVALID_CONFIG, self.life.value)

    def start(self, work: Coroutine[object, object, None], context: Context) -> asyncio.Task[None]:
        """Run `work` beside everything else; it is kept until it has ended."""
        running = asyncio.get_running_loop().create_task(work, context=context)
        self.background.add(running)
        running.add_done_callback(self.background.discard)
        return running
