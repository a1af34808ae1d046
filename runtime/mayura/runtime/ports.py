"""What the runtime asks of the world: a store, and nothing more it could not be given in a test.

The store's contract in one paragraph: `write` is a compare-and-set of one run, named by a nonce.
It answers what happened, or raises STORAGE_UNAVAILABLE, which means *not known*: the same write
may then be sent again, as often as needed, and at most one of them applies. A certain refusal is
an answer, never an exception.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from mayura.runtime.core.state import Instant, Run
from mayura.runtime.ids import NodeId, Nonce, PayloadName, RunId, Scope


@dataclass(frozen=True, slots=True)
class OnceClaim:
    """The subject of a `once` tool: a keyed digest that is dispatched at most once (G16)."""

    digest: bytes
    node: NodeId


@dataclass(frozen=True, slots=True)
class Holder:
    """The call that holds a `once` subject."""

    run_id: RunId
    node: NodeId


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's or sender's command: repeated under its id it changes nothing."""

    command_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class NewRun:
    """A submission. `submission` is the digest of everything that was asked for."""

    run: Run  #: version 1; times are filled in by the store
    submission: bytes
    entries: bytes  #: the journal's first entry: canonical JSON array of events
    input: bytes


@dataclass(frozen=True, slots=True)
class Created:
    """What `create` found or made. `created` is false when the key already had a run."""

    run: Run
    submission: bytes
    created: bool


@dataclass(frozen=True, slots=True)
class RunWrite:
    """One transition, whole: what `after` changed of `before`, and nothing more.

    The store compares `before.version`, writes the run's row, the steps in `touched`, the
    payloads, one dispatch record for each node in `dispatches`, the `once` rows, the command and
    one journal entry, all in one commit. With dispatches it also compares `before.fence` and
    refuses a store that would not keep the record (G2). It computes the dispatch time and settle
    deadline of each dispatch on its own clock, after the row lock.
    """

    nonce: Nonce
    before: Run
    after: Run
    entries: bytes  #: canonical JSON array of this transition's events
    touched: tuple[NodeId, ...] = ()
    payloads: tuple[tuple[PayloadName, bytes], ...] = ()
    dispatches: tuple[NodeId, ...] = ()
    once: OnceClaim | None = None  #: at most one a write; then no other dispatch, no release
    once_released: tuple[bytes, ...] = ()  #: one that this run does not hold is left as it is
    command: Command | None = None


@dataclass(frozen=True, slots=True)
class Won:
    """Committed, durably, at this time. Dispatches carry this time and the deadline from it."""

    at: Instant


@dataclass(frozen=True, slots=True)
class Refused:
    """Certainly not committed, and why.

    `lost`: the version moved on: read again. `fenced`: the claim was taken over (G8).
    `once`: the subject is taken (G16). `not_durable`: a dispatch would not survive a crash;
    `remedy` says what to set (G2). `command`: the command id was used before.
    """

    reason: Literal["lost", "fenced", "once", "not_durable", "command"]
    remedy: str = ""


WriteAnswer: TypeAlias = Won | Refused


@dataclass(frozen=True, slots=True)
class CallRef:
    """A dispatch to be looked at again right before its body is entered (G3)."""

    run_id: RunId
    node: NodeId


@dataclass(frozen=True, slots=True)
class LastCheck:
    """What the store says of a call now: everything the last check compares (G3).

    `None` in place of a nonce: the step is not dispatching. Values of the dispatch itself are
    compared by the caller.
    """

    nonce: Nonce | None
    input_digest: bytes | None
    policy: bytes
    cancelled: bool
    open: bool


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One committed transition as the journal keeps it; `entries` are its events."""

    version: int
    first_seq: int  #: sequence number of the first event in `entries`; numbers have no gaps
    at_us: int
    nonce: Nonce
    entries: bytes
    chain: bytes


@dataclass(frozen=True, slots=True)
class DueRun:
    """A run that has something to do now, and what a process must have loaded to do it."""

    run_id: RunId
    definition: bytes
    policy: bytes
    wake_at_us: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """A run as stored, and the store's clocks when it was read."""

    run: Run
    now: Instant


class Store(Protocol):
    """Where runs live: one scope of one store. Opened and closed by the application.

    It is used and closed on the event loop that opened it; a second loop opens a store of its own.
    Every method may raise MayuraError with STORAGE_UNAVAILABLE within the store's time limit.
    """

    @property
    def scope(self) -> Scope: ...

    @property
    def once_key(self) -> bytes:
        """The scope's secret for `once` digests; never deleted (G16)."""
        ...

    async def now(self) -> Instant:
        """The store's clocks: the database's time on PostgreSQL (docs: the model, "Times")."""
        ...

    def estimate(self) -> Instant:
        """The store's time without a round trip, from the last reading and a local steady clock."""
        ...

    async def put_definition(
        self, digest: bytes, workflow_id: str, version: str, manifest: bytes
    ) -> None:
        """Keep a manifest; the same digest again changes nothing."""
        ...

    async def definition(self, digest: bytes) -> bytes | None: ...

    async def put_policy(self, digest: bytes, manifest: bytes) -> None: ...

    async def policy(self, digest: bytes) -> bytes | None: ...

    async def create(self, new: NewRun) -> Created:
        """Insert the run, its input and its first journal entry, or return the key's run."""
        ...

    async def load(self, run_id: RunId) -> Loaded | None: ...

    async def payloads(
        self, run_id: RunId, names: Collection[PayloadName]
    ) -> Mapping[PayloadName, bytes]: ...

    async def write(self, write: RunWrite) -> WriteAnswer: ...

    async def last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]:
        """One read for many calls, begun after they were dispatched; None: no such run."""
        ...

    async def journal(
        self, run_id: RunId, after_version: int = 0, *, bytes_max: int = ...
    ) -> Sequence[JournalEntry]:
        """Entries in order, at most `bytes_max` of them but at least one; empty: no more."""
        ...

    async def command(self, run_id: RunId, command_id: str) -> bytes | None:
        """The digest stored under a command id, if it was carried out."""
        ...

    async def once_holder(self, digest: bytes) -> Holder | None:
        """The call that holds a `once` subject, unless it was released."""
        ...

    async def due(self, limit: int, *, after: tuple[int, RunId] | None = None) -> Sequence[DueRun]:
        """Open runs whose wake time has come, in (wake time, run id) order, a page at a time."""
        ...

    async def cancelled(self, run_ids: Collection[RunId]) -> Collection[RunId]:
        """Those of `run_ids` that were cancelled: how a call elsewhere learns of it."""
        ...

    async def close(self) -> None: ...
