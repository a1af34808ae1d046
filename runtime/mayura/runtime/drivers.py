"""The runs this process has in hand: one driver each, so that each has one writer here (G7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.reading import INPUT
from mayura.runtime.core.state import Run
from mayura.runtime.driver import RunDriver
from mayura.runtime.ids import RunId, check_run_id
from mayura.runtime.inspection import load_run
from mayura.runtime.process import Life, Process
from mayura.runtime.registry import Registry
from mayura.runtime.run_writer import RunWriter

CREATED_MAX: Final = 256
"""Runs that were submitted here and not driven yet, and need no reading when they are."""


class Drivers:
    """Hands out drivers, and forgets those that rest and that nobody holds."""

    def __init__(self, process: Process, registry: Registry) -> None:
        self._process = process
        self._registry = registry
        self._drivers: dict[RunId, RunDriver] = {}
        self._created: dict[RunId, tuple[Run, JsonValue]] = {}  #: with their inputs
        self._settled: dict[RunId, asyncio.Event] = {}
        self._rest = asyncio.Event()
        process.on_rest = self._rested

    def __len__(self) -> int:
        return len(self._drivers)

    @asynccontextmanager
    async def hold(self, run_id: RunId) -> AsyncIterator[RunDriver]:
        """The driver of a run, for as long as the caller needs it.

        NOT_FOUND for no such run; INVALID_CONFIG where nobody would see its work to the end.
        """
        check_run_id(run_id)
        self._process.require(Life.OPEN, Life.DRAINED)
        driver = self._drivers.get(run_id)
        if driver is None:
            driver = await self._new(run_id)
        else:
            driver.just_read = False  # by an earlier caller, perhaps long ago
        driver.users += 1
        try:
            self._process.require(Life.OPEN, Life.DRAINED)  # still: reading it took a while
            yield driver
        finally:
            driver.users -= 1
            self._forget(driver)

    def created(self, run: Run, run_input: JsonValue) -> None:
        """This process has just created the run; should another move it first, a write says so."""
        self._created[run.run_id] = (run, run_input)
        if len(self._created) > CREATED_MAX:
            del self._created[next(iter(self._created))]

    @property
    def idle(self) -> bool:
        """Whether no call is in hand here, no body runs on, and nothing waits to be written."""
        return all(driver.resting and not driver.calls.late for driver in self._drivers.values())

    async def until_idle(self) -> None:
        """Wait for that."""
        while not self.idle:
            self._rest.clear()
            await self._rest.wait()

    def in_hand(self) -> list[RunDriver]:
        """Every run with something going on here."""
        return list(self._drivers.values())

    def moved(self, run_id: RunId) -> asyncio.Event:
        """Set when the run comes to rest in this process."""
        return self._settled.setdefault(run_id, asyncio.Event())

    def unwatch(self, run_id: RunId) -> None:
        """Nobody waits for the run any more."""
        self._settled.pop(run_id, None)

    async def _new(self, run_id: RunId) -> RunDriver:
        created = self._created.pop(run_id, None)
        run = created[0] if created else (await load_run(self._process.store, run_id)).run
        pinned = await self._registry.pinned(self._process.store, run)
        known = self._drivers.get(run_id)
        if known is not None:
            return known
        driver = RunDriver(self._process, RunWriter(self._process.store, run), pinned)
        if created:
            driver.payloads[INPUT] = created[1]
        self._drivers[run_id] = driver
        return driver

    def _rested(self, run_id: RunId) -> None:
        self._rest.set()
        if (event := self._settled.get(run_id)) is not None:
            event.set()
        driver = self._drivers.get(run_id)
        if driver is not None:
            self._forget(driver)

    def _forget(self, driver: RunDriver) -> None:
        if driver.users == 0 and not driver.calls.outliving and driver.resting:
            self._drivers.pop(driver.writer.run_id, None)
