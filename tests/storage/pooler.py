"""A PgBouncer in transaction mode, with fewer sessions than anybody who uses it expects."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from tests.postgres_server import PostgresServer

SESSIONS: Final = 2
START_TIMEOUT_S: Final = 10.0
SETTINGS: Final = """\
[databases]
* = host=127.0.0.1 port={server_port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
server_round_robin = 1
"""


class Pooler:
    """One running PgBouncer; every transaction may get another session."""

    def __init__(self, binary: Path, server: PostgresServer) -> None:
        self._binary = binary
        self._server = server
        self._folder = tempfile.TemporaryDirectory(prefix="mayura-pooler-")
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    def url(self, url: str) -> str:
        """The same database by way of this pooler."""
        parts = urlsplit(url)
        return urlunsplit(
            parts._replace(netloc=f"postgres@127.0.0.1:{self.port}", query="pooler=transaction")
        )

    def __enter__(self) -> Pooler:
        folder = Path(self._folder.name)
        folder.chmod(0o755)
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            SETTINGS.format(server_port=self._server.port, port=self.port, sessions=SESSIONS)
        )
        user = ["-u", "postgres"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [str(self._binary), "-q", *user, str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < give_up_at:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return self
            time.sleep(0.02)
        raise RuntimeError("PgBouncer did not start")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()
