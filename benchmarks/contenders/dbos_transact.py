"""DBOS Transact, with its defaults and its logging off: async workflows and steps, no queue."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

from dbos import DBOS, DBOSConfig

from benchmarks.contest import Runs, Setting

INPUT = {"order_id": "o-1001", "email": "ada@example.com"}


@DBOS.step()
async def charge(order: dict[str, str]) -> dict[str, Any]:
    """The cheapest write: it answers at once."""
    return {"ok": True, "charge_id": "ch_0123456789"}


@DBOS.workflow()
async def chained(order: dict[str, str], steps: int) -> dict[str, Any]:
    """A workflow of `steps` writes, each after the one before."""
    last: dict[str, Any] = {}
    for _ in range(steps):
        last = await charge(order)
    return last


@asynccontextmanager
async def runs(setting: Setting) -> Runs:
    """One DBOS executor on one database."""
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": setting.url,
        "log_level": "ERROR",
        "enable_otlp": False,
    }
    DBOS(config=config)
    DBOS.launch()
    try:

        async def one_run(number: int) -> None:
            handle = await DBOS.start_workflow_async(chained, INPUT, setting.steps)
            answer = await handle.get_result()
            assert answer["ok"], answer

        yield one_run
    finally:
        DBOS.destroy()
