"""The storage ceiling: a store's own statements and rows, with no engine around them.

    python -m benchmarks.storage_ceiling                        # a private PostgreSQL on the disk
    python -m benchmarks.storage_ceiling --store sqlite --repeat 3
    python -m benchmarks.storage_ceiling --shapes W1 --in-flight 64

What the engine would write is written here by hand: for a `write` tool the dispatch, the last
check, the receipt with the output, the completion with the next dispatch. W1 is ten steps one
after the other, 32 runs in flight; W2 one step, alone and with 64 runs in flight; W3 sixty-four
parallel steps and a join, four runs in flight. The engine cannot be faster than this.

`worker` is the processor time of this process without what the same program costs against a store
that answers at once; `database` that of the server with all its sessions. The figures of one
machine vary by a third from minute to minute: compare only what one run of this program says.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import asyncpg
import psutil
import uvloop

from benchmarks.storage_rows import CHECK, Chain, Fan, prepare, submission
from mayura.runtime.core.state import Instant
from mayura.runtime.ids import new_nonce
from mayura.runtime.ports import CallRef, Created, LastCheck, NewRun, RunWrite, Won, WriteAnswer
from mayura.storage import postgres, sqlite
from tests.postgres_server import PostgresServer
from tests.system_tools import find

SERVER_SETTINGS: Final = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
WARM_UP_RUNS: Final = 64


class Writable(Protocol):
    """What this program asks of a store."""

    async def create(self, new: NewRun) -> Created: ...

    async def write(self, write: RunWrite) -> WriteAnswer: ...

    async def last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]: ...


class InstantStore:
    """Answers at once and keeps nothing: what is left is what this program costs by itself."""

    async def create(self, new: NewRun) -> Created:
        return Created(new.run, new.submission, created=True)

    async def write(self, write: RunWrite) -> WriteAnswer:
        return Won(Instant(0, 0))

    async def last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]:
        return [CHECK] * len(calls)


@dataclass(frozen=True, slots=True)
class Shape:
    """What is run, and how much of it at once."""

    name: str
    steps: int
    in_flight: int
    runs: int
    parallel: bool = False


SHAPES: Final = (
    Shape("W1", steps=10, in_flight=32, runs=1_000),
    Shape("W2", steps=1, in_flight=1, runs=500),
    Shape("W2", steps=1, in_flight=64, runs=5_000),
    Shape("W3", steps=64, in_flight=4, runs=200, parallel=True),
)


@dataclass(frozen=True, slots=True)
class Meters:
    """What was used up to a moment."""

    wall_s: float
    worker_s: float
    database_s: float
    wal_bytes: int


Read = Callable[[], Awaitable[Meters]]


async def drive(store: Writable, shape: Shape, runs: int, name: str) -> list[float]:
    """Carry out `runs` runs, `in_flight` at a time; answers how long each took, in seconds."""
    numbers = iter(range(runs))
    took: list[float] = []

    async def one_after_another() -> None:
        for number in numbers:
            began = time.perf_counter()
            created = await store.create(submission(f"{name}-{number}"))
            work = (
                Fan(created.run, shape.steps) if shape.parallel else Chain(created.run, shape.steps)
            )
            await work.carry_out(store)
            took.append(time.perf_counter() - began)

    await asyncio.gather(*(one_after_another() for _ in range(shape.in_flight)))
    return took


async def measure(store: Writable, shape: Shape, read: Read) -> str:
    """One line about one shape."""
    name = new_nonce().hex()
    began_s = time.process_time()
    await drive(InstantStore(), shape, shape.runs, name)
    own_s = time.process_time() - began_s
    await drive(store, shape, min(shape.runs, WARM_UP_RUNS), f"{name}-warm")
    before = await read()
    took = sorted(await drive(store, shape, shape.runs, name))
    after = await read()
    steps = shape.runs * shape.steps
    wall_s = after.wall_s - before.wall_s
    worker_ms = (after.worker_s - before.worker_s - own_s) * 1000 / steps
    database_ms = (after.database_s - before.database_s) * 1000 / steps
    wal_bytes = (after.wal_bytes - before.wal_bytes) / steps
    return (
        f"{shape.name} x{shape.in_flight:<3} {steps / wall_s:8,.0f} steps/s"
        f" {shape.runs / wall_s:8,.0f} runs/s"
        f"  p50 {took[len(took) // 2] * 1000:7.1f} p99 {took[len(took) * 99 // 100] * 1000:7.1f} ms"
        f"  worker {worker_ms:.3f} database {database_ms:.3f} ms/step  WAL {wal_bytes:6,.0f} B/step"
    )


@asynccontextmanager
async def postgres_store() -> AsyncIterator[tuple[Writable, Read]]:
    """A store on a private server that keeps its promises on a disk."""
    binaries = find("postgresql")
    if binaries is None:
        raise SystemExit("PostgreSQL is not installed")
    server = await asyncio.to_thread(
        PostgresServer, binaries, settings=SERVER_SETTINGS, on_disk=True
    )
    try:
        await asyncio.to_thread(server.start)
        store = await postgres.open_store(server.url())
        meter = await asyncpg.connect(server.url())
        await prepare(store)

        async def read() -> Meters:
            position: int = await meter.fetchval(
                "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
            )
            return Meters(
                time.perf_counter(), time.process_time(), cpu_s_of(server.pid), int(position)
            )

        yield store, read
        await store.close()
        await meter.close()
    finally:
        await asyncio.to_thread(server.close)


@asynccontextmanager
async def sqlite_store() -> AsyncIterator[tuple[Writable, Read]]:
    """A store in a file on the disk; its work is this process' own."""
    with tempfile.TemporaryDirectory() as folder:
        store = await sqlite.open_store(f"sqlite:///{Path(folder) / 'runs.db'}")
        await prepare(store)

        async def read() -> Meters:
            return Meters(time.perf_counter(), time.process_time(), 0.0, 0)

        yield store, read
        await store.close()


def cpu_s_of(pid: int) -> float:
    """Processor time of a server and its sessions, those that ended included."""
    server = psutil.Process(pid)
    times = server.cpu_times()
    total: float = times.user + times.system + times.children_user + times.children_system
    for session in server.children(recursive=True):
        try:
            times = session.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


async def main(asked: argparse.Namespace) -> None:
    """Print a line a shape."""
    async with (postgres_store if asked.store == "postgres" else sqlite_store)() as (store, read):
        for _ in range(asked.repeat):
            for shape in SHAPES:
                if shape.name in asked.shapes:
                    chosen = replace(shape, in_flight=asked.in_flight or shape.in_flight)
                    print(asked.store, await measure(store, chosen, read), flush=True)


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument(
        "--shapes", nargs="+", choices=("W1", "W2", "W3"), default=["W1", "W2", "W3"]
    )
    parser.add_argument("--in-flight", type=int, help="runs at once, instead of the shape's own")
    parser.add_argument("--repeat", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    uvloop.run(main(arguments()))
