"""A process's way to the store: requests and answers travel, arrive late, or are lost.

The database answers a request in one go, in its own time, whether or not the process that sent it
still lives. What a process hears when a request or an answer is lost is STORAGE_UNAVAILABLE, which
says nothing about what was written; a late request may be written after its sender gave up on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mayura.runtime.core.state import Instant
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import PayloadName, RunId, Scope
from mayura.runtime.ports import (
    CallRef,
    Created,
    DueRun,
    Holder,
    JournalEntry,
    LastCheck,
    Loaded,
    NewRun,
    RunWrite,
    WriteAnswer,
)
from mayura.storage.limits import JOURNAL_BYTES_MAX
from mayura.storage.memory import MemoryStore

if TYPE_CHECKING:
    from tests.simulation.process import SimulatedProcess
    from tests.simulation.weather import Weather

T = TypeVar("T")


class SimulatedStore:
    """One process's connection to the database of its world."""

    def __init__(self, process: SimulatedProcess) -> None:
        self._process = process
        self._world = process.world
        self._inner = MemoryStore(process.world.database)

    @property
    def scope(self) -> Scope:
        return self._inner.scope

    @property
    def once_key(self) -> bytes:
        return self._inner.once_key

    def estimate(self) -> Instant:
        return self._inner.estimate()

    async def now(self) -> Instant:
        return await self._ask(self._inner.now)

    async def put_definition(
        self, digest: bytes, workflow_id: str, version: str, manifest: bytes
    ) -> None:
        await self._inner.put_definition(digest, workflow_id, version, manifest)

    async def definition(self, digest: bytes) -> bytes | None:
        return await self._inner.definition(digest)

    async def put_policy(self, digest: bytes, manifest: bytes) -> None:
        await self._inner.put_policy(digest, manifest)

    async def policy(self, digest: bytes) -> bytes | None:
        return await self._inner.policy(digest)

    async def create(self, new: NewRun) -> Created:
        return await self._ask(partial(self._inner.create, new))

    async def load(self, run_id: RunId) -> Loaded | None:
        return await self._ask(partial(self._inner.load, run_id))

    async def payloads(
        self, run_id: RunId, names: Collection[PayloadName]
    ) -> Mapping[PayloadName, bytes]:
        return await self._ask(partial(self._inner.payloads, run_id, names))

    async def write(self, write: RunWrite) -> WriteAnswer:
        return await self._ask(partial(self._write, write))

    async def last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]:
        return await self._ask(partial(self._last_checks, calls))

    async def journal(
        self, run_id: RunId, after_version: int = 0, *, bytes_max: int = JOURNAL_BYTES_MAX
    ) -> Sequence[JournalEntry]:
        return await self._inner.journal(run_id, after_version, bytes_max=bytes_max)

    async def command(self, run_id: RunId, command_id: str) -> bytes | None:
        return await self._ask(partial(self._inner.command, run_id, command_id))

    async def once_holder(self, digest: bytes) -> Holder | None:
        return await self._ask(partial(self._inner.once_holder, digest))

    async def due(self, limit: int, *, after: tuple[int, RunId] | None = None) -> Sequence[DueRun]:
        return await self._ask(partial(self._inner.due, limit, after=after))

    async def cancelled(self, run_ids: Collection[RunId]) -> Collection[RunId]:
        # Sorted: the order of a set of texts differs from one Python process to the next.
        return sorted(await self._ask(partial(self._inner.cancelled, run_ids)))

    async def close(self) -> None:
        await self._inner.close()

    async def _write(self, write: RunWrite) -> WriteAnswer:
        kept = self._world.database.runs.get(write.before.run_id)
        before = None if kept is None else kept.run
        answer = await self._inner.write(write)
        self._world.watch.answered(self._process, before, write, answer)
        return answer

    async def _last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]:
        found = await self._inner.last_checks(calls)
        self._world.watch.checked(self._process, calls, found)
        return found

    async def _ask(self, request: Callable[[], Coroutine[object, object, T]]) -> T:
        answer: asyncio.Future[T] = self._world.loop.create_future()
        self._world.network.send(request, answer)
        return await answer


class Network:
    """What lies between the processes and the database; nothing of it belongs to a process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, weather: Weather) -> None:
        self._loop = loop
        self._weather = weather
        self._context = copy_context()

    def send(
        self, request: Callable[[], Coroutine[object, object, T]], answer: asyncio.Future[T]
    ) -> None:
        """Carry a request to the database and its answer back, as the weather allows."""
        passage = self._weather.passage(self._loop.time())
        if passage == "fine":
            self._later(self._weather.latency_s(), self._serve, request, answer, True)
            return
        self._later(self._weather.silence_s(), _refuse, answer)
        if passage == "answer lost":
            self._later(0.0, self._serve, request, answer, False)
        elif passage == "request late":
            self._later(self._weather.late_s(), self._serve, request, answer, False)

    def _serve(
        self,
        request: Callable[[], Coroutine[object, object, T]],
        answer: asyncio.Future[T],
        heard: bool,
    ) -> None:
        try:
            said = at_once(request())
        except MayuraError as error:
            if heard:
                self._later(self._weather.latency_s(), _fail, answer, error)
        else:
            if heard:
                self._later(self._weather.latency_s(), _answer, answer, said)

    def _later(self, delay_s: float, callback: Callable[..., None], *args: object) -> None:
        if delay_s == 0.0:
            self._loop.call_soon(callback, *args, context=self._context)
        else:
            self._loop.call_later(delay_s, callback, *args, context=self._context)


def at_once(coroutine: Coroutine[object, object, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a store in memory never waits")


def _answer(answer: asyncio.Future[T], said: T) -> None:
    if not answer.done():
        answer.set_result(said)


def _fail(answer: asyncio.Future[T], error: MayuraError) -> None:
    if not answer.done():
        answer.set_exception(error)


def _refuse(answer: asyncio.Future[T]) -> None:
    _fail(answer, MayuraError(Code.STORAGE_UNAVAILABLE, "nobody answered"))
