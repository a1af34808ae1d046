"""The embedded store: one SQLite file, for several processes of one host."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from mayura.runtime.core.state import Instant
from mayura.runtime.errors import MayuraError
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
from mayura.storage import sqlite_reads as reads
from mayura.storage.group_commit import Group, GroupCommit, close_groups
from mayura.storage.host_clock import boot_id, read_clock
from mayura.storage.limits import FILE_CLOSE_TIME_MS, JOURNAL_BYTES_MAX, METHOD_TIME_MAX_MS
from mayura.storage.migrate import Migration, migrations_of
from mayura.storage.payloads import IdentityCodec
from mayura.storage.rows import check_write
from mayura.storage.sqlite_batch import Frame, commit_batch
from mayura.storage.sqlite_connection import SQL, until_free, writing
from mayura.storage.sqlite_create import create_batch
from mayura.storage.sqlite_file import SqliteFile
from mayura.storage.sqlite_path import check_place, path_of
from mayura.storage.sqlite_schema import bring_up, enter_scope

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")

MIGRATIONS: Final = migrations_of("sqlite")
SOUND_VERSION: Final = (3, 51, 3)
"""Before it, a log that was reset during a checkpoint could lose commits or damage the file."""

_log = logging.getLogger("mayura.storage")
_warned: set[str] = set()


class SqliteStore:
    """One scope of one file; `open_store` makes it."""

    def __init__(self, file: SqliteFile, frame: Frame, scope: Scope, once_key: bytes) -> None:
        self._file = file
        self._frame = frame
        self._scope = scope
        self._once_key = once_key
        self._writes = GroupCommit(self._commit)
        self._creates: Group[NewRun, Created] = Group(self._create, lambda new: (new.run.run_id,))
        self._checks: Group[Sequence[CallRef], Sequence[LastCheck | None]] = Group(
            self._check, lambda _: ()
        )

    @property
    def scope(self) -> Scope:
        return self._scope

    @property
    def once_key(self) -> bytes:
        return self._once_key

    async def now(self) -> Instant:
        return self.estimate()

    def estimate(self) -> Instant:
        return read_clock(self._frame.epoch)

    async def put_definition(
        self, digest: bytes, workflow_id: str, version: str, manifest: bytes
    ) -> None:
        if await self.definition(digest) is None:
            row = (digest, workflow_id, version, manifest)
            await self._file.write(partial(_put, "put_definition_if_new", row))

    async def definition(self, digest: bytes) -> bytes | None:
        return await self._file.read(partial(_manifest, "read_definition", digest))

    async def put_policy(self, digest: bytes, manifest: bytes) -> None:
        if await self.policy(digest) is None:
            await self._file.write(partial(_put, "put_policy_if_new", (digest, manifest)))

    async def policy(self, digest: bytes) -> bytes | None:
        return await self._file.read(partial(_manifest, "read_policy", digest))

    async def create(self, new: NewRun) -> Created:
        return await self._creates.put(new)

    async def load(self, run_id: RunId) -> Loaded | None:
        run = await self._read(reads.load, run_id)
        return None if run is None else Loaded(run, self.estimate())

    async def payloads(
        self, run_id: RunId, names: Collection[PayloadName]
    ) -> Mapping[PayloadName, bytes]:
        return await self._read(reads.payloads, run_id, names)

    async def write(self, write: RunWrite) -> WriteAnswer:
        check_write(write)
        return await self._writes.put(write)

    async def last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]:
        return await self._checks.put(calls)

    async def journal(
        self, run_id: RunId, after_version: int = 0, *, bytes_max: int = JOURNAL_BYTES_MAX
    ) -> Sequence[JournalEntry]:
        return await self._read(reads.journal, run_id, after_version, bytes_max)

    async def command(self, run_id: RunId, command_id: str) -> bytes | None:
        return await self._read(reads.command, run_id, command_id)

    async def once_holder(self, digest: bytes) -> Holder | None:
        return await self._read(reads.once_holder, digest)

    async def due(self, limit: int, *, after: tuple[int, RunId] | None = None) -> Sequence[DueRun]:
        return await self._read(reads.due, self.estimate().wall_us, limit, after)

    async def cancelled(self, run_ids: Collection[RunId]) -> Collection[RunId]:
        return await self._read(reads.cancelled, run_ids)

    async def close(self) -> None:
        now = asyncio.get_running_loop().time
        give_up_at = now() + METHOD_TIME_MAX_MS / 1000
        in_hand_s = (METHOD_TIME_MAX_MS - FILE_CLOSE_TIME_MS) / 1000
        try:
            await close_groups(self._checks, self._creates, self._writes, within_seconds=in_hand_s)
        finally:
            await self._file.close(within_seconds=give_up_at - now())

    async def _commit(self, writes: Sequence[RunWrite]) -> Sequence[WriteAnswer | MayuraError]:
        return await self._file.write(lambda raw: commit_batch(raw, self._frame, writes))

    async def _create(self, news: Sequence[NewRun]) -> Sequence[Created | MayuraError]:
        return await self._file.write(lambda raw: create_batch(raw, self._frame, news))

    async def _check(
        self, asked: Sequence[Sequence[CallRef]]
    ) -> Sequence[Sequence[LastCheck | None]]:
        answers = await self._read(reads.last_checks, [call for calls in asked for call in calls])
        each = iter(answers)
        return [[next(each) for _ in calls] for calls in asked]

    async def _read(
        self,
        function: Callable[Concatenate[sqlite3.Connection, Frame, Asked], Answer],
        *asked: Asked.args,
        **how: Asked.kwargs,
    ) -> Answer:
        return await self._file.read(lambda raw: function(raw, self._frame, *asked, **how))


async def open_store(
    url: str,
    *,
    scope: Scope = Scope(),  # noqa: B008 - frozen
    environment: str = "default",
    migrate: bool = True,
) -> SqliteStore:
    """Open `sqlite:///relative.db` or `sqlite:////folder/absolute.db`; the caller closes it.

    A new file is set up, and an older one brought to this release's schema unless `migrate` is
    false. Errors: INVALID_CONFIG for a wrong URL, folder, file system, schema or environment;
    STORAGE_UNAVAILABLE where the file stays locked.
    """
    path, epoch = await asyncio.to_thread(_place, url)
    file = SqliteFile(path)
    await file.open()
    try:
        if migrate:
            await file.write(partial(_bring_up, MIGRATIONS))
        scope_id, once_key = await file.write(
            lambda raw: until_free(lambda: enter_scope(raw, MIGRATIONS, scope, environment))
        )
    except BaseException:
        await file.close()
        raise
    return SqliteStore(file, Frame(scope_id, epoch, IdentityCodec()), scope, once_key)


async def migrate(url: str, *, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Bring a store to this release's schema and answer its version; it needs no environment.

    Errors: as `open_store`.
    """
    path, _ = await asyncio.to_thread(_place, url)
    file = SqliteFile(path)
    await file.open()
    try:
        return await file.write(partial(_bring_up, migrations))
    finally:
        await file.close()


def _place(url: str) -> tuple[Path, str]:
    path = path_of(url).absolute()
    check_place(path)
    if sqlite3.sqlite_version_info < SOUND_VERSION and "version" not in _warned:
        _warned.add("version")
        _log.warning(
            "SQLite %s has a rare fault: where several processes use the file at once it can lose "
            "commits or damage the file (https://sqlite.org/wal.html#walresetbug). Use a Python "
            "linked with SQLite %s or later, or let one process at a time use the file.",
            sqlite3.sqlite_version,
            ".".join(map(str, SOUND_VERSION)),
        )
    return path, boot_id()


def _bring_up(migrations: Sequence[Migration], raw: sqlite3.Connection) -> int:
    return until_free(lambda: bring_up(raw, migrations))


def _put(statement: str, row: tuple[bytes | str, ...], raw: sqlite3.Connection) -> None:
    with writing(raw):
        raw.execute(SQL[statement], row)


def _manifest(statement: str, digest: bytes, raw: sqlite3.Connection) -> bytes | None:
    row = raw.execute(SQL[statement], (digest,)).fetchone()
    return None if row is None else row[0]
