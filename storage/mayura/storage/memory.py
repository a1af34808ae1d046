"""The store in memory: for tests and the simulation. It ends with its process.

A `MemoryDatabase` is what a file or a server is to the other stores; every `MemoryStore` on it is
a process of its own. Its clock can be set, and hooks before and after each commit let a simulation
interleave processes, stop one for ever, or lose an answer by raising.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from mayura.runtime.core.state import Instant, StepStatus
from mayura.runtime.errors import Code, MayuraError
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
from mayura.storage.limits import JOURNAL_BYTES_MAX
from mayura.storage.memory_database import KeptRun, MemoryDatabase
from mayura.storage.rows import check_write

CommitHook: TypeAlias = Callable[[RunWrite | NewRun], Awaitable[None]]


async def no_hook(write: RunWrite | NewRun) -> None:
    """What happens before and after a commit unless a test says otherwise."""


class MemoryStore:
    """One scope of a database in memory, as one process sees it."""

    def __init__(
        self,
        database: MemoryDatabase | None = None,
        scope: Scope = Scope(),  # noqa: B008 - frozen
        *,
        before_commit: CommitHook = no_hook,
        after_commit: CommitHook = no_hook,
    ) -> None:
        """The hooks are awaited with each write and submission; what they raise, it raises."""
        self.database = MemoryDatabase() if database is None else database
        self.before_commit = before_commit
        self.after_commit = after_commit
        self._scope = scope
        self._closed = False

    @property
    def scope(self) -> Scope:
        return self._scope

    @property
    def once_key(self) -> bytes:
        return self.database.once_key(self._scope)

    async def now(self) -> Instant:
        self._require_open()
        return self.database.clock()

    def estimate(self) -> Instant:
        return self.database.clock()

    async def put_definition(
        self, digest: bytes, workflow_id: str, version: str, manifest: bytes
    ) -> None:
        self._require_open()
        self.database.definitions.setdefault(digest, manifest)

    async def definition(self, digest: bytes) -> bytes | None:
        self._require_open()
        return self.database.definitions.get(digest)

    async def put_policy(self, digest: bytes, manifest: bytes) -> None:
        self._require_open()
        self.database.policies.setdefault(digest, manifest)

    async def policy(self, digest: bytes) -> bytes | None:
        self._require_open()
        return self.database.policies.get(digest)

    async def create(self, new: NewRun) -> Created:
        self._require_open()
        await self.before_commit(new)
        created = self.database.insert(self._scope, new)
        await self.after_commit(new)
        return created

    async def load(self, run_id: RunId) -> Loaded | None:
        kept = self._run(run_id)
        return None if kept is None else Loaded(kept.run, self.database.clock())

    async def payloads(
        self, run_id: RunId, names: Collection[PayloadName]
    ) -> Mapping[PayloadName, bytes]:
        kept = self._run(run_id)
        stored = {} if kept is None else kept.payloads
        return {name: stored[name] for name in names if name in stored}

    async def write(self, write: RunWrite) -> WriteAnswer:
        self._require_open()
        check_write(write)
        await self.before_commit(write)
        answer = self.database.commit(self._scope, write)
        await self.after_commit(write)
        return answer

    async def last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]:
        self._require_open()
        return [self._last_check(call) for call in calls]

    async def journal(
        self, run_id: RunId, after_version: int = 0, *, bytes_max: int = JOURNAL_BYTES_MAX
    ) -> Sequence[JournalEntry]:
        kept = self._run(run_id)
        page: list[JournalEntry] = []
        size = 0
        for entry in [] if kept is None else kept.journal[after_version:]:
            size += len(entry.entries)
            if page and size > bytes_max:
                break
            page.append(entry)
        return page

    async def command(self, run_id: RunId, command_id: str) -> bytes | None:
        kept = self._run(run_id)
        return None if kept is None else kept.commands.get(command_id)

    async def once_holder(self, digest: bytes) -> Holder | None:
        self._require_open()
        return self.database.once.get((self._scope, digest))

    async def due(self, limit: int, *, after: tuple[int, RunId] | None = None) -> Sequence[DueRun]:
        self._require_open()
        until_us = self.database.clock().wall_us
        found = [
            DueRun(run.run_id, run.definition, run.policy, run.wake_at_us)
            for kept in self.database.runs.values()
            if kept.scope == self._scope
            and (run := kept.run).wake_at_us is not None
            and run.wake_at_us <= until_us
            and (after is None or (run.wake_at_us, run.run_id) > after)
        ]
        return sorted(found, key=lambda due: (due.wake_at_us, due.run_id))[:limit]

    async def cancelled(self, run_ids: Collection[RunId]) -> Collection[RunId]:
        found = ((run_id, self._run(run_id)) for run_id in run_ids)
        return frozenset(run_id for run_id, kept in found if kept and kept.run.cancelled)

    async def close(self) -> None:
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise MayuraError(
                Code.STORAGE_UNAVAILABLE, "This store is closed: open it, then send the same."
            )

    def _run(self, run_id: RunId) -> KeptRun | None:
        self._require_open()
        return self.database.run(self._scope, run_id)

    def _last_check(self, call: CallRef) -> LastCheck | None:
        kept = self._run(call.run_id)
        if kept is None:
            return None
        run, step = kept.run, kept.run.step(call.node)
        dispatch = step.dispatch if step.status is StepStatus.DISPATCHING else None
        return LastCheck(
            None if dispatch is None else dispatch.nonce,
            None if dispatch is None else dispatch.input_digest,
            run.policy,
            run.cancelled,
            run.open,
        )


async def open_store(
    url: str,
    *,
    scope: Scope = Scope(),  # noqa: B008 - frozen
    environment: str = "default",
    migrate: bool = True,
) -> MemoryStore:
    """A fresh, empty store for `memory://`; nothing else can ever open it."""
    if url != "memory://":
        raise MayuraError(
            Code.INVALID_CONFIG, "A store in memory has the URL memory:// and nothing behind it."
        )
    return MemoryStore(scope=scope)
