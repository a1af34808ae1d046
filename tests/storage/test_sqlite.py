"""What is particular to a store in one SQLite file."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ports import Refused, Won
from mayura.storage import sqlite, sqlite_connection, sqlite_file
from mayura.storage.memory import open_store as open_memory_store
from mayura.storage.migrate import schema_of
from mayura.storage.sqlite_path import check_place, file_system_of, path_of
from mayura.storage.statements import parse, sql_folder
from tests.storage.places import SqlitePlace
from tests.storage.runs import (
    OUTPUT,
    dispatch_of,
    loaded,
    prepare,
    submission,
    submitted,
    won,
    write_of,
)

READS = parse((sql_folder("sqlite") / "reads.sql").read_text("utf-8"), source="reads.sql")
MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/export /net nfs4 rw 0 0
tmpfs /net/local tmpfs rw 0 0
//server/share /with\\040space cifs rw 0 0
overlay /net/local/over overlay rw 0 0
"""


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path / "runs.db")


@pytest.fixture
async def store(place: SqlitePlace) -> AsyncIterator[sqlite.SqliteStore]:
    opened = await place.open()
    await prepare(opened)
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///shop.db", "shop.db"),
        ("sqlite:///data/shop.db", "data/shop.db"),
        ("sqlite:////var/lib/shop.db", "/var/lib/shop.db"),
        ("sqlite:////var/my%20shop.db", "/var/my shop.db"),
    ],
)
def test_a_url_names_a_file(url: str, path: str) -> None:
    assert path_of(url) == Path(path)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://shop.db", "sqlite:////var/",
        "sqlite:///a.db?mode=ro", "sqlite:///a.db#x", "postgres:///a.db", "sqlite:a.db",
        "sqlite:/var/a.db",
    ],
)  # fmt: skip
def test_a_url_that_names_no_file_is_refused_with_the_two_shapes(url: str) -> None:
    with pytest.raises(MayuraError, match=r"sqlite:///file.db .* sqlite:////folder/file.db") as no:
        path_of(url)
    assert no.value.code is Code.INVALID_CONFIG


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv", "ext4"),
        ("/net", "nfs4"),
        ("/net/deep/er", "nfs4"),
        ("/network", "ext4"),
        ("/net/local/x", "tmpfs"),
        ("/net/local/over/x", "overlay"),
        ("/with space/x", "cifs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert file_system_of(Path(folder), MOUNTS) == kind


def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    mounts = f"server:/export {tmp_path} nfs4 rw 0 0"
    with pytest.raises(MayuraError, match="network file system") as refused:
        check_place(tmp_path / "shop.db", mounts)
    assert refused.value.code is Code.INVALID_CONFIG
    check_place(tmp_path / "shop.db", mounts.replace("nfs4", "ext4"))


async def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MayuraError, match="does not exist") as refused:
        await sqlite.open_store(f"sqlite:///{tmp_path}/none/shop.db")
    assert refused.value.code is Code.INVALID_CONFIG


async def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.db"
    connection = sqlite3.connect(theirs)
    connection.execute("create table accounts (id integer)")
    connection.close()
    (tmp_path / "text.db").write_text("not a database at all, but long enough to look like one")
    for name in ("theirs.db", "text.db"):
        with pytest.raises(MayuraError) as refused:
            await sqlite.open_store(f"sqlite:///{tmp_path}/{name}")
        assert refused.value.code is Code.INVALID_CONFIG
    connection = sqlite3.connect(theirs)
    assert connection.execute("select name from sqlite_master").fetchall() == [("accounts",)]
    connection.close()


async def test_a_store_in_memory_has_no_path() -> None:
    await (await open_memory_store("memory://")).close()
    with pytest.raises(MayuraError):
        await open_memory_store("memory://shop")


async def test_an_old_sqlite_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "_warned", set())
    for version, warnings in (((3, 51, 3), 0), ((3, 51, 2), 1), ((3, 51, 2), 1)):
        monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
        await (await sqlite.open_store(f"sqlite:///{tmp_path}/a.db")).close()
        assert len(caplog.records) == warnings
    said = caplog.records[0].getMessage()
    for part in ("lose commits", "linked with SQLite 3.51.3", "one process at a time"):
        assert part in said


async def test_the_connections_have_their_settings(store: sqlite.SqliteStore) -> None:
    """Case D14."""

    def settings(raw: sqlite3.Connection) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "query_only")
        return {name: raw.execute(f"pragma {name}").fetchone()[0] for name in names}

    writer = await store._file.write(settings)
    assert writer == {
        "journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "query_only": 0,
    }  # fmt: skip
    reader = await store._file.read(settings)
    assert (reader["journal_mode"], reader["query_only"]) == ("wal", 1)


async def test_a_write_waits_for_the_lock_of_another_process(
    place: SqlitePlace, store: sqlite.SqliteStore
) -> None:
    run = await submitted(store)
    blocker = sqlite3.connect(place.path, isolation_level=None)
    blocker.execute("begin immediate")
    writing = asyncio.ensure_future(store.write(write_of(run)))
    assert await loaded(store, run.run_id) == run, "reading goes on"
    assert not writing.done()
    blocker.execute("commit")
    blocker.close()
    assert isinstance(await writing, Won)


