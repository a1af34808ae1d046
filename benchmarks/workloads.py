"""What is measured: how many steps a run has, and how many runs are in flight at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Workload:
    """`runs` runs of `steps` sequential write steps each, `width` of them in flight at any time."""

    name: str
    title: str
    steps: int
    width: int
    runs: int
    runs_quick: int

    def size(self, *, quick: bool) -> int:
        """How many runs are measured; a quick look takes fewer and says less."""
        return self.runs_quick if quick else self.runs


WORKLOADS: Final = (
    Workload(
        name="W1",
        title="ten sequential write steps, 32 runs in flight",
        steps=10,
        width=32,
        runs=1_500,
        runs_quick=160,
    ),
    Workload(
        name="W2 alone",
        title="one write step, one run at a time",
        steps=1,
        width=1,
        runs=600,
        runs_quick=60,
    ),
    Workload(
        name="W2",
        title="one write step, 64 runs in flight",
        steps=1,
        width=64,
        runs=6_000,
        runs_quick=640,
    ),
)

SLOW_SHARE: Final = 5
"""A contender that is known to be slow gets a fifth of the runs: the rate is the same."""
