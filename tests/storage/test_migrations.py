"""How a store gets its schema: two ways to the same, by one of many, whole or not at all."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mayura.runtime.errors import Code, MayuraError
from mayura.storage import sqlite
from mayura.storage.migrate import (
    Migration,
    SchemaMarks,
    migration_of,
    migrations_of,
    missing,
    require_current,
    schema_of,
)
from mayura.storage.sqlite_connection import connect
from mayura.storage.sqlite_schema import bring_up
from mayura.storage.statements import Dialect, load, parse
from tests.storage.faults import Disk, error_of, faulty_disk

MIGRATE = """
import asyncio, sys
from mayura.storage.sqlite import migrate
print(asyncio.run(migrate(sys.argv[1])))
"""
SLOWLY = (
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000) "
    "insert into {table} select count(*) from n;"
)


def added(number: int, writable_by: int, *, slowly: bool = False) -> Migration:
    """A migration that a later release might bring."""
    fill = SLOWLY.format(table=f"extra_{number}") if slowly else ""
    text = (
        f"-- writable by: {writable_by}\n"
        f"-- name: extra\n-- A table.\ncreate table extra_{number} (id integer);\n"
        f"-- name: fill\n-- A row.\n{fill or f'insert into extra_{number} select 1;'}\n"
        f"-- name: index\n-- An index.\ncreate index extra_{number}_id on extra_{number} (id);\n"
    )
    return migration_of(f"{number:04}_add_extra_{number}.sql", text)


def shape_of(path: Path) -> list[tuple[str, ...]]:
    """Everything that the file's schema says."""
    with closing(sqlite3.connect(path)) as connection:
        return sorted(connection.execute("select type, name, tbl_name, sql from sqlite_master"))


def marks_of(path: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(path)) as connection:
        row: tuple[int, int] = connection.execute(
            "select schema_version, writable_by from store"
        ).fetchone()
        return row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_the_migrations_add_up_to_the_schema(path: Path, tmp_path: Path) -> None:
    with closing(connect(path, "writer")) as raw:
        assert bring_up(raw, sqlite.MIGRATIONS) == sqlite.MIGRATIONS[-1].number
    whole = tmp_path / "whole.db"
    with closing(sqlite3.connect(whole)) as connection:
        for statement in schema_of("sqlite"):
            connection.execute(statement.sql)
    assert shape_of(path) == shape_of(whole)


async def test_a_migrated_store_stays_as_it_is(path: Path, url: str) -> None:
    await sqlite.migrate(url)
    before = path.read_bytes()
    assert await sqlite.migrate(url) == sqlite.MIGRATIONS[-1].number
    assert path.read_bytes() == before


def test_of_ten_processes_one_migrates_and_none_errs(path: Path, url: str) -> None:
    """Cases K2 and K4."""
    command = (sys.executable, "-c", MIGRATE, url)
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(10)
    ]
    said = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * 10, said
    assert {out.decode().strip() for out, _ in said} == {str(sqlite.MIGRATIONS[-1].number)}
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from store").fetchone() == (1,)


async def test_while_one_migrates_slowly_the_others_wait(path: Path, url: str) -> None:
    """Case K2."""
    await sqlite.migrate(url)
    migrations = (*sqlite.MIGRATIONS, added(2, 1, slowly=True))
    versions = await asyncio.gather(*(sqlite.migrate(url, migrations=migrations) for _ in range(5)))
    assert versions == [2] * 5
    assert marks_of(path) == (2, 1)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from extra_2").fetchone() == (1,)