async def test_a_lock_that_stays_is_a_certain_no(
    place: SqlitePlace, store: sqlite.SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_connection, "LOCK_WAIT_MAX_MS", 30)
    run = await submitted(store)
    blocker = sqlite3.connect(place.path, isolation_level=None)
    blocker.execute("begin immediate")
    write = dispatch_of(run)
    with pytest.raises(MayuraError, match="SQLITE_BUSY") as refused:
        await store.write(write)
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
    blocker.execute("rollback")
    blocker.close()
    assert await loaded(store, run.run_id) == run
    await won(store, write)


async def test_a_disk_that_hangs_is_answered_in_time(
    store: sqlite.SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await submitted(store)
    released = threading.Event()
    hanging = asyncio.ensure_future(store._file.write(lambda raw: released.wait(30)))
    await asyncio.sleep(0)
    monkeypatch.setattr(sqlite_file, "METHOD_TIME_MAX_MS", 30)
    write = dispatch_of(run)
    with pytest.raises(MayuraError, match="30 ms") as refused:
        await store.write(write)
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
    monkeypatch.undo()
    released.set()
    assert await hanging
    await won(store, write)
    assert len(await store.journal(run.run_id)) == 2


async def test_a_store_on_a_disk_that_hangs_closes_in_time_and_logs_what_it_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = await sqlite.open_store(f"sqlite:///{tmp_path}/other.db")
    await prepare(store)
    released = threading.Event()
    hanging = [
        asyncio.ensure_future(use(lambda raw: released.wait(30)))
        for use in (store._file.read, store._file.write)
    ]
    asked = asyncio.ensure_future(store.create(submission("o-1")))
    await asyncio.sleep(0)
    monkeypatch.setattr(sqlite, "METHOD_TIME_MAX_MS", 60)
    monkeypatch.setattr(sqlite, "FILE_CLOSE_TIME_MS", 30)
    try:
        async with asyncio.timeout(10):
            await asyncio.gather(store.close(), store.close())
        with pytest.raises(MayuraError, match="it is not known whether") as given_up:
            await asked
        assert given_up.value.code is Code.STORAGE_UNAVAILABLE
    finally:
        released.set()
        await asyncio.gather(*hanging)
        for connection in (store._file._reader, store._file._writer):
            await asyncio.to_thread(connection._thread.join)
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "closed with 1 operations unfinished" in said
    assert "a store's reader and writer is left open" in said


async def test_a_full_file_is_a_certain_no_and_work_goes_on_when_there_is_space(
    store: sqlite.SqliteStore,
) -> None:
    """Case D16."""
    run = await submitted(store)
    pages = await store._file.write(lambda raw: raw.execute("pragma page_count").fetchone()[0])
    await store._file.write(lambda raw: raw.execute(f"pragma max_page_count = {pages + 4}"))
    write = dispatch_of(run, payloads=((OUTPUT, b"x" * 100_000),))
    with pytest.raises(MayuraError, match="disk is full") as refused:
        await store.write(write)
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
    assert await loaded(store, run.run_id) == run
    small = await won(store, write_of(await submitted(store, "o-2"), entries=b"[]"))
    assert small.version == 2
    await store._file.write(lambda raw: raw.execute("pragma max_page_count = 100000"))
    await won(store, write)


async def test_the_log_stays_bounded_beside_readers(
    place: SqlitePlace, store: sqlite.SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case D16, in short: a reader that stays in the log lets it grow, and no further."""
    log_bytes_max, log = 1 << 20, Path(f"{place.path}-wal")
    randbytes = random.Random(16).randbytes
    monkeypatch.setattr(sqlite_file, "LOG_BYTES_MAX", log_bytes_max)
    monkeypatch.setattr(sqlite_file, "LOG_LOOK_EVERY_WRITES", 4)
    reader = sqlite3.connect(place.path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select * from runs").fetchall()
    run = await submitted(store)
    for _ in range(40):
        run = await won(store, write_of(run, payloads=((OUTPUT, randbytes(100_000)),)))
    assert log.stat().st_size > 2 * log_bytes_max
    reader.execute("commit")
    sizes = []
    for _ in range(40):
        reader.execute("select * from runs").fetchall()
        run = await won(store, write_of(run, payloads=((OUTPUT, randbytes(100_000)),)))
        sizes.append(log.stat().st_size)
    reader.close()
    assert max(sizes[8:]) < 2 * log_bytes_max


async def test_no_write_reaches_another_run_by_a_wrong_number(store: sqlite.SqliteStore) -> None:
    one, other = await submitted(store, "o-1"), await submitted(store, "o-2")
    await won(store, write_of(other))
    numbers = store._frame.numbers
    numbers[one.run_id] = numbers[other.run_id]
    assert await store.write(write_of(one)) == Refused("lost")
    assert await loaded(store, one.run_id) == one
    assert (await loaded(store, other.run_id)).version == 2


async def test_a_closed_file_leaves_no_log_behind(place: SqlitePlace) -> None:
    store = await place.open()
    await prepare(store)
    await submitted(store)
    await store.close()
    assert [path.name for path in place.path.parent.iterdir()] == [place.path.name]


@pytest.mark.parametrize("name", [each.name for each in READS])
def test_no_question_about_runs_walks_a_whole_table(name: str) -> None:
    """The cost of a step grows with nothing that waits, and with nothing that has ended."""
    statement = next(each.sql for each in READS if each.name == name)
    with closing(sqlite3.connect(":memory:")) as connection:
        for each in schema_of("sqlite"):
            connection.execute(each.sql)
        values = (None,) * statement.count("?")
        plan = [row[3] for row in connection.execute(f"explain query plan {statement}", values)]
    assert plan
    assert [step for step in plan if not step.startswith("SEARCH")] == []
