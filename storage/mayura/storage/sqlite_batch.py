"""A batch of transitions as one transaction.

The whole batch is written table by table, in the hope that everybody wins. Where one loses, or is
refused, or contradicts a constraint, nothing of that remains and the batch is written again, each
write in a savepoint of its own: only the offender fails, and each refusal is told why.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from mayura.runtime.core.state import Instant
from mayura.runtime.errors import MayuraError
from mayura.runtime.ids import RunId
from mayura.runtime.ports import Refused, RunWrite, Won, WriteAnswer
from mayura.storage.host_clock import read_clock
from mayura.storage.payloads import Codec
from mayura.storage.rows import Row, run_changes, step_rows
from mayura.storage.sqlite_connection import SQL, keeps_commits, writing
from mayura.storage.sqlite_errors import OFFENCES, violation

NOT_DURABLE: Final = Refused(
    "not_durable", "this connection's synchronous is below FULL: leave the setting to the store"
)

NUMBERS_MAX: Final = 65_536

_UPDATE_RUN: Final = SQL["update_run_if_version"]
_TAKE_ONCE: Final = SQL["take_once_if_released"]
_RELEASE_ONCE: Final = SQL["release_once_if_held"]
_INSERT_DISPATCH: Final = SQL["insert_dispatch"]
_PUT_STEP: Final = SQL["put_step"]
_PUT_PAYLOAD: Final = SQL["put_payload"]
_INSERT_COMMAND: Final = SQL["insert_command_if_new"]
_INSERT_JOURNAL: Final = SQL["insert_journal"]


@dataclass(frozen=True, slots=True)
class Frame:
    """What every write of one open store shares."""

    scope_id: int
    epoch: str
    codec: Codec
    numbers: dict[RunId, int] = field(default_factory=dict)
    """Run numbers that were read; touched on the writer's thread alone. They never change."""


class _NotTogetherError(Exception):
    """Somebody in the batch must be refused."""


@dataclass(slots=True)
class _Rows:
    """The rows of some writes, by table, at one time."""

    frame: Frame
    at: Instant
    runs: list[Row] = field(default_factory=list)
    once: list[Row] = field(default_factory=list)
    released: list[Row] = field(default_factory=list)
    dispatches: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    payloads: list[Row] = field(default_factory=list)
    commands: list[Row] = field(default_factory=list)
    journal: list[Row] = field(default_factory=list)

    def add(self, number: int, write: RunWrite) -> None:
        before, after, at, scope_id = write.before, write.after, self.at, self.frame.scope_id
        run_id = bytes.fromhex(before.run_id)
        fence = before.fence if write.dispatches else None
        changes = run_changes(after, at.wall_us)
        self.runs.append((*changes, number, run_id, scope_id, before.version, fence))
        self.steps.extend([(number, *row) for row in step_rows(write, at)])
        for node in write.dispatches:
            dispatch = after.steps[node].dispatch
            assert dispatch is not None  # check_write saw to it
            self.dispatches.append((number, node, dispatch.nonce, at.wall_us))
        if write.payloads:
            codec = self.frame.codec
            for name, body in write.payloads:
                encoded = codec.encode(body)
                self.payloads.append((number, name, codec.name, codec.key_id, encoded))
        if write.once is not None:
            self.once.append((scope_id, write.once.digest, run_id, write.once.node))
        for digest in write.once_released:
            self.released.append((scope_id, digest, run_id))
        if write.command is not None:
            command = write.command
            self.commands.append((number, command.command_id, command.digest, after.version))
        first_seq = before.event_seq + 1
        self.journal.append(
            (number, after.version, first_seq, at.wall_us, write.nonce, write.entries, after.chain)
        )


def commit_batch(
    raw: sqlite3.Connection, frame: Frame, writes: Sequence[RunWrite]
) -> list[WriteAnswer | MayuraError]:
    """Commit those that may be, together, and answer each. Raises sqlite3.Error for all."""
    try:
        return [_commit_together(raw, frame, writes)] * len(writes)
    except (_NotTogetherError, *OFFENCES):
        return _commit_singly(raw, frame, writes)


