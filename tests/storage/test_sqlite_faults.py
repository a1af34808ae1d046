"""An embedded store on a disk that errs: what is answered, and what is true afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ports import Won
from mayura.storage import sqlite
from tests.storage.faults import Disk, error_of, faulty_disk
from tests.storage.places import SqlitePlace
from tests.storage.runs import (
    dispatch_of,
    loaded,
    prepare,
    submission,
    submitted,
    won,
    write_of,
)

OPENED_AGAIN = ["close", "close", "open", "open"]
"""Both connections are closed before either is opened: the log is read anew."""


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return faulty_disk(monkeypatch)


@pytest.fixture
async def store(disk: Disk, tmp_path: Path) -> AsyncIterator[sqlite.SqliteStore]:
    opened = await SqlitePlace(tmp_path / "runs.db").open()
    await prepare(opened)
    yield opened
    await opened.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_after_a_failed_sync_the_file_is_opened_again_and_the_nonce_decides(
    disk: Disk, store: sqlite.SqliteStore, when: str
) -> None:
    """It looks rolled back and may be committed; either way it is committed once."""
    runs = [await submitted(store, f"o-{number}") for number in range(3)]
    writes = [dispatch_of(run) for run in runs]
    disk.handled.clear()
    getattr(disk, when)["commit"] = [error_of("SQLITE_IOERR_FSYNC")]
    answers = await asyncio.gather(*map(store.write, writes))
    assert all(isinstance(answer, Won) for answer in answers)
    assert disk.handled == OPENED_AGAIN
    for run, write, answer in zip(runs, writes, answers, strict=True):
        assert isinstance(answer, Won)
        after = await loaded(store, run.run_id)
        dispatch, sent = (
            after.step(write.dispatches[0]).dispatch,
            write.after.step(write.dispatches[0]).dispatch,
        )
        assert dispatch is not None
        assert sent is not None
        assert dispatch.settle.at_us == answer.at.steady_us + sent.settle_wait_us
        assert [entry.nonce for entry in await store.journal(run.run_id, 1)] == [write.nonce]


async def test_nothing_is_answered_until_a_small_write_is_confirmed(
    disk: Disk, store: sqlite.SqliteStore
) -> None:
    run = await submitted(store)
    write = dispatch_of(run)
    disk.before["commit"] = [error_of("SQLITE_IOERR_FSYNC") for _ in range(3)]
    for _ in range(2):  # the write and the probe after it; then the probe alone
        with pytest.raises(MayuraError, match="SQLITE_IOERR_FSYNC") as refused:
            await store.write(write)
        assert refused.value.code is Code.STORAGE_UNAVAILABLE
    assert not disk.before["commit"]
    await won(store, write)
    assert len(await store.journal(run.run_id)) == 2


async def test_a_submission_survives_a_failed_sync(disk: Disk, store: sqlite.SqliteStore) -> None:
    disk.after["commit"] = [error_of("SQLITE_IOERR_FSYNC")]
    created = await store.create(submission("o-1"))
    assert await loaded(store, created.run.run_id) == created.run
    assert len(await store.journal(created.run.run_id)) == 1


async def test_a_commit_that_is_busy_is_still_open_and_repeated(
    disk: Disk, store: sqlite.SqliteStore
) -> None:
    run = await submitted(store)
    disk.handled.clear()
    disk.before["commit"] = [error_of("SQLITE_BUSY") for _ in range(5)]
    await won(store, dispatch_of(run))
    assert disk.handled == []


async def test_a_failed_read_says_so_and_the_next_reads_a_file_opened_again(
    disk: Disk, store: sqlite.SqliteStore
) -> None:
    run = await submitted(store)
    disk.handled.clear()
    disk.before["select"] = [error_of("SQLITE_IOERR_READ")]
    with pytest.raises(MayuraError) as refused:
        await store.load(run.run_id)
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
    assert await loaded(store, run.run_id) == run
    assert disk.handled == OPENED_AGAIN


async def test_a_file_that_cannot_be_opened_again_is_tried_at_the_next_write(
    disk: Disk, store: sqlite.SqliteStore
) -> None:
    run = await submitted(store)
    disk.before["commit"] = [error_of("SQLITE_IOERR_FSYNC")]
    disk.before["pragma"] = [error_of("SQLITE_IOERR_READ")]
    write = dispatch_of(run)
    with pytest.raises(MayuraError):
        await store.write(write)
    await won(store, write)
    assert len(await store.journal(run.run_id)) == 2


async def test_a_store_on_a_broken_disk_still_closes(disk: Disk, tmp_path: Path) -> None:
    store = await SqlitePlace(tmp_path / "other.db").open()
    await prepare(store)
    run = await submitted(store)
    disk.before["commit"] = [error_of("SQLITE_IOERR_FSYNC")]
    disk.before["pragma"] = [error_of("SQLITE_IOERR_READ")] * 2
    with pytest.raises(MayuraError):
        await store.write(write_of(run))
    await store.close()
