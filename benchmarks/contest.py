"""One contender and one workload in a process of their own: warm up, measure, say what came of it.

Started by `benchmarks.arena` as `python -m benchmarks.contest <setting as JSON>`; the last line of
its output is the result as JSON. The measured part has no set-up and no clean-up in it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TypeAlias

import uvloop

from benchmarks.measuring import Figures, Meter

OneRun: TypeAlias = Callable[[int], Awaitable[None]]
"""Makes the run of this number from its submission to its end; raises if it did not succeed."""

Contender: TypeAlias = Callable[["Setting"], AbstractAsyncContextManager[OneRun]]
Runs: TypeAlias = AsyncIterator[OneRun]

WARM_UP_ROUNDS = 3
GC_OBJECTS = 10_000  #: made between two looks of the garbage collector, for every contender


@dataclass(frozen=True, slots=True)
class Setting:
    """What a contender is given. `server_pid` is the postmaster's, None where there is none."""

    contender: str  #: a module of `benchmarks.contenders`
    variant: str
    url: str
    server_pid: int | None
    steps: int
    width: int
    runs: int


async def pump(one_run: OneRun, numbers: range, width: int) -> list[float]:
    """Make the runs, `width` at a time, and return how long each took, in seconds."""
    left = iter(numbers)
    took: list[float] = []

    async def lane() -> None:
        for number in left:
            begun = time.perf_counter()
            await one_run(number)
            took.append(time.perf_counter() - begun)

    async with asyncio.TaskGroup() as lanes:
        for _ in range(min(width, len(numbers))):
            lanes.create_task(lane())
    return took


async def contest(setting: Setting) -> Figures:
    """Let the contender make its runs, and measure those after the warm-up."""
    contender: Contender = import_module(f"benchmarks.contenders.{setting.contender}").runs
    warm_up = min(setting.width * WARM_UP_ROUNDS, setting.runs)
    async with contender(setting) as one_run:
        await pump(one_run, range(warm_up), setting.width)
        # What importing and opening left is nobody's step: the collector need not walk it again,
        # nor look for cycles at every seven hundredth object of a hundred thousand.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_OBJECTS)
        async with Meter(setting.url, setting.server_pid) as meter:
            took = await pump(one_run, range(warm_up, warm_up + setting.runs), setting.width)
        return meter.figures(took, setting.runs * setting.steps)


def main() -> None:
    """Measure what the command line asks for."""
    setting = Setting(**json.loads(sys.argv[1]))
    print(json.dumps(asdict(uvloop.run(contest(setting)))))


if __name__ == "__main__":
    main()
