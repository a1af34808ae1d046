"""What a tool is told about the one call it serves, and how it says that it did not act."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass, field
from uuid import UUID

from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import CallId, RunId, Scope

REFUSAL_REASON_CHARS_MAX = 512


class Refusal(Exception):
    """Raised by a tool before any effect: the step fails cleanly and its cost is released.

    The reason is the only text of a tool that is ever stored or shown.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason[:REFUSAL_REASON_CHARS_MAX])
        self.reason = reason[:REFUSAL_REASON_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call reported to have cost; a part that nobody knows makes the outcome unknown."""

    known_micros: int
    unknown_micros: int = 0


class Cancellation:
    """Set once when the run is cancelled or the call's time is over; readable from any thread."""

    def __init__(self) -> None:
        self._asked = False
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._threads: set[threading.Event] = set()  #: one for each thread that waits

    def is_set(self) -> bool:
        """Whether the caller should stop as soon as it safely can."""
        return self._asked

    def set(self) -> None:
        """Tell the tool; it is a request, never a kill (docs: the guarantee)."""
        self._asked = True
        for waiting in tuple(self._threads):
            waiting.set()
        for loop, event in tuple(self._waiters):
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Return once cancellation was asked for."""
        event = asyncio.Event()
        entry = (asyncio.get_running_loop(), event)
        self._waiters.add(entry)
        try:
            if not self._asked:
                await event.wait()
        finally:
            self._waiters.discard(entry)

    def wait_in_thread(self, timeout: float | None = None) -> bool:
        """For plain-function tools: block this thread until asked to stop, or `timeout` seconds."""
        waiting = threading.Event()
        self._threads.add(waiting)
        try:
            return self._asked or waiting.wait(timeout)
        finally:
            self._threads.discard(waiting)


@dataclass(slots=True)
class Call:
    """One call of one tool: made at most once (G1).

    `key` is the same for the same call whoever makes it: 32 lower-case hex characters; send it to
    the provider as its idempotency key. `deadline_us` is wall time, for information only.
    """

    run_id: RunId
    call_id: CallId
    key: str
    scope: Scope
    cost_micros: int
    deadline_us: int
    cancellation: Cancellation = field(default_factory=Cancellation)
    usage: Usage | None = None
    reported_twice: bool = False

    @property
    def uuid(self) -> UUID:
        """The key as a UUID, for providers that ask for one."""
        return UUID(hex=self.key)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger bound to run and call; log no payloads with it."""
        extra = {"run_id": self.run_id, "call_id": self.call_id}
        return logging.LoggerAdapter(logging.getLogger("mayura.tool"), extra)

    def report_usage(self, known_micros: int, unknown_micros: int = 0) -> None:
        """Say what the call cost, at most once, in micros of the budget.

        More than `cost_micros` is kept as an overrun (G14). Raises INVALID_INPUT for a negative
        or fractional amount and CONFLICT for a second report; the first one stays.
        """
        for amount in (known_micros, unknown_micros):
            if type(amount) is not int or amount < 0:
                raise MayuraError(
                    Code.INVALID_INPUT,
                    "report_usage takes whole, non-negative micros; round up before reporting",
                )
        if self.usage is not None:
            self.reported_twice = True
            raise MayuraError(Code.CONFLICT, "report_usage was already called for this call")
        self.usage = Usage(known_micros, unknown_micros)
