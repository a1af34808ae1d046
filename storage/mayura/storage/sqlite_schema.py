"""Brings an embedded store to the schema of this release, and opens a scope of it.

Everything happens in one transaction that begins with the write lock, before the marks are read:
of ten processes at once one migrates and nine find it done, and an interruption between any two
statements leaves the old version complete (cases K2, K4).
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Sequence

from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import Scope, new_nonce
from mayura.storage.limits import ONCE_KEY_BYTES
from mayura.storage.migrate import (
    Migration,
    SchemaMarks,
    missing,
    require_current,
    require_environment,
)
from mayura.storage.sqlite_connection import SQL, reading, writing


def read_marks(raw: sqlite3.Connection) -> SchemaMarks:
    """What the file says of its schema. INVALID_CONFIG where it is somebody else's database."""
    if raw.execute(SQL["store_exists"]).fetchone() is not None:
        return SchemaMarks(*raw.execute(SQL["read_marks"]).fetchone())
    if raw.execute(SQL["anything_exists"]).fetchone() is not None:
        raise MayuraError(
            Code.INVALID_CONFIG,
            "This file is a database of something else: correct the URL, or name a new file.",
        )
    return SchemaMarks()


def bring_up(raw: sqlite3.Connection, migrations: Sequence[Migration]) -> int:
    """Carry out the missing migrations; answers the schema version that is there now."""
    with reading(raw):
        marks = read_marks(raw)
        if not missing(migrations, marks):
            return marks.version
    with writing(raw):
        marks = read_marks(raw)
        for migration in missing(migrations, marks):
            for statement in migration.statements:
                raw.execute(statement.sql)
            _mark(raw, migration, is_new=marks.version == 0)
            marks = SchemaMarks(migration.number, migration.writable_by)
        return marks.version


def _mark(raw: sqlite3.Connection, migration: Migration, *, is_new: bool) -> None:
    if is_new:
        row = (migration.number, migration.writable_by, new_nonce(), time.time_ns() // 1000)
        raw.execute(SQL["insert_store"], row)
    else:
        raw.execute(SQL["update_marks"], (migration.number, migration.writable_by))


def enter_scope(
    raw: sqlite3.Connection, migrations: Sequence[Migration], scope: Scope, environment: str
) -> tuple[int, bytes]:
    """The scope's number and secret, made if it is new, in a store of this environment."""
    with reading(raw):
        require_current(migrations, read_marks(raw))
        (found,) = raw.execute(SQL["read_environment"]).fetchone()
        known = _read_scope(raw, scope)
        if found == environment and known is not None:
            return known
    with writing(raw):
        raw.execute(SQL["claim_environment_if_unclaimed"], (environment,))
        (found,) = raw.execute(SQL["read_environment"]).fetchone()
        require_environment(found, environment)
        row = (scope.principal, scope.project, secrets.token_bytes(ONCE_KEY_BYTES))
        raw.execute(SQL["insert_scope_if_new"], row)
        entered = _read_scope(raw, scope)
    if entered is None:
        raise MayuraError(Code.INTEGRITY_VIOLATION, "A scope that was just made is not there.")
    return entered


def _read_scope(raw: sqlite3.Connection, scope: Scope) -> tuple[int, bytes] | None:
    row = raw.execute(SQL["read_scope"], (scope.principal, scope.project)).fetchone()
    return None if row is None else (row[0], row[1])
