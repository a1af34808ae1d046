"""What a tool is told about the one call it serves, and how it says that it did not act."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from mayura.runtime.ids import CallId, RunId, Scope

REFUSAL_REASON_CHARS_MAX = 512
USAGE_MICROS_MAX = 2**53 - 1
_NO_TEXT = 'The tool\'s reason is no text: write Refusal("why").'


class Refusal(Exception):
    """Raised by a tool before any effect: the step fails cleanly and its cost is released.

    The reason is the only text of a tool that is ever stored or shown. One that is no text makes
    the refusal no less a refusal: an error here would make it a call that may have acted.
    """

    def __init__(self, reason: str = "") -> None:
        given: object = reason
        text = given[:REFUSAL_REASON_CHARS_MAX] if isinstance(given, str) else _NO_TEXT
        super().__init__(text)
        self.reason = text


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
    usage_rejected: bool = False  #: a report was no amount, or came after another

    @property
    def uuid(self) -> UUID:
        """The key as a UUID, for providers that ask for one."""
        return UUID(hex=self.key)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that begins every line with the call's id; log no payloads with it.

        That id begins with the run's; both are attributes of the record as well.
        """
        extra = {"run_id": self.run_id, "call_id": self.call_id}
        return _CallLog(logging.getLogger("mayura.tool"), extra)

    def report_usage(self, known_micros: int, unknown_micros: int = 0) -> None:
        """Say what the call cost, at most once, in micros of the budget.

        More than `cost_micros` is kept as an overrun (G14). It never raises, for the call may have
        acted by now: a report that is no whole number from 0 to 2^53 - 1, or that is not the
        first, is rejected. The log and the receipt's event say so; a call without another report
        is charged its `cost_micros`.
        """
        amounts = (known_micros, unknown_micros)
        whole = all(type(micros) is int and 0 <= micros <= USAGE_MICROS_MAX for micros in amounts)
        if whole and self.usage is None:
            self.usage = Usage(known_micros, unknown_micros)
            return
        self.usage_rejected = True
        remedy = "report once" if whole else "whole micros from 0 to 2^53 - 1; round up before"
        with suppress(Exception):  # neither may a log that fails
            self.logger.warning("its report of usage was rejected: %s", remedy)


class _CallLog(logging.LoggerAdapter[logging.Logger]):
    """Says in every line, not only beside it, whose it is."""

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[str, MutableMapping[str, Any]]:
        about = self.extra or {}
        return f"call {about['call_id']}: {msg}", {**kwargs, "extra": about}
