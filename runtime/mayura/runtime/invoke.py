"""Enters a tool's body, once, and says how it ended. A timeout stops the waiting, not the body.

An async tool runs on the loop in a context of its own; a plain function in a thread of its own,
a daemon, so that a body that never ends cannot keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import cast

from mayura.runtime.call import REFUSAL_REASON_CHARS_MAX, Call, Refusal
from mayura.runtime.core.outcome import Ending
from mayura.runtime.loaded import AnyTool


@dataclass(frozen=True, slots=True)
class Ended:
    """How a body ended. `result` is what it returned, untouched; `reason` a refusal's text."""

    ending: Ending
    result: object = None
    reason: str = ""


@dataclass(slots=True)
class Body:
    """A body that was entered. `ended` completes when it has truly ended, however late."""

    ended: asyncio.Future[Ended]
    stop: Callable[[], None]


def enter(tool: AnyTool, call: Call, arguments: Mapping[str, object], context: Context) -> Body:
    """Enter the tool's body. Called from one place, right after the last check (G1, G3).

    The body sees the context variables of whoever drives the run, in a copy of its own.
    """
    if tool.is_async:
        return _on_loop(tool, call, arguments, context.copy())
    return _in_thread(tool, call, arguments, context.copy())


async def wait(body: Body, call: Call, timeout_ms: int) -> Ended:
    """The body's end, or `timed_out` once its time is over and it has been asked to stop."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    body.ended.add_done_callback(wake)
    timer = loop.call_later(timeout_ms / 1_000, wake)
    try:
        await over
    finally:
        timer.cancel()
    if body.ended.done():
        return body.ended.result()
    call.cancellation.set()
    body.stop()
    return Ended("timed_out")


def _on_loop(tool: AnyTool, call: Call, arguments: Mapping[str, object], context: Context) -> Body:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Ended] = loop.create_future()

    async def body() -> None:
        try:
            result = await cast(Awaitable[object], tool.fn(call, **arguments))
        except BaseException as raised:  # noqa: BLE001 - every way out of a tool is evidence, SystemExit too
            _finish(ended, _way_out(raised))
            _report(call, raised)
        else:
            _finish(ended, Ended("returned", result))

    running = loop.create_task(body(), context=context)

    def unstarted(_: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step never runs `body`.
        _finish(ended, Ended("cancelled"))

    running.add_done_callback(unstarted)
    return Body(ended, lambda: _cancel(running))


def _cancel(running: asyncio.Task[None]) -> None:
    running.cancel()


def _in_thread(
    tool: AnyTool, call: Call, arguments: Mapping[str, object], context: Context
) -> Body:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Ended] = loop.create_future()

    def body() -> None:
        found = Ended("raised")
        try:
            found = Ended("returned", context.run(tool.fn, call, **arguments))
        except BaseException as raised:  # noqa: BLE001 - a thread's way out is evidence as well
            found = _way_out(raised)
            _report(call, raised)
        finally:
            # A loop that is closed has nobody left to tell.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_finish, ended, found)

    thread = threading.Thread(target=body, name=f"mayura {call.call_id}", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        _finish(ended, Ended("refused", reason="This host can start no more threads."))
    return Body(ended, lambda: None)


def _finish(ended: asyncio.Future[Ended], found: Ended) -> None:
    if not ended.done():
        ended.set_result(found)


def _way_out(raised: BaseException) -> Ended:
    if isinstance(raised, Refusal):
        return Ended("refused", reason=_reason(raised))
    return Ended("cancelled" if isinstance(raised, asyncio.CancelledError) else "raised")


def _reason(refusal: Refusal) -> str:
    """The reason as it may be stored, whatever a subclass made of it."""
    text = getattr(refusal, "reason", "")
    if not isinstance(text, str):
        return ""
    storable = text.replace("\0", "").encode("utf-8", "replace").decode()
    return storable[:REFUSAL_REASON_CHARS_MAX]


def _report(call: Call, raised: BaseException) -> None:
    """The traceback goes to the local log, and nowhere else; logging it may fail."""
    if isinstance(raised, Refusal | asyncio.CancelledError):
        return
    with suppress(Exception):
        call.logger.warning("the tool raised %s", type(raised).__name__, exc_info=raised)
