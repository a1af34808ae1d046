"""A place with runs, a clock, and the processes that look after them."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack, cast

import asyncpg
import pytest

from mayura.runtime import (
    Code,
    Engine,
    MayuraError,
    Policy,
    RunId,
    Scope,
    Snapshot,
    StepView,
    Workflow,
    open_store,
)
from mayura.runtime.core.state import Instant
from mayura.runtime.ids import NodeId
from mayura.runtime.in_flight import InFlight
from mayura.runtime.people import VerifyHuman
from mayura.runtime.ports import Store
from mayura.runtime.slots import Slots
from mayura.storage import host_clock, sqlite
from mayura.storage.memory import MemoryStore
from mayura.storage.memory_database import MemoryDatabase
from tests.runtime.shop import people, policy_for

START_US = 1_800_000_000_000_000  #: the day on which every test with a settable clock begins
EARLIER_BOOT_US = 5_000_000


everywhere = pytest.mark.parametrize("empty_world", ["memory", "sqlite", "postgres"], indirect=True)
"""On PostgreSQL, too: where the store matters. Such a test cannot set the clock."""


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.wall_us = START_US
        self.steady_us = EARLIER_BOOT_US
        self.epoch = "boot-1"

    def __call__(self) -> Instant:
        return Instant(self.wall_us, self.steady_us, self.epoch)

    def advance(self, seconds: float) -> None:
        """Both clocks go on."""
        self.wall_us += round(seconds * 1_000_000)
        self.steady_us += round(seconds * 1_000_000)

    def step_wall(self, seconds: float) -> None:
        """Somebody set the wall clock; no time passed."""
        self.wall_us += round(seconds * 1_000_000)

    def iso(self, seconds: float) -> str:
        """That long from now, as an input says it."""
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.wall_us)
        return (now + timedelta(seconds=seconds)).isoformat()

    @contextmanager
    def over_sqlite(self) -> Iterator[None]:
        """Let every SQLite store of this process read this clock."""

        def read(epoch: str) -> Instant:
            return Instant(self.wall_us, self.steady_us, epoch)

        with pytest.MonkeyPatch.context() as patch:
            for name, module in tuple(sys.modules.items()):
                known = getattr(module, "read_clock", None)
                if name.startswith("mayura.storage.sqlite") and known is host_clock.read_clock:
                    patch.setattr(module, "read_clock", read)
            yield


class Place(Protocol):
    """Where runs lie, behind the runtime's back."""

    async def open(self, scope: Scope = ...) -> Store: ...

    async def run_ids(self) -> list[RunId]: ...

    async def dump(self) -> str:
        """Everything that is stored, as text."""
        ...


@dataclass
class InMemory:
    database: MemoryDatabase

    async def open(self, scope: Scope = Scope()) -> Store:  # noqa: B008 - frozen
        return MemoryStore(self.database, scope)

    async def run_ids(self) -> list[RunId]:
        return list(self.database.runs)

    async def dump(self) -> str:
        kept = [self.database.runs, self.database.once, self.database.definitions]
        return "\n".join(map(repr, kept))


@dataclass
class InSqlite:
    path: Path

    async def open(self, scope: Scope = Scope()) -> Store:  # noqa: B008 - frozen
        return await sqlite.open_store(f"sqlite:///{self.path}", scope=scope)

    async def run_ids(self) -> list[RunId]:
        rows = self.rows("select lower(hex(run_id)) from runs")
        return [RunId(row[0]) for row in rows]

    async def dump(self) -> str:
        tables = self.rows("select name from sqlite_master where type = 'table'")
        return "\n".join(repr(row) for (name,) in tables for row in self.rows(f"table {name}"))

    def rows(self, statement: str) -> list[Any]:
        if statement.startswith("table "):
            statement = f'select * from "{statement.removeprefix("table ")}"'
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(statement).fetchall()


