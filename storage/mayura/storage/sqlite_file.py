"""The file of an embedded store: its writer, its reader, and what happens when the disk errs.

After an I/O error both connections are closed and opened again, because a commit whose sync
failed looks rolled back and may be there after a crash. Nothing is read or written, and so nothing
is dispatched, until the file was opened again and a small write was confirmed: that write covers
whatever the failed one left in the log. Then the failed function runs once more, and finds by its
nonces what was committed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from mayura.runtime.errors import Code, MayuraError
from mayura.storage.home_loop import HomeLoop
from mayura.storage.limits import METHOD_TIME_MAX_MS
from mayura.storage.sqlite_connection import SQL, SqliteConnection, writing
from mayura.storage.sqlite_errors import meaning_of, unavailable

Answer = TypeVar("Answer")

_log = logging.getLogger("mayura.storage")

LOG_BYTES_MAX: Final = 64 << 20
"""Above this the write-ahead log is cut back as soon as no reader is in the way (case D16)."""

LOG_LOOK_EVERY_WRITES: Final = 64


class SqliteFile:
    """Runs functions on the writer and on the reader, and opens both again after a fault."""

    def __init__(self, path: Path) -> None:
        self._home = HomeLoop()
        self._path = path
        self._writer = SqliteConnection(path, "writer")
        self._reader = SqliteConnection(path, "reader")
        self._repairing = asyncio.Lock()
        self._damaged = False
        self._opened = False
        self._closing: asyncio.Future[None] | None = None
        self._writes = 0

    async def open(self) -> None:
        """Open both connections. Errors: INVALID_CONFIG, STORAGE_UNAVAILABLE."""
        try:
            await self._writer
            await self._reader
        except BaseException as error:
            await self.close()
            if isinstance(error, sqlite3.Error):
                raise _not_opened(error) from error
            raise
        self._opened = True

    async def read(self, function: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Run `function` on the reader. STORAGE_UNAVAILABLE where the file cannot be read;
        INVALID_CONFIG on another loop than the file's.
        """
        self._home.require()
        async with _in_time():
            await self._sound()
            try:
                return await self._reader.run(function)
            except sqlite3.Error as error:
                raise self._unavailable(error) from error

    async def write(self, function: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Run `function`, a whole transaction that may be repeated, on the writer.

        STORAGE_UNAVAILABLE: whether it was committed is not known. INVALID_CONFIG: as `read`.
        """
        self._home.require()
        async with _in_time():
            await self._sound()
            try:
                return await self._writer.run(self._with_bounded_log(function))
            except sqlite3.Error as error:
                unconfirmed = self._unavailable(error)
                if not self._damaged:
                    raise unconfirmed from error
            await self._sound()
            try:
                return await self._writer.run(function)
            except sqlite3.Error as error:
                raise self._unavailable(error) from error

    def _unavailable(self, error: sqlite3.Error) -> MayuraError:
        self._damaged |= meaning_of(error) == "damaged"
        return unavailable(error)

    async def close(self, *, within_seconds: float = METHOD_TIME_MAX_MS / 1000) -> None:
        """Close both connections, whatever happens; a second call waits for the first.

        After `within_seconds` a disk that does not answer is left alone, and the log says so.
        """
        self._home.require()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(within_seconds))
        await asyncio.shield(self._closing)

    async def _close(self, within_seconds: float) -> None:
        closing = [
            asyncio.create_task(each.close(), name=role)
            for role, each in (("reader", self._reader), ("writer", self._writer))
        ]
        _, left = await asyncio.wait(closing, timeout=max(0.0, within_seconds))
        if left:
            text = "the disk did not answer, so a store's %s is left open and ends with the process"
            _log.error(text, " and ".join(sorted(each.get_name() for each in left)))
        while left := {each for each in left if not each.done()}:
            for each in left:  # more than once: the driver waits again while it is cancelled
                each.cancel()
            await asyncio.sleep(0)
        for failed in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(failed, Exception):
                _log.warning("a store's file did not close well", exc_info=failed)

    async def _sound(self) -> None:
        if self._closing is not None or not self._opened:
            state = "closed" if self._closing is not None else "not open yet"
            raise MayuraError(
                Code.STORAGE_UNAVAILABLE, f"This store is {state}: open it, then send the same."
            )
        if self._damaged:
            async with self._repairing:
                if self._damaged:
                    await self._repair()

    async def _repair(self) -> None:
        try:
            await self._writer.shut()
            await self._reader.shut()
            await self._writer.reopen()
            await self._reader.reopen()
            await self._writer.run(_probe)
        except sqlite3.Error as error:
            raise unavailable(error) from error
        self._damaged = False

    def _with_bounded_log(
        self, function: Callable[[sqlite3.Connection], Answer]
    ) -> Callable[[sqlite3.Connection], Answer]:
        self._writes += 1
        if self._writes % LOG_LOOK_EVERY_WRITES:
            return function

        def bounded(raw: sqlite3.Connection) -> Answer:
            _bound_log(raw, self._path)
            return function(raw)

        return bounded


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """STORAGE_UNAVAILABLE after METHOD_TIME_MAX_MS; what is on a thread then may still end."""
    try:
        async with asyncio.timeout(METHOD_TIME_MAX_MS / 1000):
            yield
    except TimeoutError:
        raise MayuraError(
            Code.STORAGE_UNAVAILABLE,
            f"The store did not answer within {METHOD_TIME_MAX_MS} ms: see that the disk is well.",
        ) from None


def _probe(raw: sqlite3.Connection) -> None:
    """Confirm that a write reaches the disk, and move everything before it out of the log."""
    with writing(raw):
        raw.execute(SQL["probe_write"])
    raw.execute(SQL["checkpoint_truncate"])


def _bound_log(raw: sqlite3.Connection, path: Path) -> None:
    with suppress(FileNotFoundError):
        if os.stat(f"{path}-wal").st_size > LOG_BYTES_MAX:
            raw.execute(SQL["checkpoint_truncate"])


def _not_opened(error: sqlite3.Error) -> MayuraError:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return MayuraError(
        Code.INVALID_CONFIG,
        f"The file cannot be opened as a store ({name}): see that the URL is right, that the file "
        "is a SQLite database, and that this process may write to it and to its folder.",
    )
