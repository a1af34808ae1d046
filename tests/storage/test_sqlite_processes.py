"""An embedded store between processes, under injected system call errors, and on a full disk."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayura.runtime.errors import Code, MayuraError
from tests.storage.places import SqlitePlace
from tests.storage.runs import OUTPUT, loaded, prepare, submitted, won, write_of
from tests.tidy import ROOT

FAULTS = {
    "syncs": "fdatasync,fsync:error=EIO:when=30+23",
    "syncs in a row": "fdatasync,fsync:error=EIO:when=12..16",
    "writes": "pwrite64:error=EIO:when=200+61",
    "a full disk": "pwrite64:error=ENOSPC:when=200+61",
}
SMALL_DISK_BYTES = 4 << 20


def driving(
    url: str, name: str, *limits: str, under: tuple[str, ...] = ()
) -> subprocess.Popen[bytes]:
    """A process that drives runs of its own through the store."""
    command = (*under, sys.executable, "-m", "tests.storage.sqlite_driver", url, name, *limits)
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def counts_of(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """What a driving process said when it had ended well."""
    said, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    counts: dict[str, int] = json.loads(said)
    return counts


def check_evidence(path: Path, runs: int) -> None:
    """Every run went through its three transitions once, and was dispatched once."""
    connection = sqlite3.connect(path)
    ask = connection.execute
    assert ask("pragma integrity_check").fetchall() == [("ok",)]
    assert ask("select count(*), count(distinct key) from runs").fetchall() == [(runs, runs)]
    assert ask("select count(*) from dispatches").fetchall() == [(runs,)]
    gaps = "select 1 from journal group by run_number having count(*) <> 3 or max(version) <> 3"
    assert ask(gaps).fetchall() == []
    connection.close()


def test_two_processes_write_without_an_error_of_a_lock(tmp_path: Path) -> None:
    """Case D14."""
    place = SqlitePlace(tmp_path / "runs.db")
    processes = [driving(place.url, name, "5", "100000") for name in "ab"]
    said = [counts_of(process) for process in processes]
    assert [counts["unavailable"] for counts in said] == [0, 0]
    assert min(counts["runs"] for counts in said) > 50, "neither starves beside the other"
    check_evidence(place.path, sum(counts["runs"] for counts in said))


@pytest.mark.needs("strace")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_every_transition_is_stored_once_on_a_disk_that_errs(tmp_path: Path, fault: str) -> None:
    place, trace = SqlitePlace(tmp_path / "runs.db"), tmp_path / "trace"
    calls = fault.partition(":")[0]
    strace = ("strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={calls}")
    process = driving(place.url, "a", "50", "80", under=(*strace, "-e", f"inject={fault}"))
    counts = counts_of(process)
    assert "(INJECTED)" in trace.read_text()
    check_evidence(place.path, counts["runs"])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of SMALL_DISK_BYTES; only root may make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(folder))
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


async def test_work_resumes_when_a_full_disk_has_space_again(small_disk: Path) -> None:
    """Case D16."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (SMALL_DISK_BYTES // 2))
    store = await SqlitePlace(small_disk / "runs.db").open()
    await prepare(store)
    run = await submitted(store)
    write, refused = write_of(run), None
    while refused is None:
        write = write_of(run, payloads=((OUTPUT, os.urandom(100_000)),))
        try:
            run = await won(store, write)
        except MayuraError as error:
            refused = error
    assert refused.code is Code.STORAGE_UNAVAILABLE
    assert await loaded(store, run.run_id) == run
    ballast.unlink()
    await won(store, write)
    assert len(await store.journal(run.run_id)) == write.after.version
    await store.close()
    connection = sqlite3.connect(small_disk / "runs.db")
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()
