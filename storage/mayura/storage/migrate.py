"""Schema migrations as data: which there are, which are missing, and who may still write.

A migration is a numbered file of named statements, `0002_add_children.sql`, whose first line says
which schema version a release must know to write to the result:

    -- writable by: 1

Together the migrations add up to `schema.sql`, which is what a person reads. A store keeps two
marks in its one `store` row: `schema_version`, the last migration carried out, and `writable_by`.
Each database carries migrations out in its own way, but always the missing ones with their marks
in one transaction that begins before the marks are read: ten processes at once migrate once, and
an interruption between any two statements leaves the old version complete (cases K2, K4).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mayura.runtime.errors import Code, MayuraError
from mayura.storage.statements import Dialect, Statement, parse, sql_folder

_FILE_NAME: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_WRITABLE_BY: Final = re.compile(r"-- writable by: (\d+)\n")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from a schema version to the next."""

    number: int  #: the schema version it makes
    name: str
    writable_by: int  #: the oldest schema version whose releases may still write afterwards
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class SchemaMarks:
    """What a store says of its own schema; a store without any is at version 0."""

    version: int = 0
    writable_by: int = 0


def migrations_of(dialect: Dialect) -> tuple[Migration, ...]:
    """The dialect's migrations in order. Raises ValueError where the numbers have a gap."""
    folder = sql_folder(dialect) / "migrations"
    found = sorted(
        (entry.name, entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    )
    migrations = tuple(migration_of(name, text) for name, text in found)
    if [migration.number for migration in migrations] != list(range(1, len(migrations) + 1)):
        raise ValueError(f"the migrations of {dialect} are not numbered 1, 2, 3, ...")
    oldest = [migration.writable_by for migration in migrations]
    if oldest != sorted(oldest):
        raise ValueError(
            f"a migration of {dialect} lets releases write that an earlier one shut out"
        )
    return migrations


def migration_of(file_name: str, text: str) -> Migration:
    """The migration that a file holds. Raises ValueError naming what is missing."""
    named = _FILE_NAME.fullmatch(file_name)
    writable_by = _WRITABLE_BY.match(text)
    if named is None or writable_by is None:
        raise ValueError(f"{file_name}: needs a name like 0002_add_x.sql and `-- writable by: 1`")
    number, oldest = int(named[1]), int(writable_by[1])
    if not 1 <= oldest <= number:
        raise ValueError(f"{file_name}: writable by {oldest}, which is not 1 to {number}")
    return Migration(number, file_name, oldest, parse(text, source=file_name))


def schema_of(dialect: Dialect) -> tuple[Statement, ...]:
    """The statements of schema.sql: the newest schema, whole."""
    text = (sql_folder(dialect) / "schema.sql").read_text("utf-8")
    return parse(text, source="schema.sql")


def missing(migrations: Sequence[Migration], marks: SchemaMarks) -> Sequence[Migration]:
    """Those to carry out, in order; none where the store is as new as we are, or newer.

    INVALID_CONFIG where a newer release has made the store unwritable for this one.
    """
    newest = migrations[-1].number
    if marks.writable_by > newest:
        raise MayuraError(
            Code.INVALID_CONFIG,
            f"The store's schema has version {marks.version} and may be written by releases that "
            f"know version {marks.writable_by} or later; this release knows {newest}: upgrade it.",
        )
    return migrations[marks.version :]


def require_current(migrations: Sequence[Migration], marks: SchemaMarks) -> None:
    """INVALID_CONFIG unless this release may use the store as it is."""
    if missing(migrations, marks):
        raise MayuraError(
            Code.INVALID_CONFIG,
            f"The store's schema has version {marks.version} and this release needs "
            f"{migrations[-1].number}: open it once with migrate=True.",
        )


def require_environment(found: str, wanted: str) -> None:
    """INVALID_CONFIG where the store belongs to another environment (G15).

    A store takes the environment of the first that opens it.
    """
    if found != wanted:
        raise MayuraError(
            Code.INVALID_CONFIG,
            f"This store belongs to the environment {found!r} and was opened for {wanted!r}: "
            "correct the URL, or the environment.",
        )
