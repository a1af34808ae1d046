"""Where one chaos test happens: a store that processes share, a ledger beside it, and gates."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from mayura.runtime import Code, MayuraError, RunId, Scope, open_store
from mayura.runtime.ids import run_id_of
from mayura.runtime.ports import Store
from tests.chaos.gates import Gate
from tests.chaos.ledger import Ledger

SEED_VARIABLE = "MAYURA_CHAOS_SEED"
OPENS_WITHIN_S = 30.0
LOOK_AGAIN_S = 0.1


def chosen_seed(test_file: str) -> tuple[int, str]:
    """The seed of this run of a test, and the command that repeats it."""
    named = os.environ.get(SEED_VARIABLE)
    seed = int(named) if named else int.from_bytes(os.urandom(4))
    return seed, f"{SEED_VARIABLE}={seed} make test TESTS={test_file}"


def run_of(key: str) -> RunId:
    """The run that a key names, in every store alike."""
    return run_id_of(Scope(), key)


@dataclass(frozen=True, slots=True)
class Place:
    """Known to every process of a test; each opens the store for itself."""

    url: str
    folder: Path

    @property
    def kind(self) -> str:
        """Which store it is."""
        return self.url.partition(":")[0]

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger.txt")

    def gate(self, name: str) -> Gate:
        """The gate of this name."""
        return Gate(self.folder / f"gate-{name}")

    async def open(self) -> Store:
        """A store with connections of its own; a server that restarts meanwhile is waited for."""
        give_up_at = time.monotonic() + OPENS_WITHIN_S
        while True:
            try:
                return await open_store(self.url)
            except MayuraError as error:
                if error.code is not Code.STORAGE_UNAVAILABLE or time.monotonic() > give_up_at:
                    raise
            await asyncio.sleep(LOOK_AGAIN_S)

    def dispatch_records(self) -> int:
        """How many dispatch records there are, counted behind the store's back."""
        return self.ask("select count(*) from dispatches")

    def ask(self, question: str) -> int:
        """One number that the database itself answers."""
        if self.kind == "sqlite":
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            try:
                (number,) = connection.execute(question).fetchone()
            finally:
                connection.close()
            return int(number)
        return asyncio.run(_ask_postgres(self.url, question))


async def _ask_postgres(url: str, question: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval(question))
    finally:
        await connection.close()
