"""One connection to an embedded store, and the frame of a transaction on it.

A whole transaction is one function call on the connection's thread: a round trip to the thread
costs more than the statements.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

import aiosqlite

from mayura.runtime.errors import Code, MayuraError
from mayura.storage.limits import LOCK_WAIT_MAX_MS
from mayura.storage.sqlite_errors import meaning_of
from mayura.storage.statements import load

Answer = TypeVar("Answer")

SQL: Final = load("sqlite")
CACHED_STATEMENTS: Final = 64
SYNCHRONOUS_FULL: Final = 2
POLL_US_MAX: Final = 2_000

_SETTINGS: Final = {
    "writer": (
        "set_busy_timeout",
        "set_synchronous_full",
        "set_foreign_keys",
        "set_cache_size",
        "set_auto_checkpoint",
        "set_log_size_limit",
    ),
    "reader": ("set_reader_busy_timeout", "set_cache_size", "set_query_only"),
}


class SqliteConnection(aiosqlite.Connection):
    """A connection whose thread runs whole functions, and which can be opened again in place."""

    def __init__(self, path: Path, role: Literal["writer", "reader"]) -> None:
        super().__init__(lambda: connect(path, role), iter_chunk_size=64)
        self._thread.daemon = True  # a disk that hangs must not keep the process from ending

    async def run(self, function: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Run `function` on the connection's thread.

        Errors: what it raises; STORAGE_UNAVAILABLE where the connection was closed.
        """
        return await self._on_thread(lambda: function(self._conn))

    async def shut(self) -> None:
        """Close the file and keep the thread; `reopen` follows."""
        await self._on_thread(self._conn.close)

    async def reopen(self) -> None:
        """Open the file again after `shut`."""
        await self._on_thread(self._reopen)

    def _reopen(self) -> None:
        # Here and not after the wait: a caller that is cancelled must not lose the connection.
        self._connection = self._connector()

    async def _on_thread(self, function: Callable[[], Answer]) -> Answer:
        if not self._running or self._connection is None:
            raise MayuraError(
                Code.STORAGE_UNAVAILABLE, "This store was closed: open it, then send the same."
            )
        # aiosqlite's own way to its thread; it has no types.
        answer: Answer = await self._execute(function)  # type: ignore[no-untyped-call]
        return answer


def connect(path: Path, role: Literal["writer", "reader"]) -> sqlite3.Connection:
    """Open the file with the settings of a role. Raises sqlite3.Error; runs on any thread."""
    raw = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=CACHED_STATEMENTS
    )
    try:
        for name in _SETTINGS[role]:
            until_free(partial(raw.execute, SQL[name]))
        if role == "writer":
            _require_write_ahead_log(raw)
    except BaseException:
        raw.close()
        raise
    return raw


def _require_write_ahead_log(raw: sqlite3.Connection) -> None:
    """Processes that open a new file at once meet each other's lock here, whatever the timeout."""
    (mode,) = until_free(lambda: raw.execute(SQL["set_write_ahead_log"]).fetchone())
    if mode != "wal":
        raise MayuraError(
            Code.INVALID_CONFIG,
            f"SQLite cannot keep a write-ahead log here (its mode stays {mode!r}): use a local "
            "disk, or a PostgreSQL store.",
        )
    if not keeps_commits(raw):
        raise MayuraError(
            Code.INVALID_CONFIG, "This SQLite ignores synchronous=FULL: use another build of it."
        )


def keeps_commits(raw: sqlite3.Connection) -> bool:
    """Whether a commit of this connection is on the disk when it is answered (G2)."""
    (level,) = raw.execute(SQL["read_synchronous"]).fetchone()
    return bool(level >= SYNCHRONOUS_FULL)


def until_free(statement: Callable[[], Answer]) -> Answer:
    """Repeat `statement` while another process holds the lock, at most LOCK_WAIT_MAX_MS.

    SQLite's own waits grow to 100 ms and starve beside a busy writer; these stay short and random.
    """
    give_up_ns = time.monotonic_ns() + LOCK_WAIT_MAX_MS * 1_000_000
    while True:
        try:
            return statement()
        except sqlite3.OperationalError as error:
            if meaning_of(error) != "busy" or time.monotonic_ns() > give_up_ns:
                raise
        time.sleep(random.randrange(POLL_US_MAX) / 1_000_000)


@contextmanager
def writing(raw: sqlite3.Connection) -> Iterator[None]:
    """A write transaction: committed, durably, if the body ends; not at all if it raises.

    Raises sqlite3.Error. Busy, from here, is a certain no: a COMMIT that stays busy is undone.
    """
    until_free(lambda: raw.execute(SQL["begin_write"]))
    try:
        yield
        until_free(lambda: raw.execute(SQL["commit"]))
    except BaseException:
        if raw.in_transaction:
            raw.execute(SQL["rollback"])
        raise


@contextmanager
def reading(raw: sqlite3.Connection) -> Iterator[None]:
    """One view of the store for everything read in the body."""
    raw.execute(SQL["begin_read"])
    try:
        yield
    finally:
        if raw.in_transaction:
            raw.execute(SQL["rollback"])
