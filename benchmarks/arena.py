"""Who takes part, and the ground they meet on: one private PostgreSQL, or a fresh file each.

Every contest is a process of its own with a database of its own. The rounds go through all
contenders again and again, so that what the machine does meanwhile happens to each of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from benchmarks.contest import Setting
from benchmarks.measuring import Figures
from benchmarks.statements import SQL
from benchmarks.workloads import SLOW_SHARE, Workload
from tests.postgres_server import PostgresServer
from tests.system_tools import require

ROOT: Final = Path(__file__).resolve().parent.parent
SERVER_SETTINGS: Final = {
    "fsync": "on",
    "max_wal_size": "4GB",
    "shared_buffers": "512MB",
    "synchronous_commit": "on",
}
CONTEST_S_MAX: Final = 900.0


@dataclass(frozen=True, slots=True)
class Contender:
    """One line of the table. `name` is its key in the results."""

    name: str
    title: str
    module: str
    store: Literal["postgres", "sqlite"]
    variant: str = ""
    needs: str = ""  #: a package without which it cannot take part
    slow: bool = False


CONTENDERS: Final = (
    Contender("dbos", "DBOS", "dbos_transact", "postgres", needs="dbos", slow=True),
    Contender("mayura", "Mayura", "mayura", "postgres"),
    Contender("ceiling", "storage ceiling", "ceiling", "postgres"),
    Contender("floor", "floor, batched", "floor", "postgres", "batched"),
    Contender("floor fused", "floor, result with next intent", "floor", "postgres", "fused"),
    Contender("mayura sqlite", "Mayura", "mayura", "sqlite"),
    Contender("ceiling sqlite", "storage ceiling", "ceiling", "sqlite"),
    Contender("floor sqlite", "floor, batched", "floor", "sqlite", "batched"),
    Contender("floor fused sqlite", "floor, result with next intent", "floor", "sqlite", "fused"),
)


def missing(contender: Contender) -> str | None:
    """The package for want of which it cannot take part."""
    absent = contender.needs and find_spec(contender.needs) is None
    return contender.needs if absent else None


class ContestFailed(Exception):
    """A contender did not finish; its last words are in the message."""


class Arena:
    """The server and the folder that the contests of one run of the benchmarks share."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._contests = 0

    def hold(self, contender: Contender, workload: Workload, *, quick: bool) -> Figures:
        """One contest on a fresh database. Raises ContestFailed."""
        runs = workload.size(quick=quick)
        if contender.slow:
            runs = max(workload.width, runs // SLOW_SHARE)
        self._contests += 1
        with self._database(contender.store) as url:
            served = contender.store == "postgres"
            setting = Setting(
                contender=contender.module,
                variant=contender.variant,
                url=url,
                server_pid=self._server.pid if served else None,
                steps=workload.steps,
                width=workload.width,
                runs=runs,
            )
            return _held(setting)

    def server_version(self) -> str:
        """What the server says that it is."""
        return self._server.run("postgres", "--version").split()[-1]

    @contextmanager
    def _database(self, store: Literal["postgres", "sqlite"]) -> Iterator[str]:
        name = f"contest_{self._contests}"
        if store == "sqlite":
            yield f"sqlite:///{self._folder / name}.db"
            for file in self._folder.iterdir():
                file.unlink()
            return
        url = self._server.create_database(name)
        self._server.run("psql", "-X", "-q", "-c", SQL["checkpoint"], url)
        yield url
        self._server.drop_database(name)


@contextmanager
def arena() -> Iterator[Arena]:
    """A private server whose data lie on the disk, and a folder beside it."""
    server = PostgresServer(require("postgresql"), settings=SERVER_SETTINGS, on_disk=True)
    try:
        server.start()
        with tempfile.TemporaryDirectory(prefix="mayura-bench-", dir=server.folder.parent) as name:
            yield Arena(server, Path(name))
    finally:
        server.close()


def hold_rounds(
    ground: Arena,
    contenders: Sequence[Contender],
    workloads: Sequence[Workload],
    *,
    rounds: int,
    quick: bool,
    tell: Callable[[str], None],
) -> dict[str, dict[str, list[Figures]]]:
    """Figures by workload and contender, one for each round."""
    found: dict[str, dict[str, list[Figures]]] = {
        workload.name: {contender.name: [] for contender in contenders} for workload in workloads
    }
    for workload in workloads:
        for number in range(1, rounds + 1):
            for contender in contenders:
                try:
                    figures = ground.hold(contender, workload, quick=quick)
                except ContestFailed as failure:  # a loaded machine may lose a connection, once
                    tell(f"{failure}\n{contender.title} is measured once more")
                    figures = ground.hold(contender, workload, quick=quick)
                found[workload.name][contender.name].append(figures)
                tell(
                    f"{workload.name} round {number}/{rounds}: {contender.title} on "
                    f"{contender.store}: {figures.steps_per_s:,.0f} steps/s"
                )
    return found


def _held(setting: Setting) -> Figures:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.contest", json.dumps(asdict(setting))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=CONTEST_S_MAX,
    )
    if done.returncode != 0:
        raise ContestFailed(f"{setting.contender} {setting.variant}: {done.stderr[-2_000:]}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))
