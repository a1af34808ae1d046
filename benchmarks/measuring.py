"""Wall time, processor time and write-ahead log of the measured part of one contest."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import asyncpg
import psutil

from benchmarks.statements import SQL

POSTGRES: Final = "postgresql:"


@dataclass(frozen=True, slots=True)
class Figures:
    """What one contest came to."""

    steps_per_s: float
    runs_per_s: float
    run_p50_ms: float
    run_p99_ms: float
    worker_ms_per_step: float  #: processor time of the contender's process
    database_ms_per_step: float | None  #: processor time of the server; None: there is none
    log_bytes_per_step: float | None  #: write-ahead log; None where nobody counts it


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float
    worker_s: float
    database_s: float
    log_bytes: int


class Meter:
    """Reads every clock when the measured part begins and when it ends."""

    def __init__(self, url: str, server_pid: int | None) -> None:
        self._url = url if url.startswith(POSTGRES) else None
        self._server_pid = server_pid
        self._begun: _Reading | None = None
        self._ended: _Reading | None = None

    async def __aenter__(self) -> Self:
        self._begun = await self._read()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The time first: asking the server takes a while.
        at_s, worker_s = time.perf_counter(), time.process_time()
        database_s = _processor_s(self._server_pid)
        self._ended = _Reading(at_s, worker_s, database_s, await self._log_bytes())

    def figures(self, took: Sequence[float], steps: int) -> Figures:
        """The figures of the measured part."""
        begun, ended = self._begun, self._ended
        assert begun is not None, "the meter was entered"
        assert ended is not None, "the meter was left"
        ordered = sorted(took)
        wall_s = ended.at_s - begun.at_s
        served = self._url is not None
        database_ms = (ended.database_s - begun.database_s) * 1_000 / steps
        return Figures(
            steps_per_s=steps / wall_s,
            runs_per_s=len(took) / wall_s,
            run_p50_ms=ordered[len(ordered) // 2] * 1_000,
            run_p99_ms=ordered[len(ordered) * 99 // 100] * 1_000,
            worker_ms_per_step=(ended.worker_s - begun.worker_s) * 1_000 / steps,
            database_ms_per_step=database_ms if served else None,
            log_bytes_per_step=(ended.log_bytes - begun.log_bytes) / steps if served else None,
        )

    async def _read(self) -> _Reading:
        log_bytes = await self._log_bytes()
        database_s = _processor_s(self._server_pid)
        return _Reading(time.perf_counter(), time.process_time(), database_s, log_bytes)

    async def _log_bytes(self) -> int:
        if self._url is None:
            return 0
        connection = await asyncpg.connect(self._url)
        try:
            return int(await connection.fetchval(SQL["read_log_position"]))
        finally:
            await connection.close()


def _processor_s(pid: int | None) -> float:
    """Processor time of a process with its children, those that have ended included."""
    if pid is None:
        return 0.0
    server = psutil.Process(pid)
    times = server.cpu_times()
    total_s = times.user + times.system + times.children_user + times.children_system
    for child in server.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            own = child.cpu_times()
            total_s += own.user + own.system
    return total_s
