"""What stores in memory share, and the transactions on it.

A transaction is one plain function: nothing else runs while it does, and it changes nothing before
it has checked everything.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias

from mayura.runtime.core.altering import altered
from mayura.runtime.core.state import Instant, Run, Step
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, Nonce, PayloadName, RunId, Scope
from mayura.runtime.ports import (
    Created,
    Holder,
    JournalEntry,
    NewRun,
    Refused,
    RunWrite,
    Won,
    WriteAnswer,
)
from mayura.storage.host_clock import read_clock
from mayura.storage.limits import ONCE_KEY_BYTES
from mayura.storage.memory_checks import check_run, check_step, violation
from mayura.storage.rows import as_created, first_nonce, touched_steps

Clock: TypeAlias = Callable[[], Instant]

NOT_DURABLE: Final = Refused("not_durable", "set keeps_commits of the database in memory")


class VirtualClock:
    """A clock that stands still until it is set: `clock.instant = ...`."""

    def __init__(self, instant: Instant) -> None:
        self.instant = instant

    def __call__(self) -> Instant:
        return self.instant


@dataclass(slots=True)
class KeptRun:
    """Everything that is kept of one run."""

    scope: Scope
    run: Run
    submission: bytes
    payloads: dict[PayloadName, bytes]
    journal: list[JournalEntry]  #: the entry of version n is at n - 1
    commands: dict[str, bytes] = field(default_factory=dict)
    dispatches: dict[NodeId, Nonce] = field(default_factory=dict)


class MemoryDatabase:
    """The rows of a database in memory. `secret` is behind the `once` keys of its scopes."""

    def __init__(self, *, clock: Clock | None = None, secret: bytes | None = None) -> None:
        self.clock: Clock = clock if clock is not None else lambda: read_clock("memory")
        self.keeps_commits = True  #: false: dispatches are refused `not_durable` (G2)
        self.definitions: dict[bytes, bytes] = {}
        self.policies: dict[bytes, bytes] = {}
        self.runs: dict[RunId, KeptRun] = {}
        self.once: dict[tuple[Scope, bytes], Holder] = {}  #: those not released
        self._secret = secrets.token_bytes(ONCE_KEY_BYTES) if secret is None else secret

    def once_key(self, scope: Scope) -> bytes:
        """The secret of one scope."""
        return sha256(self._secret + f"{scope.principal}\n{scope.project}".encode()).digest()

    def run(self, scope: Scope, run_id: RunId) -> KeptRun | None:
        """The run, if it is in this scope."""
        kept = self.runs.get(run_id)
        return kept if kept is not None and kept.scope == scope else None

    def insert(self, scope: Scope, new: NewRun) -> Created:
        """Insert the run, or find the one that its key has."""
        at = self.clock()
        run = as_created(new, at)
        found = self.run(scope, run.run_id)
        if found is not None:
            return Created(found.run, found.submission, created=False)
        if run.definition not in self.definitions or run.policy not in self.policies:
            raise MayuraError(
                Code.NOT_FOUND,
                f"Run {run.run_id}: its definition or its policy is not stored: put both first.",
            )
        check_run(run)
        nonce = first_nonce(run.run_id)
        entry = JournalEntry(1, 1, at.wall_us, nonce, new.entries, run.chain)
        payloads = {"input": new.input}
        self.runs[run.run_id] = KeptRun(scope, run, new.submission, payloads, [entry])
        return Created(run, new.submission, created=True)

    def commit(self, scope: Scope, write: RunWrite) -> WriteAnswer:
        """The compare-and-set of one transition."""
        kept = self.run(scope, write.before.run_id)
        if kept is None:
            return Refused("lost")
        now = self.clock()
        won_before = _won_before(kept, write, now)
        if won_before is not None:
            return won_before
        refused = self._refusal(scope, kept, write)
        if refused is not None:
            return refused
        steps = touched_steps(write, now)
        _check(kept, write, steps)
        self._store(scope, kept, write, steps, now)
        return Won(now)

    def _refusal(self, scope: Scope, kept: KeptRun, write: RunWrite) -> Refused | None:
        if write.dispatches and not self.keeps_commits:
            return NOT_DURABLE
        if kept.run.version != write.before.version:
            return Refused("lost")
        if write.dispatches and kept.run.fence != write.before.fence:
            return Refused("fenced")
        if write.once is not None and (scope, write.once.digest) in self.once:
            return Refused("once")
        if write.command is not None and write.command.command_id in kept.commands:
            return Refused("command")
        return None

    def _store(
        self,
        scope: Scope,
        kept: KeptRun,
        write: RunWrite,
        steps: Mapping[NodeId, Step],
        at: Instant,
    ) -> None:
        before, after, run_id = write.before, write.after, write.before.run_id
        if write.once is not None:
            self.once[scope, write.once.digest] = Holder(run_id, write.once.node)
        for digest in write.once_released:
            if (holder := self.once.get((scope, digest))) and holder.run_id == run_id:
                del self.once[scope, digest]
        if write.command is not None:
            kept.commands[write.command.command_id] = write.command.digest
        for node, step in steps.items():
            if node in write.dispatches and step.dispatch is not None:
                kept.dispatches[node] = step.dispatch.nonce
        kept.payloads.update(write.payloads)
        entry = (after.version, before.event_seq + 1, at.wall_us, write.nonce, write.entries)
        kept.journal.append(JournalEntry(*entry, after.chain))
        stored = {**kept.run.steps, **steps}
        kept.run = altered(after, last_at_us=at.wall_us, fence=kept.run.fence, steps=stored)


def _check(kept: KeptRun, write: RunWrite, steps: Mapping[NodeId, Step]) -> None:
    check_run(write.after)
    for node, step in steps.items():
        check_step(write.after, node, step)
    for node in write.dispatches:
        if node in kept.dispatches:
            raise violation(write.after, f"dispatches, step {node}")


def _won_before(kept: KeptRun, write: RunWrite, now: Instant) -> Won | None:
    version = write.after.version
    if version > len(kept.journal) or kept.journal[version - 1].nonce != write.nonce:
        return None
    wall_us = kept.journal[version - 1].at_us
    for node in write.dispatches:
        sent, stored = write.after.step(node).dispatch, kept.run.step(node).dispatch
        if sent is not None and stored is not None:
            steady_us = stored.settle.at_us - sent.settle_wait_us
            return Won(Instant(wall_us, steady_us, stored.settle.epoch))
    since_us = max(0, now.wall_us - wall_us)
    return Won(Instant(wall_us, now.steady_us - since_us, now.epoch))