@dataclass
class InPostgres:
    url: str

    async def open(self, scope: Scope = Scope()) -> Store:  # noqa: B008 - frozen
        return await open_store(self.url, scope=scope)

    async def run_ids(self) -> list[RunId]:
        rows = await self.rows("select run_id::text from runs")
        return [RunId(row[0].replace("-", "")) for row in rows]

    async def dump(self) -> str:
        tables = await self.rows(
            "select format('%I.%I', schemaname, tablename) from pg_tables "
            "where schemaname not in ('pg_catalog', 'information_schema')"
        )
        return "\n".join([repr(row) for (t,) in tables for row in await self.rows(f"table {t}")])

    async def rows(self, statement: str) -> list[Any]:
        connection = await asyncpg.connect(self.url)
        try:
            return cast("list[Any]", await connection.fetch(statement))
        finally:
            await connection.close()


class EngineSettings(TypedDict, total=False):
    """What an engine may be told beside its store, workflows and policy."""

    previous_policies: Sequence[Policy]
    verify_human: VerifyHuman | None
    calls_max: int
    threads_max: int
    margin: float


@dataclass
class World:
    """What a test needs: stores, engines as processes have them, and a clock."""

    place: Place
    settable: Clock | None
    process: InFlight = field(default_factory=InFlight)
    stores: list[Store] = field(default_factory=list)
    engines: list[Engine] = field(default_factory=list)

    @property
    def is_fast(self) -> bool:
        """Whether a commit here costs next to nothing."""
        return isinstance(self.place, InMemory)

    @property
    def clock(self) -> Clock:
        """The clock of the place. On PostgreSQL time is the database's, and cannot be set."""
        assert self.settable is not None, "a test that sets the clock cannot run here"
        return self.settable

    async def store(self, scope: Scope = Scope()) -> Store:  # noqa: B008 - frozen
        """The place as one more process opens it."""
        opened = await self.place.open(scope)
        self.stores.append(opened)
        return opened

    async def engine(
        self,
        *workflows: Workflow[Any, Any],
        store: Store | None = None,
        policy: Policy | None = None,
        process: InFlight | None = None,
        **options: Unpack[EngineSettings],
    ) -> Engine:
        """An engine of this process, or of another one if `process` is given."""
        options.setdefault("verify_human", people)
        made = Engine(
            await self.store() if store is None else store,
            workflows=workflows,
            policy=policy_for(*workflows) if policy is None else policy,
            in_flight=self.process if process is None else process,
            **options,
        )
        self.engines.append(await made.__aenter__())
        return made

    async def elsewhere(
        self,
        *workflows: Workflow[Any, Any],
        store: Store | None = None,
        policy: Policy | None = None,
        **options: Unpack[EngineSettings],
    ) -> Engine:
        """An engine of another process."""
        return await self.engine(
            *workflows, store=store, policy=policy, process=InFlight(), **options
        )

    async def crash(self, engine: Engine) -> None:
        """The process of `engine` dies where it stands: it writes nothing more."""
        engine._stop_starting()
        await engine._give_up()

    async def end(self) -> None:
        """Every process dies; the stores stay open for a last look."""
        for engine in self.engines:
            await self.crash(engine)

    async def close(self) -> None:
        """Close every store."""
        await asyncio.gather(*(store.close() for store in self.stores))


def steps_of(snapshot: Snapshot) -> dict[str, str]:
    """Every step's status, by name."""
    return {str(node): str(step.status) for node, step in snapshot.steps.items()}


def slots_of(engine: Engine) -> Slots:
    """The slots of an engine's calls."""
    return engine._process.slots


def step_of(snapshot: Snapshot, node: str = "act") -> StepView:
    """One step."""
    return snapshot.steps[NodeId(node)]


async def until(event: asyncio.Event) -> None:
    """Wait for a fact; a test that waits in vain fails by name and not by its timeout."""
    async with asyncio.timeout(10):
        await event.wait()


async def until_true(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a fact that only the store, or another task, knows."""
    async with asyncio.timeout(10):
        while not await look():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.002)


async def until_step(engine: Engine, run_id: RunId, node: str, status: str) -> None:
    """Wait until a step has this status in the store."""

    async def stands() -> bool:
        return step_of(await engine.inspect(run_id), node).status == status

    await until_true(stands)


@contextmanager
def refused(code: Code) -> Iterator[pytest.ExceptionInfo[MayuraError]]:
    """What is inside is refused with this code."""
    with pytest.raises(MayuraError) as caught:
        yield caught
    assert caught.value.code is code, caught.value
