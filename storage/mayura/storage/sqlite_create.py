"""Submissions that are ready together, as one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from mayura.runtime.core.state import Instant
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import RunId
from mayura.runtime.ports import Created, NewRun
from mayura.storage.host_clock import read_clock
from mayura.storage.rows import as_created, first_nonce, run_changes
from mayura.storage.sqlite_batch import Frame
from mayura.storage.sqlite_connection import SQL, writing
from mayura.storage.sqlite_errors import OFFENCES, violation
from mayura.storage.sqlite_reads import read_run


def create_batch(
    raw: sqlite3.Connection, frame: Frame, news: Sequence[NewRun]
) -> list[Created | MayuraError]:
    """Insert those whose key is free and find the others' runs. Raises sqlite3.Error for all."""
    with writing(raw):
        at = read_clock(frame.epoch)
        return [_create_one(raw, frame, at, new) for new in news]


def _create_one(
    raw: sqlite3.Connection, frame: Frame, at: Instant, new: NewRun
) -> Created | MayuraError:
    raw.execute(SQL["savepoint"])
    answer: Created | MayuraError
    try:
        answer = _insert(raw, frame, at, new) or _found(raw, frame, new)
    except MayuraError as error:
        answer = error
    except OFFENCES as error:
        answer = violation(new.run.run_id, error)
    if isinstance(answer, MayuraError):
        raw.execute(SQL["undo_savepoint"])
    raw.execute(SQL["keep_savepoint"])
    return answer


def _insert(raw: sqlite3.Connection, frame: Frame, at: Instant, new: NewRun) -> Created | None:
    run = as_created(new, at)
    run_id, codec = bytes.fromhex(run.run_id), frame.codec
    row = (
        *(run_id, frame.scope_id, run.key, run.requested_by, new.submission, run.salt),
        *(run.created_at_us, *run_changes(run, at.wall_us), run.definition, run.policy),
    )
    inserted = raw.execute(SQL["insert_run_if_new"], row)
    if inserted.rowcount == 0:
        return None
    number, body = inserted.lastrowid, codec.encode(new.input)
    raw.execute(SQL["put_payload"], (number, "input", codec.name, codec.key_id, body))
    entry = (number, run.version, 1, at.wall_us, first_nonce(run.run_id), new.entries, run.chain)
    raw.execute(SQL["insert_journal"], entry)
    return Created(run, new.submission, created=True)


def _found(raw: sqlite3.Connection, frame: Frame, new: NewRun) -> Created:
    found = raw.execute(SQL["read_submission"], (frame.scope_id, new.run.key)).fetchone()
    if found is None:
        raise MayuraError(
            Code.NOT_FOUND,
            f"Run {new.run.run_id}: its definition or its policy is not stored: put both first.",
        )
    run_id, submission = found
    run = read_run(raw, frame.scope_id, RunId(run_id.hex()))
    if run is None:
        raise MayuraError(Code.INTEGRITY_VIOLATION, f"Run {run_id.hex()} is half there.")
    return Created(run, submission, created=False)
