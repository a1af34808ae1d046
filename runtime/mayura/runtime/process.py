"""What every run that is driven in this process shares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field

from mayura.runtime.core.deadlines import ABANDONED_MARGIN_MS
from mayura.runtime.ids import RunId
from mayura.runtime.in_flight import InFlight
from mayura.runtime.ports import Store
from mayura.runtime.slots import Slots


@dataclass(slots=True)
class Process:
    """The store, the slots, the calls in hand, and the background work that must not be lost."""

    store: Store
    slots: Slots
    in_flight: InFlight
    margin_ms: int = ABANDONED_MARGIN_MS
    closing: bool = False  #: start nothing more
    on_rest: Callable[[RunId], None] = lambda _: None
    background: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[object, object, None], context: Context) -> asyncio.Task[None]:
        """Run `work` beside everything else; it is kept until it has ended."""
        running = asyncio.get_running_loop().create_task(work, context=context)
        self.background.add(running)
        running.add_done_callback(self.background.discard)
        return running