def interruptions(old: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the old file for each place where a migration may be cut off."""
    for place in itertools.count():
        copy = tmp_path / f"copy-{place}.db"
        copy.write_bytes(old.read_bytes())
        yield copy


@pytest.mark.parametrize("word", ["create", "insert", "update", "commit"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_cut_off_anywhere_the_old_version_is_whole(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, when: str
) -> None:
    """Case K4: between any two statements, and at the commit."""
    with closing(connect(path, "writer")) as raw:
        bring_up(raw, sqlite.MIGRATIONS)
    old, old_marks = shape_of(path), marks_of(path)
    migrations = (*sqlite.MIGRATIONS, added(2, 1), added(3, 2))
    disk = faulty_disk(monkeypatch)
    for passed, copy in enumerate(interruptions(path, tmp_path)):
        getattr(disk, when)[word] = [*[None] * passed, error_of("SQLITE_IOERR_FSYNC")]
        with closing(connect(copy, "writer")) as raw:
            try:
                bring_up(raw, migrations)
            except sqlite3.OperationalError:
                cut_off = True
            else:
                cut_off = False
        committed = not cut_off or (word, when) == ("commit", "after")
        assert marks_of(copy) == ((3, 2) if committed else old_marks)
        assert (shape_of(copy) == old) is not committed
        if not cut_off:
            assert passed >= 1, "nothing was ever cut off"
            return


async def test_a_new_file_that_was_cut_off_is_empty_and_set_up_at_the_next_open(
    path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk: Disk = faulty_disk(monkeypatch)
    disk.before["create"] = [None, None, None, error_of("SQLITE_FULL")]
    with pytest.raises(MayuraError, match="disk is full"):
        await sqlite.open_store(url)
    assert shape_of(path) == []
    await (await sqlite.open_store(url)).close()
    assert marks_of(path) == (1, 1)


async def test_a_newer_store_is_used_as_long_as_it_allows_it(path: Path, url: str) -> None:
    newer = (*sqlite.MIGRATIONS, added(2, 1))
    assert await sqlite.migrate(url, migrations=newer) == 2
    await (await sqlite.open_store(url)).close()
    assert marks_of(path) == (2, 1), "an older release leaves the marks"
    await sqlite.migrate(url, migrations=(*newer, added(3, 3)))
    for migrate in (True, False):
        with pytest.raises(MayuraError, match=r"version 3 or later.*knows 1: upgrade") as refused:
            await sqlite.open_store(url, migrate=migrate)
        assert refused.value.code is Code.INVALID_CONFIG


async def test_an_older_store_is_migrated_only_if_that_is_wanted(url: str) -> None:
    with pytest.raises(MayuraError, match="migrate=True") as refused:
        await sqlite.open_store(url, migrate=False)
    assert refused.value.code is Code.INVALID_CONFIG
    await sqlite.migrate(url)
    await (await sqlite.open_store(url, migrate=False, environment="prod")).close()
    with pytest.raises(MayuraError, match=r"'prod'.*'default'"):
        await sqlite.open_store(url)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_statement_has_a_name_and_a_sentence(dialect: Dialect) -> None:
    assert load(dialect)
    for migration in migrations_of(dialect):
        assert migration.statements


def test_marks_decide_which_migrations_are_missing() -> None:
    known = (added(1, 1), added(2, 1), added(3, 2))
    assert missing(known, SchemaMarks()) == known
    assert missing(known, SchemaMarks(2, 1)) == known[2:]
    assert missing(known, SchemaMarks(3, 2)) == ()
    assert missing(known, SchemaMarks(7, 3)) == ()
    require_current(known, SchemaMarks(4, 3))
    for too_new in (SchemaMarks(4, 4), SchemaMarks(9, 5)):
        with pytest.raises(MayuraError, match="upgrade"):
            missing(known, too_new)
    with pytest.raises(MayuraError, match="version 2"):
        require_current(known, SchemaMarks(2, 1))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("2_short.sql", "-- writable by: 1\n"),
        ("0002_unmarked.sql", "-- name: x\n-- X.\nselect 1;\n"),
        ("0002_above_itself.sql", "-- writable by: 3\n"),
        ("0002_nobody.sql", "-- writable by: 0\n"),
        ("0002_unexplained.sql", "-- writable by: 1\n-- name: x\nselect 1;\n"),
        ("0002_empty.sql", "-- writable by: 1\n-- name: x\n-- X.\n"),
        ("0002_twice.sql", "-- writable by: 1\n" + "-- name: x\n-- X.\nselect 1;\n" * 2),
    ],
)
def test_a_migration_that_is_not_whole_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name):
        migration_of(name, text)


FILE = """\
-- What the file is about.

-- name: one
-- A sentence
-- in two lines.
select 1;

-- name: two
-- Another.
select
  2;
"""


def test_a_file_of_statements_is_read_in_order() -> None:
    first, second = parse(FILE, source="x.sql")
    assert (first.name, first.sentence) == ("one", "A sentence in two lines.")
    assert (first.sql, second.name, second.sql) == ("select 1;", "two", "select\n  2;")
