"""Many settle the same abandoned step at once: one does, and nobody gets an error (case C8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from mayura.runtime import RunId
from tests.chaos import roles
from tests.chaos.faults import Fault, Faults
from tests.chaos.history import complaints, read_all, times_said
from tests.chaos.place import Place, run_of
from tests.chaos.processes import Drivers, until_all_ended

SETTLERS: Final = 6
RACED_SHARE_MIN: Final = 0.8


def abandon(drivers: Drivers, rounds: int) -> list[RunId]:
    """Leave that many runs in the middle of their calls."""
    keys = [f"o-{n}" for n in range(rounds)]
    death = Faults(Fault("effect.before", passage=rounds))
    drivers.start(death, roles.submit_and_drive, "chaos.never-ending", keys).until_killed()
    return [run_of(key) for key in keys]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("rounds", [30, pytest.param(60, marks=pytest.mark.chaos)])
def test_six_who_settle_the_same_step_agree(
    place: Place, drivers: Drivers, tell: Callable[[str], None], rounds: int
) -> None:
    runs = abandon(drivers, rounds)
    meeting = Faults(meets={"settle.before_commit": SETTLERS})
    until_all_ended(
        [drivers.start(meeting, roles.settle_together, runs, SETTLERS) for _ in range(SETTLERS)]
    )
    check_settled_once(place, runs)
    raced = sum(place.gate(f"{run}-settle.before_commit").arrived() > 1 for run in runs)
    tell(f"{place.kind}: in {raced} of {rounds} rounds several of {SETTLERS} settled one step")
    assert raced >= rounds * RACED_SHARE_MIN


@pytest.mark.timeout(120)
def test_a_settler_that_dies_leaves_the_step_to_the_next(place: Place, drivers: Drivers) -> None:
    before, after = runs = abandon(drivers, 2)
    for point, run in (("settle.before_commit", before), ("settle.committed", after)):
        drivers.start(Faults(Fault(point)), roles.drive_one, run).until_killed()
    between = asyncio.run(read_all(place, {run: run for run in runs}))
    assert [found.run.open for found in between.values()] == [True, False]
    drivers.start(Faults(), roles.drive, runs).until_ended()
    check_settled_once(place, runs)


def check_settled_once(place: Place, runs: Sequence[RunId]) -> None:
    for found in asyncio.run(read_all(place, {run: run for run in runs})).values():
        assert found.run.status == "outcome_unknown"
        assert len(times_said(found, "step.abandoned")) == 1
        assert complaints(found) == []
