"""What is read of runs: a question and its answer each, asked again while nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

import asyncpg

from mayura.runtime.errors import MayuraError
from mayura.runtime.ids import NodeId, Nonce, PayloadName, RunId
from mayura.runtime.ports import CallRef, DueRun, Holder, JournalEntry, LastCheck, Loaded
from mayura.storage.payloads import Codec, decoded
from mayura.storage.postgres_clock import DatabaseClock, instant_of
from mayura.storage.postgres_errors import (
    meaning_of,
    misconfigured,
    not_an_id,
    not_opened,
    unavailable,
)
from mayura.storage.postgres_limits import PAUSE_S_MAX, PAUSE_S_MIN, Limits
from mayura.storage.postgres_sessions import SQL, Sessions
from mayura.storage.rows import RUN_COLUMNS, run_of, step_of

_NOW: Final = len(RUN_COLUMNS)
_STEP: Final = _NOW + 1
_BEFORE_ALL: Final = (-(2**63), "0" * 32)


class Reader:
    """Asks the database; nothing it asks changes a run, so everything may be asked again."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        scope_id: int,
        codec: Codec,
        clock: DatabaseClock,
        limits: Limits,
    ) -> None:
        self._sessions = sessions
        self._scope_id = scope_id
        self._codec = codec
        self._clock = clock
        self._limits = limits

    async def ask(self, statement: str, *values: object) -> Sequence[asyncpg.Record]:
        """The rows of a named statement. STORAGE_UNAVAILABLE after the method's time."""
        return await ask(self._sessions, self._limits, statement, *values)

    async def read_clock(self) -> int:
        """The database's time, by which the estimate is set too."""
        asked_at_us = self._clock.local_us()
        ((at_us,),) = await self.ask("read_now")
        # Asked more than once, the last question has the answer, and the first its time: the
        # reading is then worth less, but it is no further ahead.
        self._clock.read(at_us, asked_at_us=asked_at_us)
        return int(at_us)

    async def load(self, run_id: RunId) -> Loaded | None:
        rows = await self.ask("read_run", self._scope_id, run_id)
        return run_in(run_id, rows) if rows else None

    async def payloads(
        self, run_id: RunId, names: Collection[PayloadName]
    ) -> dict[PayloadName, bytes]:
        rows = await self.ask("read_payloads", self._scope_id, run_id, list(names))
        return {row[0]: decoded(self._codec, row[1], row[2], row[3]) for row in rows}

    async def last_checks(
        self, asked: Sequence[Sequence[CallRef]]
    ) -> list[Sequence[LastCheck | None]]:
        """One look for everybody who asked (G3)."""
        calls = [call for some in asked for call in some]
        rows = await self.ask(
            "read_last_checks",
            self._scope_id,
            [call.run_id for call in calls],
            [call.node for call in calls],
        )
        checks = iter([LastCheck(*row[1:]) if row[0] else None for row in rows])
        return [[next(checks) for _ in some] for some in asked]

    async def journal(
        self, run_id: RunId, after_version: int, bytes_max: int
    ) -> list[JournalEntry]:
        rows = await self.ask("read_journal", self._scope_id, run_id, after_version, bytes_max)
        return [
            JournalEntry(version, first_seq, at_us, Nonce(nonce), entries, chain)
            for version, first_seq, at_us, nonce, entries, chain in rows
        ]

    async def command(self, run_id: RunId, command_id: str) -> bytes | None:
        rows = await self.ask("read_command", self._scope_id, run_id, command_id)
        return rows[0][0] if rows else None

    async def once_holder(self, digest: bytes) -> Holder | None:
        rows = await self.ask("read_once_holder", self._scope_id, digest)
        return Holder(RunId(rows[0][0].hex()), NodeId(rows[0][1])) if rows else None

    async def due(self, limit: int, after: tuple[int, RunId] | None) -> list[DueRun]:
        rows = await self.ask("read_due", self._scope_id, limit, *(after or _BEFORE_ALL))
        return [DueRun(RunId(row[0].hex()), row[1], row[2], row[3]) for row in rows]

    async def cancelled(self, run_ids: Collection[RunId]) -> frozenset[RunId]:
        rows = await self.ask("read_cancelled", self._scope_id, list(run_ids))
        return frozenset(RunId(row[0].hex()) for row in rows)

    async def manifest(self, statement: str, digest: bytes) -> bytes | None:
        rows = await self.ask(statement, digest)
        return rows[0][0] if rows else None


async def ask(
    sessions: Sessions, limits: Limits, statement: str, *values: object, opening: bool = False
) -> Sequence[asyncpg.Record]:
    """The rows of a named statement that may be sent any number of times.

    Errors: STORAGE_UNAVAILABLE after the method's time; INVALID_CONFIG where the database refuses
    the user of a store that is just `opening`; INVALID_INPUT for values it cannot take.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + limits.method_s
    pause_s = PAUSE_S_MIN
    met: Exception | None = None
    while (remaining_s := deadline_s - loop.time()) > 0:
        try:
            async with asyncio.timeout(remaining_s), sessions.one() as session:
                return await session.fetch(SQL[statement], *values)
        except MayuraError:
            raise
        except Exception as error:  # noqa: BLE001 - the driver has errors of many families
            if meaning_of(error) == "offence":
                raise not_an_id(error) from None
            if opening and misconfigured(error):
                raise not_opened(error) from None
            met = error
        await asyncio.sleep(min(pause_s, max(0.0, deadline_s - loop.time())))
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
    raise unavailable(met)


def run_in(run_id: RunId, rows: Sequence[asyncpg.Record]) -> Loaded:
    """The run that the rows of `read_run` hold; at least one."""
    steps = dict(step_of(tuple(row)[_STEP:]) for row in rows if row[_STEP] is not None)
    return Loaded(run_of(run_id, tuple(rows[0]), steps), instant_of(rows[0][_NOW]))