def _commit_together(raw: sqlite3.Connection, frame: Frame, writes: Sequence[RunWrite]) -> Won:
    with writing(raw):
        rows = _Rows(frame, read_clock(frame.epoch))
        for write in writes:
            number = _number_of(raw, frame, write)
            if number is None:
                raise _NotTogetherError
            rows.add(number, write)
        if (rows.dispatches and not keeps_commits(raw)) or _insert(raw, rows) is not None:
            raise _NotTogetherError
    return Won(rows.at)


def _commit_singly(
    raw: sqlite3.Connection, frame: Frame, writes: Sequence[RunWrite]
) -> list[WriteAnswer | MayuraError]:
    with writing(raw):
        at = read_clock(frame.epoch)
        durable = keeps_commits(raw)
        return [_write_one(raw, frame, at, write, durable=durable) for write in writes]


def _write_one(
    raw: sqlite3.Connection, frame: Frame, at: Instant, write: RunWrite, *, durable: bool
) -> WriteAnswer | MayuraError:
    number = _number_of(raw, frame, write)
    if number is None:
        return Refused("lost")
    won_before = _won_before(raw, number, at, write)
    if won_before is not None:
        return won_before
    if write.dispatches and not durable:
        return NOT_DURABLE
    raw.execute(SQL["savepoint"])
    answer: WriteAnswer | MayuraError = Won(at)
    try:
        rows = _Rows(frame, at)
        rows.add(number, write)
        reason = _insert(raw, rows)
        if reason is not None:
            answer = Refused(_fenced_or_lost(raw, number, write) if reason == "lost" else reason)
    except OFFENCES as error:
        answer = violation(write.before.run_id, error)
    if not isinstance(answer, Won):
        raw.execute(SQL["undo_savepoint"])
    raw.execute(SQL["keep_savepoint"])
    return answer


def _insert(raw: sqlite3.Connection, rows: _Rows) -> Literal["lost", "once", "command"] | None:
    """Write the rows, the deciding ones first; says who refused, if not every row was taken."""
    if raw.executemany(_UPDATE_RUN, rows.runs).rowcount != len(rows.runs):
        return "lost"
    if rows.once and raw.executemany(_TAKE_ONCE, rows.once).rowcount != len(rows.once):
        return "once"
    if rows.commands:
        inserted = raw.executemany(_INSERT_COMMAND, rows.commands).rowcount
        if inserted != len(rows.commands):
            return "command"
    for statement, values in (
        (_RELEASE_ONCE, rows.released),
        (_INSERT_DISPATCH, rows.dispatches),
        (_PUT_STEP, rows.steps),
        (_PUT_PAYLOAD, rows.payloads),
        (_INSERT_JOURNAL, rows.journal),
    ):
        if values:
            raw.executemany(statement, values)
    return None


def _fenced_or_lost(
    raw: sqlite3.Connection, number: int, write: RunWrite
) -> Literal["fenced", "lost"]:
    standing = raw.execute(SQL["read_standing"], (number,)).fetchone()
    return "fenced" if standing is not None and standing[0] == write.before.version else "lost"


def _number_of(raw: sqlite3.Connection, frame: Frame, write: RunWrite) -> int | None:
    run_id = write.before.run_id
    number = frame.numbers.get(run_id)
    if number is not None:
        return number
    row = raw.execute(SQL["read_run_number"], (bytes.fromhex(run_id), frame.scope_id)).fetchone()
    if row is None:
        return None
    if len(frame.numbers) >= NUMBERS_MAX:
        frame.numbers.clear()
    number = frame.numbers[run_id] = int(row[0])
    return number


def _won_before(raw: sqlite3.Connection, number: int, now: Instant, write: RunWrite) -> Won | None:
    """The answer this write would have got, if it was committed when it was sent before."""
    key = (number, write.after.version, write.nonce)
    found = raw.execute(SQL["read_commit"], key).fetchone()
    if found is None:
        return None
    wall_us: int = found[0]
    for node in write.dispatches:
        dispatch = write.after.step(node).dispatch
        if dispatch is not None:
            settle_at_us, epoch = raw.execute(
                SQL["read_settle_deadline"], (number, node, dispatch.nonce)
            ).fetchone()
            return Won(Instant(wall_us, settle_at_us - dispatch.settle_wait_us, epoch))
    since_us = max(0, now.wall_us - wall_us)
    return Won(Instant(wall_us, now.steady_us - since_us, now.epoch))
