"""What every run that is driven in this process shares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field

from mayura.runtime.core import values
from mayura.runtime.core.deadlines import ABANDONED_MARGIN_MS
from mayura.runtime.core.definition import JsonValue, ToolNode
from mayura.runtime.core.digest import CALL_KEY, ONCE, digest, keyed
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

    def once_digest(self, node: ToolNode, value: JsonValue) -> bytes | None:
        """The subject of a `once` tool: scope, tool id and the declared fields (G16)."""
        if not node.tool.once:
            return None
        subject: list[JsonValue] = [_at(value, path) for path in node.tool.once]
        return keyed(self.store.once_key, ONCE, node.tool.id.encode(), values.encode(subject))

    def call_key(self, run_id: RunId, node: ToolNode, once: bytes | None) -> str:
        """32 hex characters: the same for the same call, or for the same `once` subject."""
        if once is not None:
            return digest(CALL_KEY, once)[:16].hex()
        return digest(CALL_KEY, run_id.encode(), node.id.encode())[:16].hex()


def _at(value: JsonValue, path: tuple[str | int, ...]) -> JsonValue:
    for key in path:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value
