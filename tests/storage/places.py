"""The three kinds of place a store can be at, as the conformance suite sees them."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import asyncpg

from mayura.runtime.ids import Scope
from mayura.runtime.ports import Store
from mayura.storage import postgres, sqlite
from mayura.storage.memory import MemoryStore
from mayura.storage.memory_database import MemoryDatabase

SCOPE = Scope("acme", "shop")


class Place(Protocol):
    """Somewhere to open stores, each as if from another process."""

    async def open(self, scope: Scope = SCOPE, environment: str = "test") -> Store: ...

    async def open_forgetful(self) -> Store:
        """A store whose connections do not make their commits durable."""
        ...

    async def execute(self, statement: str) -> None:
        """Carry out a statement behind the store's back; raises what the database raises."""
        ...


@dataclass
class MemoryPlace:
    database: MemoryDatabase = field(default_factory=MemoryDatabase)

    async def open(self, scope: Scope = SCOPE, environment: str = "test") -> Store:
        return MemoryStore(self.database, scope)

    async def open_forgetful(self) -> Store:
        self.database.keeps_commits = False
        return await self.open()

    async def execute(self, statement: str) -> None:
        raise NotImplementedError


@dataclass
class SqlitePlace:
    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    async def open(self, scope: Scope = SCOPE, environment: str = "test") -> sqlite.SqliteStore:
        return await sqlite.open_store(self.url, scope=scope, environment=environment)

    async def open_forgetful(self) -> Store:
        store = await self.open()
        await store._file.write(lambda raw: raw.execute("pragma synchronous = normal"))
        return store

    async def execute(self, statement: str) -> None:
        def carry_out() -> None:
            connection = sqlite3.connect(self.path, timeout=10)
            try:
                with connection:
                    connection.execute(statement)
            finally:
                connection.close()

        await asyncio.to_thread(carry_out)


@dataclass
class PostgresPlace:
    url: str

    async def open(self, scope: Scope = SCOPE, environment: str = "test") -> Store:
        return await postgres.open_store(self.url, scope=scope, environment=environment)

    async def open_forgetful(self) -> Store:
        name = self.url.rpartition("/")[2].partition("?")[0]
        await self.execute(f'alter database "{name}" set synchronous_commit = off')
        return await self.open()

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()
