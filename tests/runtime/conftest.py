"""A world a test: a place, a clock, and what must hold when the test is over."""

from __future__ import annotations

import asyncio
import linecache
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mayura.storage.memory_database import MemoryDatabase
from tests.postgres_server import MEMORY_FOLDER
from tests.runtime.oracle import check_ledger, check_runs
from tests.runtime.shop import LEDGER
from tests.runtime.world import Clock, InMemory, InPostgres, InSqlite, World


@pytest.fixture(autouse=True)
def sources_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop in debug mode looks at every source file of a stack for every callback: no need."""
    monkeypatch.setattr(linecache, "checkcache", lambda filename=None: None)


@pytest.fixture(params=["memory", "sqlite"])
def empty_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Where the runs of a test lie; the mark `everywhere` adds PostgreSQL."""
    clock = Clock()
    if request.param == "memory":
        yield World(InMemory(MemoryDatabase(clock=clock)), clock)
    elif request.param == "sqlite":
        # In memory where there is room: what syncing costs is not what is tested here.
        parent = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
        folder = tempfile.TemporaryDirectory(prefix="mayura-", dir=parent)
        with folder as path, clock.over_sqlite():
            yield World(InSqlite(Path(path) / "shop.db"), clock)
    else:
        yield World(InPostgres(request.getfixturevalue("postgres_url")), None)


@pytest.fixture
async def world(empty_world: World) -> AsyncIterator[World]:
    """The world of one test; whatever the test did, every run in it is in order at the end."""
    LEDGER.clear()
    LEDGER.bind(asyncio.get_running_loop())
    yield empty_world
    await empty_world.end()
    check_ledger()
    run_ids = await empty_world.place.run_ids() if empty_world.stores else []
    for store in {store.scope: store for store in empty_world.stores}.values():
        await check_runs(store, run_ids)
    await empty_world.close()
