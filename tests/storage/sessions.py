"""Stores and connections that are closed however a test ends, and facts from the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from mayura.storage.postgres import PostgresStore, open_store
from mayura.storage.postgres_limits import Limits
from tests.storage.places import SCOPE
from tests.storage.runs import prepare

FACT_TIMEOUT_S: Final = 30.0


@asynccontextmanager
async def opened(url: str, limits: Limits | None = None) -> AsyncIterator[PostgresStore]:
    """An open store with the definition and the policy of `tests.storage.runs`."""
    store = await open_store(
        url, scope=SCOPE, environment="test", limits=Limits() if limits is None else limits
    )
    try:
        await prepare(store)
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def watching(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session that looks at the others."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        connection.terminate()


@asynccontextmanager
async def locked(url: str, run_id: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody's transaction that holds a run's row until the block ends, and then commits."""
    async with watching(url) as connection, connection.transaction():
        await connection.execute(f"select from runs where run_id = '{run_id}' for update")
        yield connection


async def until(watcher: asyncpg.Connection, question: str, *values: object) -> int:
    """The first answer that is neither null nor false nor zero."""
    async with asyncio.timeout(FACT_TIMEOUT_S):
        while True:
            await watcher.execute("select pg_stat_clear_snapshot()")
            answer: int | None = await watcher.fetchval(question, *values)
            if answer:
                return answer
            await asyncio.sleep(0.005)


async def until_waiting(watcher: asyncpg.Connection, event: str) -> int:
    """The process id of a session that waits for such an event, once there is one."""
    return await until(
        watcher,
        "select pid from pg_stat_activity"
        " where datname = current_database() and $1 in (wait_event_type, wait_event)",
        event,
    )


async def carry_out(url: str, statement: str) -> None:
    """One statement behind the store's back; raises what the database raises."""
    async with watching(url) as connection:
        await connection.execute(statement)
