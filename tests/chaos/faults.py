"""What a driver process does to itself at named places: die, freeze, or wait for others."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mayura.runtime.faultpoints import NAMES
from tests.chaos.gates import Gate

BODY_POINTS: Final = ("effect.before", "effect.after")
"""The tools of these tests have two places of their own, on both sides of their effect."""
POINTS: Final = (*NAMES, *BODY_POINTS)
MEETS_WITHIN_S: Final = 0.1
"""Not everybody comes: whoever finds the work done by others passes by."""
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

    def __init__(
        self,
        *planned: Fault,
        meets: Mapping[str, int] | None = None,
        dies_after: int | None = None,
    ) -> None:
        """`meets`: at these points, wait a moment for so many processes to be there.

        `dies_after`: kill the process at its so many-th passage of whatever point.
        """
        self._dies_after = dies_after
        self._planned = {(fault.point, fault.passage): fault for fault in planned}
        self._meets = dict(meets or {})
        self._gates: dict[str, Gate] = {}
        self.passed: Counter[str] = Counter()

    async def __call__(self, point: str) -> None:
        """The form in which the runtime's own fault points ask."""
        self.at(point)
        gate = self._gates.pop(point, None)
        if gate is not None:
            await gate.meet(self._meets[point], within_s=MEETS_WITHIN_S)

    def at(self, point: str) -> None:
        """Pass a point, from any thread."""
        self.passed[point] += 1
        fault = self._planned.get((point, self.passed[point]))
        if fault is not None:
            os.kill(os.getpid(), SIGNALS[fault.what])
        if self.passed.total() == self._dies_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def next_round(self, gate: Callable[[str], Gate]) -> None:
        """From now on, the next passage of each meeting point waits at a gate of its own."""
        self._gates = {point: gate(point) for point in self._meets}
