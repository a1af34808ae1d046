"""What is read of runs; each function is one short look on a connection's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final

from mayura.runtime.core.state import Run
from mayura.runtime.ids import NodeId, Nonce, PayloadName, RunId
from mayura.runtime.ports import CallRef, DueRun, Holder, JournalEntry, LastCheck
from mayura.storage.payloads import decoded
from mayura.storage.rows import run_of, step_of
from mayura.storage.sqlite_batch import Frame
from mayura.storage.sqlite_connection import SQL, reading

_BEFORE_ALL: Final = (-(2**63), b"")


def read_run(raw: sqlite3.Connection, scope_id: int, run_id: RunId) -> Run | None:
    """The run and its steps, inside the caller's transaction."""
    key = bytes.fromhex(run_id)
    row = raw.execute(SQL["read_run"], (key, scope_id)).fetchone()
    if row is None:
        return None
    return run_of(run_id, row, dict(map(step_of, raw.execute(SQL["read_steps"], (key,)))))


def load(raw: sqlite3.Connection, frame: Frame, run_id: RunId) -> Run | None:
    """The run and its steps as one commit left them."""
    with reading(raw):
        return read_run(raw, frame.scope_id, run_id)


def payloads(
    raw: sqlite3.Connection, frame: Frame, run_id: RunId, names: Collection[PayloadName]
) -> dict[PayloadName, bytes]:
    """Those of the payloads that are stored."""
    key, found = bytes.fromhex(run_id), {}
    with reading(raw):
        for name in names:
            row = raw.execute(SQL["read_payload"], (key, frame.scope_id, name)).fetchone()
            if row is not None:
                found[name] = decoded(frame.codec, *row)
    return found


def last_checks(
    raw: sqlite3.Connection, frame: Frame, calls: Sequence[CallRef]
) -> list[LastCheck | None]:
    """One view for all calls (G3)."""
    with reading(raw):
        return [_last_check(raw, frame, call) for call in calls]


def _last_check(raw: sqlite3.Connection, frame: Frame, call: CallRef) -> LastCheck | None:
    key = (call.node, bytes.fromhex(call.run_id), frame.scope_id)
    row = raw.execute(SQL["read_last_check"], key).fetchone()
    if row is None:
        return None
    nonce, input_digest, policy, cancelled, is_open = row
    return LastCheck(nonce, input_digest, policy, bool(cancelled), bool(is_open))


def journal(
    raw: sqlite3.Connection, frame: Frame, run_id: RunId, after_version: int, bytes_max: int
) -> list[JournalEntry]:
    """A page of entries; what does not fit is not read."""
    entries: list[JournalEntry] = []
    size = 0
    with reading(raw):
        key = (bytes.fromhex(run_id), frame.scope_id, after_version)
        for version, first_seq, at_us, nonce, events, chain in raw.execute(
            SQL["read_journal"], key
        ):
            size += len(events)
            if entries and size > bytes_max:
                break
            entries.append(JournalEntry(version, first_seq, at_us, Nonce(nonce), events, chain))
    return entries


def command(raw: sqlite3.Connection, frame: Frame, run_id: RunId, command_id: str) -> bytes | None:
    """The digest under a command id."""
    key = (bytes.fromhex(run_id), frame.scope_id, command_id)
    row = raw.execute(SQL["read_command"], key).fetchone()
    return None if row is None else row[0]


def once_holder(raw: sqlite3.Connection, frame: Frame, digest: bytes) -> Holder | None:
    """Who holds a `once` subject."""
    row = raw.execute(SQL["read_once_holder"], (frame.scope_id, digest)).fetchone()
    return None if row is None else Holder(RunId(row[0].hex()), NodeId(row[1]))


def due(
    raw: sqlite3.Connection,
    frame: Frame,
    until_us: int,
    limit: int,
    after: tuple[int, RunId] | None,
) -> list[DueRun]:
    """A page of what has something to do at `until_us`."""
    wake_at_us, run_id = _BEFORE_ALL if after is None else (after[0], bytes.fromhex(after[1]))
    key = (frame.scope_id, until_us, wake_at_us, run_id, limit)
    rows = raw.execute(SQL["read_due"], key).fetchall()
    return [DueRun(RunId(row[0].hex()), row[1], row[2], row[3]) for row in rows]


def cancelled(
    raw: sqlite3.Connection, frame: Frame, run_ids: Collection[RunId]
) -> frozenset[RunId]:
    """Those that were cancelled."""
    with reading(raw):
        return frozenset(
            run_id
            for run_id in run_ids
            if raw.execute(
                SQL["read_cancelled"], (bytes.fromhex(run_id), frame.scope_id)
            ).fetchone()
        )
