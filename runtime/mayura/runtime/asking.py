"""Asks the application's own code a question: within a time, and never on the loop if it is plain.

A coroutine function runs on the event loop, a plain function in one of a few threads, daemons, so
that one which never answers cannot keep the process from ending. A question that waits for a thread
until its time is over is not asked any more.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Final


class OverTimeError(Exception):
    """Nothing was said in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered, or what was raised instead; OverTimeError where the time was over."""

    value: object = None
    error: BaseException | None = None


_late: Final[set[asyncio.Task[Answer]]] = set()  #: what ignores being stopped


class Threads:
    """At most `size` threads for plain functions, started when they are needed."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # threads stay with the parent

    def _forget(self) -> None:
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()

    async def run(self, function: Callable[[], object]) -> Answer:
        """What `function` returns or raises, in a copy of the caller's context."""
        loop, context = asyncio.get_running_loop(), copy_context()
        found: asyncio.Future[Answer] = loop.create_future()

        def work() -> None:
            if found.done():  # nobody waits for it any more
                return
            try:
                answer = Answer(context.run(function))
            except BaseException as error:  # noqa: BLE001 - the way out of a thread is its answer
                answer = Answer(error=error)
            with suppress(RuntimeError):  # a loop that is closed has nobody left to tell
                loop.call_soon_threadsafe(_tell, found, answer)

        self._work.put(work)
        if not self._idle.acquire(blocking=False) and self._started < self._size:
            name = f"mayura {self._name} {self._started + 1}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
            self._started += 1
        return await found

    def _serve(self) -> None:
        while True:
            self._work.get()()
            self._idle.release()


async def ask(
    function: Callable[..., object], *arguments: object, threads: Threads, within_s: float
) -> Answer:
    """What `function` says to `arguments`. It raises nothing of the function's."""
    asked = asyncio.get_running_loop().create_task(_asked(function, arguments, threads))
    _late.add(asked)
    asked.add_done_callback(_late.discard)
    try:
        await asyncio.wait({asked}, timeout=within_s)
    finally:
        asked.cancel()
    return asked.result() if asked.done() else Answer(error=OverTimeError())


async def _asked(
    function: Callable[..., object], arguments: tuple[object, ...], threads: Threads
) -> Answer:
    try:
        if _is_async(function):
            answer = Answer(function(*arguments))
        else:
            answer = await threads.run(partial(function, *arguments))
        if inspect.isawaitable(answer.value):
            answer = Answer(await answer.value)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is its answer
        return Answer(error=error)
    return answer


def _is_async(function: Callable[..., object]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - of an object that can be called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _tell(found: asyncio.Future[Answer], answer: Answer) -> None:
    if not found.done():
        found.set_result(answer)
