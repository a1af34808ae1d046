"""Everything at once: drivers die at random and are replaced, the database restarts (case B14)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from tests.chaos import roles
from tests.chaos.faults import Faults
from tests.chaos.history import complaints, read_all
from tests.chaos.place import Place, chosen_seed, run_of
from tests.chaos.processes import Driver, Drivers
from tests.postgres_server import PostgresServer

DRIVERS: Final = 3
POINTS_A_RUN: Final = 40
RESTART_EVERY_KILLS: Final = 6


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("runs", "kills"), [(120, 24), pytest.param(6_000, 1_500, marks=pytest.mark.chaos)]
)
def test_when_the_storm_is_over_every_run_has_come_to_its_end(
    request: pytest.FixtureRequest,
    place: Place,
    drivers: Drivers,
    tell: Callable[[str], None],
    runs: int,
    kills: int,
) -> None:
    seed, again = chosen_seed("tests/chaos/test_storm.py")
    chosen = random.Random(seed)
    keys = [f"o-{n}" for n in range(runs)]
    drivers.start(Faults(), roles.submit, "chaos.race", keys).until_ended()
    targets = [run_of(key) for key in keys]

    def start() -> Driver:
        points = chosen.randint(1, 2 * POINTS_A_RUN * runs // kills // 3)
        return drivers.start(Faults(dies_after=points), roles.brave, targets, chosen.random())

    going = [start() for _ in range(DRIVERS)]
    died = 0
    while died < kills and going:
        driver = going.pop(0)
        driver.until_ended()
        if driver.killed:
            died += 1
            going.append(start())
            if place.kind == "postgresql" and died % RESTART_EVERY_KILLS == 0:
                server: PostgresServer = request.getfixturevalue("postgres_server")
                server.restart("kill" if chosen.random() < 0.5 else "immediate")
    for driver in going:
        driver.kill()
    drivers.start(Faults(), roles.brave, targets, 0.0).until_ended(within_s=60 + runs)
    found = asyncio.run(read_all(place, {key: run_of(key) for key in keys}))
    ends = Counter(each.run.status.value for each in found.values())
    tell(f"{place.kind}: {died} kills under {runs} runs; {dict(sorted(ends.items()))}. {again}")
    assert not any(each.run.open for each in found.values()), again
    assert [line for each in found.values() for line in complaints(each)] == [], again
    assert ends["succeeded"], again
    assert ends["outcome_unknown"], again
