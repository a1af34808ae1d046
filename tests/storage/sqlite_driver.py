"""A process that drives runs through an embedded store as fast as it may, and says how it went.

    python -m tests.storage.sqlite_driver <url> <name> <seconds> <runs>

It stops after so many seconds or runs. What the store does not confirm is sent again, the same
with the same nonce, until it is answered. The last line it prints is a JSON object of counts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from mayura.runtime.core.state import Run
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ports import RunWrite, Won
from mayura.storage.sqlite import SqliteStore, open_store
from tests.storage.places import SCOPE
from tests.storage.runs import NODE, dispatch_of, prepare, submission, succeeded, write_of

LANES = 4
PAUSE_SECONDS = 0.01


class Driver:
    """Submits runs and takes each through a dispatch and its completion."""

    def __init__(self, store: SqliteStore, name: str) -> None:
        self._store = store
        self._name = name
        self.runs = 0
        self.unavailable = 0

    async def drive(self, until: float, runs_max: int) -> None:
        """One lane: run after run."""
        while time.monotonic() < until and self.runs < runs_max:
            self.runs += 1
            key = f"{self._name}-{self.runs}"
            run = await self._submit(key)
            begun = await self._committed(dispatch_of(run))
            await self._committed(write_of(begun, {NODE: succeeded(begun.step(NODE))}))

    async def _submit(self, key: str) -> Run:
        while True:
            try:
                return (await self._store.create(submission(key))).run
            except MayuraError as error:
                await self._not_confirmed(error)

    async def _committed(self, write: RunWrite) -> Run:
        while True:
            try:
                answer = await self._store.write(write)
                assert isinstance(answer, Won), answer
                found = await self._store.load(write.before.run_id)
            except MayuraError as error:
                await self._not_confirmed(error)
                continue
            assert found is not None
            return found.run

    async def _not_confirmed(self, error: MayuraError) -> None:
        if error.code is not Code.STORAGE_UNAVAILABLE:
            raise error
        self.unavailable += 1
        await asyncio.sleep(PAUSE_SECONDS)


async def main(url: str, name: str, seconds: float, runs_max: int) -> None:
    """Open, drive, close, tell."""
    store = await open_store(url, scope=SCOPE, environment="test")
    await prepare(store)
    driver = Driver(store, name)
    until = time.monotonic() + seconds
    await asyncio.gather(*(driver.drive(until, runs_max) for _ in range(LANES)))
    await store.close()
    counts = {"runs": driver.runs, "unavailable": driver.unavailable}
    sys.stdout.write(f"{json.dumps(counts)}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
