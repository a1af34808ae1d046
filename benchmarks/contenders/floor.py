"""The floor: a bare program that makes an engine's commits without being one.

Intent before the body, result after it, one writer that sends everything pending at once. It has
no versions to compare, no claims, no validation, no events and no last check, so nothing that
keeps the guarantee can be as fast. Variants: `batched`, and `fused`, where a step's result and the
next one's intent share a commit.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import asyncpg

from benchmarks.contest import Runs, Setting
from benchmarks.statements import SQL

Row: TypeAlias = tuple[int, int, int, str]  #: run, step, status, value
Put: TypeAlias = Callable[[Sequence[Row]], Awaitable[None]]

SUBMITTED: Final = -1
INTENT: Final = 1
DONE: Final = 2
INPUT: Final = '{"email":"ada@example.com","order_id":"o-1001"}'
OUTPUT: Final = '{"charge_id":"ch_0123456789","ok":true}'


class Writer:
    """Sends what came while it was sending, as one batch, and wakes everybody in it."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._rows: list[Row] = []
        self._sent: asyncio.Future[None] | None = None
        self._there = asyncio.Event()

    async def write(self, *rows: Row) -> None:
        """Return when the rows are durable."""
        self._rows.extend(rows)
        if self._sent is None:
            self._sent = asyncio.get_running_loop().create_future()
        self._there.set()
        await self._sent

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._there.wait()
            self._there.clear()
            rows, self._rows = self._rows, []
            sent, self._sent = self._sent, None
            await self._put(rows)
            assert sent is not None, "who added rows made it"
            sent.set_result(None)


async def body() -> str:
    """The cheapest write: it answers at once."""
    return OUTPUT


@asynccontextmanager
async def runs(setting: Setting) -> Runs:
    """One writer on one database."""
    fused = setting.variant == "fused"
    opened = postgres if setting.url.startswith("postgresql:") else sqlite
    async with opened(setting.url) as put:
        writer = Writer(put)
        writing = asyncio.get_running_loop().create_task(writer.run())

        async def one_run(number: int) -> None:
            await writer.write((number, SUBMITTED, INTENT, INPUT))
            await writer.write((number, 0, INTENT, ""))
            for step in range(setting.steps):
                done = (number, step, DONE, await body())
                following = (number, step + 1, INTENT, "")
                if step + 1 == setting.steps:
                    await writer.write(done, (number, SUBMITTED, DONE, INPUT))
                elif fused:
                    await writer.write(done, following)
                else:
                    await writer.write(done)
                    await writer.write(following)

        yield one_run
        writing.cancel()


@asynccontextmanager
async def postgres(url: str) -> AsyncIterator[Put]:
    """One session that prepared the one statement."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(SQL["floor_create_postgres"])
        statement = await connection.prepare(SQL["floor_put_postgres"])

        async def put(rows: Sequence[Row]) -> None:
            await statement.fetch(*(list(column) for column in zip(*rows, strict=True)))

        yield put
    finally:
        await connection.close()


@asynccontextmanager
async def sqlite(url: str) -> AsyncIterator[Put]:
    """One connection on a thread of its own; a batch is one call on it."""
    path = Path(url.removeprefix("sqlite:///"))
    with ThreadPoolExecutor(1) as thread:
        loop = asyncio.get_running_loop()
        connection = await loop.run_in_executor(thread, _open, path)

        async def put(rows: Sequence[Row]) -> None:
            await loop.run_in_executor(thread, _put, connection, rows)

        try:
            yield put
        finally:
            await loop.run_in_executor(thread, connection.close)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(SQL["floor_journal_sqlite"])
    connection.execute(SQL["floor_synchronous_sqlite"])
    connection.execute(SQL["floor_create_sqlite"])
    return connection


def _put(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    connection.execute(SQL["floor_begin_sqlite"])
    connection.executemany(SQL["floor_put_sqlite"], rows)
    connection.execute(SQL["floor_commit_sqlite"])
