"""The storage ceiling: Mayura's own statements and rows, written by hand with no engine around."""

from __future__ import annotations

from contextlib import asynccontextmanager

from benchmarks.contest import Runs, Setting
from benchmarks.storage_rows import Chain, prepare, submission
from mayura.runtime import open_store


@asynccontextmanager
async def runs(setting: Setting) -> Runs:
    """One store."""
    store = await open_store(setting.url)
    try:
        await prepare(store)

        async def one_run(number: int) -> None:
            created = await store.create(submission(f"o-{number}"))
            await Chain(created.run, setting.steps).carry_out(store)

        yield one_run
    finally:
        await store.close()
