"""The store of a fleet: one PostgreSQL database, for any number of processes and hosts.

Every write is one statement that is a whole transaction, shared with the writes that are ready at
the same moment (`group_commit`, `postgres_commit`). Times are the database's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mayura.runtime.core.state import Instant
from mayura.runtime.ids import PayloadName, RunId, Scope, new_nonce
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
from mayura.storage.group_commit import Group, GroupCommit, GroupStatistics, close_groups
from mayura.storage.limits import JOURNAL_BYTES_MAX
from mayura.storage.migrate import migrations_of
from mayura.storage.payloads import Codec, IdentityCodec
from mayura.storage.postgres_clock import DatabaseClock, instant_of
from mayura.storage.postgres_commit import Committer
from mayura.storage.postgres_create import Creator, Submission
from mayura.storage.postgres_limits import LONE_WRITERS, READERS, WRITERS, Limits
from mayura.storage.postgres_reads import Reader
from mayura.storage.postgres_schema import bring_up, enter_scope
from mayura.storage.postgres_sessions import Sessions
from mayura.storage.postgres_url import target_of
from mayura.storage.rows import as_created, check_write

MIGRATIONS: Final = migrations_of("postgres")


class PostgresStore:
    """One scope of one database; `open_store` makes it."""

    def __init__(
        self,
        *,
        batches: Sessions,
        lone: Sessions,
        readers: Sessions,
        scope: Scope,
        scope_id: int,
        once_key: bytes,
        codec: Codec,
        limits: Limits,
    ) -> None:
        self._scope = scope
        self._once_key = once_key
        self._limits = limits
        self._sessions = (batches, lone, readers)
        self._clock = DatabaseClock()
        reader = Reader(readers, scope_id=scope_id, codec=codec, clock=self._clock, limits=limits)
        committer = Committer(
            batches=batches, lone=lone, scope_id=scope_id, codec=codec, clock=self._clock,
            limits=limits,
        )  # fmt: skip
        creator = Creator(
            batches=batches, lone=lone, scope_id=scope_id, codec=codec, clock=self._clock,
            limits=limits,
        )  # fmt: skip
        self._reader = reader
        self._writes = GroupCommit(committer.flush, lanes=WRITERS)
        self._creates: Group[Submission, Created] = Group(
            creator.flush, lambda submission: (submission.new.run.run_id,)
        )
        self._checks: Group[Sequence[CallRef], Sequence[LastCheck | None]] = Group(
            reader.last_checks, lambda _: ()
        )

    @property
    def scope(self) -> Scope:
        return self._scope

    @property
    def once_key(self) -> bytes:
        return self._once_key

    async def now(self) -> Instant:
        return instant_of(await self._reader.read_clock())

    def estimate(self) -> Instant:
        return self._clock.estimate()

    async def put_definition(
        self, digest: bytes, workflow_id: str, version: str, manifest: bytes
    ) -> None:
        if await self.definition(digest) is None:
            row = (digest, workflow_id, version, manifest)
            await self._reader.ask("put_definition_if_new", *row)

    async def definition(self, digest: bytes) -> bytes | None:
        return await self._reader.manifest("read_definition", digest)

    async def put_policy(self, digest: bytes, manifest: bytes) -> None:
        if await self.policy(digest) is None:
            await self._reader.ask("put_policy_if_new", digest, manifest)

    async def policy(self, digest: bytes) -> bytes | None:
        return await self._reader.manifest("read_policy", digest)

    async def create(self, new: NewRun) -> Created:
        as_created(new, self.estimate())  # refuses what no submission makes
        return await self._creates.put(Submission(new, new_nonce()))

    async def load(self, run_id: RunId) -> Loaded | None:
        return await self._reader.load(run_id)

    async def payloads(
        self, run_id: RunId, names: Collection[PayloadName]
    ) -> Mapping[PayloadName, bytes]:
        return await self._reader.payloads(run_id, names)

    async def write(self, write: RunWrite) -> WriteAnswer:
        check_write(write)
        return await self._writes.put(write)

    async def last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]:
        return await self._checks.put(calls)

    async def journal(
        self, run_id: RunId, after_version: int = 0, *, bytes_max: int = JOURNAL_BYTES_MAX
    ) -> Sequence[JournalEntry]:
        return await self._reader.journal(run_id, after_version, bytes_max)

    async def command(self, run_id: RunId, command_id: str) -> bytes | None:
        return await self._reader.command(run_id, command_id)

    async def once_holder(self, digest: bytes) -> Holder | None:
        return await self._reader.once_holder(digest)

    async def due(self, limit: int, *, after: tuple[int, RunId] | None = None) -> Sequence[DueRun]:
        return await self._reader.due(limit, after)

    async def cancelled(self, run_ids: Collection[RunId]) -> Collection[RunId]:
        return await self._reader.cancelled(run_ids)

    def statistics(self) -> GroupStatistics:
        """How writes travelled together since the store was opened."""
        return self._writes.statistics()

    async def close(self) -> None:
        groups = (self._writes, self._creates, self._checks)
        try:
            await close_groups(*groups, within_seconds=self._limits.close_s)
        finally:
            await asyncio.gather(*(sessions.close() for sessions in self._sessions))


async def open_store(
    url: str,
    *,
    scope: Scope = Scope(),  # noqa: B008 - frozen
    environment: str = "default",
    migrate: bool = True,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> PostgresStore:
    """Open `postgresql://user:password@host:port/database`; the caller closes it.

    An empty database is set up, and an older one brought to this release's schema unless `migrate`
    is false. Behind a pooler in transaction mode say `?pooler=transaction`.

    Errors: INVALID_CONFIG for a wrong URL, user, schema or environment; STORAGE_UNAVAILABLE where
    the database cannot be reached within the method's time.
    """
    target = target_of(url)
    if migrate:
        await bring_up(target, limits, MIGRATIONS)
    readers = Sessions(target, limits, READERS)
    try:
        entered = await enter_scope(readers, limits, MIGRATIONS, scope, environment)
        scope_id, once_key = entered
        store = PostgresStore(
            batches=Sessions(target, limits, WRITERS),
            lone=Sessions(target, limits, LONE_WRITERS),
            readers=readers,
            scope=scope,
            scope_id=scope_id,
            once_key=once_key,
            codec=IdentityCodec(),
            limits=limits,
        )
        await store.now()
    except BaseException:
        await readers.close()
        raise
    return store


async def migrate(url: str) -> int:
    """Bring a store to this release's schema and answer its version; it needs no environment.

    Errors: as `open_store`.
    """
    return await bring_up(target_of(url), Limits(), MIGRATIONS)
