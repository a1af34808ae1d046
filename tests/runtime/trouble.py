"""What can go wrong between an engine and its store, at the word of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal, cast

from mayura.runtime import Code, Engine, MayuraError, RunId, Snapshot
from mayura.runtime.core import values
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.state import Instant
from mayura.runtime.faultpoints import arm
from mayura.runtime.ids import PayloadName, Scope
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
    Store,
    WriteAnswer,
)
from mayura.storage.limits import JOURNAL_BYTES_MAX

Kind = Literal["create", "dispatch", "receipt", "completion", "command", "settle"]
"""What a write is for; one write may be for several."""
When = Literal["before", "after"]
"""`before` the store heard of it, or `after` it did it: the sender cannot tell."""
ENDS = frozenset({"step.succeeded", "step.failed", "step.blocked", "step.unknown"})
ALWAYS = 10**9


@dataclass
class Outage:
    """The store does not answer to writes of one kind, so many times."""

    kind: Kind
    when: When
    left: int
    error: Exception
    met: asyncio.Event = field(default_factory=asyncio.Event)

    def over(self) -> None:
        """The store is back."""
        self.left = 0


def unavailable() -> MayuraError:
    """What a store raises that did not answer."""
    return MayuraError(Code.STORAGE_UNAVAILABLE, "nobody answered")


def violation() -> MayuraError:
    """What a store raises whose rules forbid a write."""
    return MayuraError(Code.INTEGRITY_VIOLATION, "the store refuses this write")


def events_in(write: RunWrite) -> list[str]:
    """The types of the events that a write stores."""
    events = cast("list[dict[str, JsonValue]]", values.decode(write.entries))
    return [str(event["type"]) for event in events]


def kinds_of(write: RunWrite) -> frozenset[Kind]:
    """What a write is for."""
    types = set(events_in(write))
    ends = bool(types & ENDS)
    found: dict[Kind, bool] = {
        "dispatch": bool(write.dispatches),
        "receipt": "step.receipt" in types and not ends,
        "completion": ends,
        "command": write.command is not None or "signal.received" in types,
        "settle": "step.abandoned" in types,
    }
    return frozenset(kind for kind, is_it in found.items() if is_it)


class Between:
    """A store that passes everything on, keeps what was sent, and errs as it is told."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.sent: list[RunWrite] = []  #: every sending, also those that went wrong
        self.checked: list[CallRef] = []
        self.answers: Callable[[RunWrite], WriteAnswer | None] = lambda write: None
        self.sees: Callable[[LastCheck | None], LastCheck | None] = lambda check: check
        self.pages: Callable[[list[JournalEntry]], Sequence[JournalEntry]] = lambda page: page
        self.unreadable: dict[RunId, Exception] = {}
        self.lost: set[RunId] = set()  #: runs whose values are gone
        self.deaf: Exception | None = None  #: what asking for due runs raises
        self.looking_up: asyncio.Event | None = None  #: lookups of `once` wait for it
        self._outages: list[Outage] = []
        self._reading: dict[RunId, tuple[asyncio.Event, asyncio.Event]] = {}

    def fails(
        self, kind: Kind, when: When, times: int = ALWAYS, error: Exception | None = None
    ) -> Outage:
        """From now on, do not answer to writes of this kind, so many times."""
        outage = Outage(kind, when, times, unavailable() if error is None else error)
        self._outages.append(outage)
        return outage

    def sent_of(self, kind: Kind) -> list[RunWrite]:
        """Every sending of this kind, in order."""
        return [write for write in self.sent if kind in kinds_of(write)]

    def _outage(self, kinds: Collection[Kind]) -> Outage | None:
        for outage in self._outages:
            if outage.left > 0 and outage.kind in kinds:
                outage.left -= 1
                outage.met.set()
                return outage
        return None

    async def write(self, write: RunWrite) -> WriteAnswer:
        self.sent.append(write)
        said = self.answers(write)
        if said is not None:
            return said
        outage = self._outage(kinds_of(write))
        if outage is not None and outage.when == "before":
            raise outage.error
        answer = await self.inner.write(write)
        if outage is not None:
            raise outage.error
        return answer

    async def create(self, new: NewRun) -> Created:
        outage = self._outage({"create"})
        if outage is not None and outage.when == "before":
            raise outage.error
        created = await self.inner.create(new)
        if outage is not None:
            raise outage.error
        return created

    def holds_reading(self, run_id: RunId) -> tuple[asyncio.Event, asyncio.Event]:
        """Readings of this run wait: set once one does, and to be set when they may go on."""
        self._reading[run_id] = asyncio.Event(), asyncio.Event()
        return self._reading[run_id]

    async def load(self, run_id: RunId) -> Loaded | None:
        if run_id in self.unreadable:
            raise self.unreadable[run_id]
        if run_id in self._reading:
            begun, go_on = self._reading[run_id]
            begun.set()
            await go_on.wait()
        return await self.inner.load(run_id)

    async def last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]:
        self.checked.extend(calls)
        return [self.sees(check) for check in await self.inner.last_checks(calls)]

    async def journal(
        self, run_id: RunId, after_version: int = 0, *, bytes_max: int = JOURNAL_BYTES_MAX
    ) -> Sequence[JournalEntry]:
        page = await self.inner.journal(run_id, after_version, bytes_max=bytes_max)
        return self.pages(list(page))

    async def once_holder(self, digest: bytes) -> Holder | None:
        if self.looking_up is not None:
            await self.looking_up.wait()
        return await self.inner.once_holder(digest)

    async def payloads(
        self, run_id: RunId, names: Collection[PayloadName]
    ) -> Mapping[PayloadName, bytes]:
        return {} if run_id in self.lost else await self.inner.payloads(run_id, names)

    async def due(self, limit: int, *, after: tuple[int, RunId] | None = None) -> Sequence[DueRun]:
        if self.deaf is not None:
            raise self.deaf
        return await self.inner.due(limit, after=after)

    # --- what is only passed on -------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        return self.inner.scope

    @property
    def once_key(self) -> bytes:
        return self.inner.once_key

    def estimate(self) -> Instant:
        return self.inner.estimate()

    async def now(self) -> Instant:
        return await self.inner.now()

    async def put_definition(
        self, digest: bytes, workflow_id: str, version: str, manifest: bytes
    ) -> None:
        await self.inner.put_definition(digest, workflow_id, version, manifest)

    async def definition(self, digest: bytes) -> bytes | None:
        return await self.inner.definition(digest)

    async def put_policy(self, digest: bytes, manifest: bytes) -> None:
        await self.inner.put_policy(digest, manifest)

    async def policy(self, digest: bytes) -> bytes | None:
        return await self.inner.policy(digest)

    async def command(self, run_id: RunId, command_id: str) -> bytes | None:
        return await self.inner.command(run_id, command_id)

    async def cancelled(self, run_ids: Collection[RunId]) -> Collection[RunId]:
        return await self.inner.cancelled(run_ids)

    async def close(self) -> None:
        await self.inner.close()


@contextmanager
def at_point(point: str, act: Callable[[], Awaitable[object]]) -> Iterator[asyncio.Event]:
    """Do this where somebody comes to this fault point first; the event says that it happened."""
    reached = asyncio.Event()

    async def hook(name: str) -> None:
        if name == point and not reached.is_set():
            reached.set()
            await act()

    arm(hook)
    try:
        yield reached
    finally:
        arm(None)


def stopping_at(point: str) -> AbstractContextManager[asyncio.Event]:
    """Whoever comes to this fault point first stops there for ever; the event says so."""
    return at_point(point, lambda: asyncio.Event().wait())


async def through_trouble(engine: Engine, run_id: RunId) -> tuple[Snapshot, int]:
    """Drive the run again as often as the store did not answer; where it stands, and how often."""
    failures = 0
    while True:
        try:
            return await engine.run_until_settled(run_id), failures
        except MayuraError as error:
            if error.code is not Code.STORAGE_UNAVAILABLE:
                raise
            failures += 1
