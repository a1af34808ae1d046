"""Sessions with the database: opened when needed, given back when sound, ended when in doubt.

A session that met an error which leaves a statement unsure, or whose user was cancelled, is ended
at once and without asking the server, and a new one takes its place. So a cancelled operation
leaks nothing (case D6), a connection that leads nowhere holds nobody longer than its limit (case
D8), and a session that the server ended while it was idle is not handed out (case D12).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from mayura.runtime.errors import Code, MayuraError
from mayura.storage.home_loop import HomeLoop
from mayura.storage.postgres_errors import meaning_of
from mayura.storage.postgres_limits import LEAVE_S_MAX, Limits
from mayura.storage.postgres_url import Target
from mayura.storage.statements import load

SQL: Final = load("postgres")

_STATEMENTS_MAX: Final = 100
_STATEMENT_BYTES_MAX: Final = 64 << 10


class UnconfirmedError(Exception):
    """The server warned during a commit: it stands here and perhaps not on the standby."""


class Session:
    """One connection, for one user at a time."""

    def __init__(self, connection: asyncpg.Connection, target: Target, limits: Limits) -> None:
        self._connection = connection
        self._pooled = target.pooled
        self._send_s = limits.send_s
        self._warned = False
        connection.add_log_listener(self._heard)

    @property
    def usable(self) -> bool:
        return not self._connection.is_closed()

    async def fetch(self, sql: str, *values: object) -> Sequence[asyncpg.Record]:
        """Carry out one statement as one transaction, and return its rows once it is committed.

        Raises what the driver raises, TimeoutError, or UnconfirmedError.
        """
        self._warned = False
        async with asyncio.timeout(self._send_s):
            if self._pooled:
                rows = await self._fetch_in_transaction(sql, *values)
            else:
                rows = await self._connection.fetch(sql, *values)
        if self._warned:
            raise UnconfirmedError
        return rows

    async def execute(self, sql: str) -> None:
        """Carry out statements without values, outside of any limit but the server's."""
        await self._connection.execute(sql)

    async def close(self) -> None:
        """Take leave of the server, or end the connection where it does not answer."""
        try:
            await self._connection.close(timeout=LEAVE_S_MAX)
        except Exception:  # noqa: BLE001 - the driver has errors of many families
            self.end()

    def end(self) -> None:
        """Cut the connection, whatever is going on in it."""
        self._connection.terminate()

    async def _fetch_in_transaction(self, sql: str, *values: object) -> Sequence[asyncpg.Record]:
        # Outside of a transaction a pooler may give the two halves of a query to two sessions.
        await self._connection.execute(SQL["begin_with_limits"])
        try:
            rows: Sequence[asyncpg.Record] = await self._connection.fetch(sql, *values)
        except asyncpg.PostgresError as error:
            if meaning_of(error) != "unsure":
                await self._connection.execute(SQL["roll_back"])
            raise
        await self._connection.execute(SQL["commit"])
        return rows

    def _heard(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        # A cancelled wait for a synchronous standby says so in a warning and answers as usual.
        # Its words and codes vary; our statements cause no other warning.
        if message.severity_en == "WARNING":
            self._warned = True


class Sessions:
    """At most `size` sessions, opened when needed."""

    def __init__(self, target: Target, limits: Limits, size: int) -> None:
        self._target = target
        self._limits = limits
        self._home = HomeLoop()
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Session] = []
        self._in_use: set[Session] = set()
        self._closed = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Session]:
        """A session to use alone; waits for one, without a limit of its own.

        Raises what connecting raises; STORAGE_UNAVAILABLE after `close`; INVALID_CONFIG on another
        loop than theirs.
        """
        self._home.require()
        async with self._slots:
            if self._closed:
                raise MayuraError(
                    Code.STORAGE_UNAVAILABLE, "The store is closed: open it, then ask again."
                )
            session = self._take_idle() or await open_session(self._target, self._limits)
            self._in_use.add(session)
            sound = False
            try:
                yield session
                sound = True
            except Exception as error:
                sound = meaning_of(error) != "unsure"
                raise
            finally:
                self._in_use.discard(session)
                if sound and session.usable and not self._closed:
                    self._idle.append(session)
                else:
                    session.end()

    async def close(self) -> None:
        """End all; whoever uses one is told as by a server that goes away."""
        self._home.require()
        self._closed = True
        for session in self._in_use:
            session.end()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(session.close() for session in idle))

    def _take_idle(self) -> Session | None:
        while self._idle:
            session = self._idle.pop()
            if session.usable:
                return session
            session.end()
        return None


async def open_session(target: Target, limits: Limits) -> Session:
    """A new session; raises what the driver raises."""
    connection = await asyncpg.connect(
        target.dsn,
        timeout=limits.connect_s,
        statement_cache_size=0 if target.pooled else _STATEMENTS_MAX,
        max_cached_statement_lifetime=0,
        max_cacheable_statement_size=_STATEMENT_BYTES_MAX,
        server_settings={} if target.pooled else limits.session_settings(),
    )
    return Session(connection, target, limits)
