"""What a driver process does to itself at named places: die, freeze, or wait for others."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

from mayura.runtime.faultpoints import NAMES

BODY_POINTS: Final = ("effect.before", "effect.after")
"""The tools of these tests have two places of their own, on both sides of their effect."""
POINTS: Final = (*NAMES, *BODY_POINTS)
SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


@dataclass(frozen=True, slots=True)
class Fault:
    """Kill or stop the process when it passes `point` for the `passage`-th time."""

    point: str
    what: Literal["kill", "stop"] = "kill"
    passage: int = 1

    def __post_init__(self) -> None:
        assert self.point in POINTS, f"there is no fault point {self.point!r}"


class Faults:
    """Counts the passages of one process, and carries out what is planned for them."""

    def __init__(self, *planned: Fault) -> None:
        self._planned = {(fault.point, fault.passage): fault for fault in planned}
        self.passed: Counter[str] = Counter()

    async def __call__(self, point: str) -> None:
        """The form in which the runtime's own fault points ask."""
        self.at(point)

    def at(self, point: str) -> None:
        """Pass a point, from any thread."""
        self.passed[point] += 1
        fault = self._planned.get((point, self.passed[point]))
        if fault is not None:
            os.kill(os.getpid(), SIGNALS[fault.what])
