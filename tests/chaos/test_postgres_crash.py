"""The database server dies and comes back under drivers that go on: nothing acknowledged is lost.

Drivers write down what was acknowledged to them before they go on, as a person would who was told
"thank you". The cluster is on the disk, with fsync on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests import system_tools
from tests.chaos import roles
from tests.chaos.conftest import ready
from tests.chaos.faults import Faults
from tests.chaos.history import complaints, read_all, times_said
from tests.chaos.ledger import count
from tests.chaos.place import Place, run_of
from tests.chaos.processes import Drivers, until_all_ended
from tests.postgres_server import PostgresServer, Stop

DRIVERS: Final = 3
RUNS_A_CRASH: Final = 5  #: of each driver
CALLS: Final = 3
WAYS: Final[tuple[Stop, ...]] = ("kill", "immediate")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of this test's own, on the disk."""
    started = PostgresServer(system_tools.require("postgresql"), on_disk=True)
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture
def place(server: PostgresServer, tmp_path: Path) -> Place:
    return ready(Place(server.create_database("crashing"), tmp_path))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("crashes", [6, pytest.param(100, marks=pytest.mark.chaos)])
def test_a_crashing_server_loses_nothing_that_was_acknowledged(
    server: PostgresServer,
    place: Place,
    drivers: Drivers,
    tell: Callable[[str], None],
    crashes: int,
) -> None:
    """Case B14: once it stays up, every run comes to its end."""
    keys = [
        [f"driver-{driver}-{n}" for n in range(crashes * RUNS_A_CRASH)] for driver in range(DRIVERS)
    ]
    going = [drivers.start(Faults(), roles.submit_in_turn, own, RUNS_A_CRASH) for own in keys]
    entries = DRIVERS * RUNS_A_CRASH * CALLS
    for crash in range(crashes):
        place.gate("finished").until(1 + crash * entries // (2 * CALLS))
        server.restart(WAYS[crash % len(WAYS)])
    until_all_ended(going, within_s=90 + 10 * crashes)
    acknowledged = place.folder.joinpath("acknowledged.txt").read_text().split("\n")[:-1]
    runs = {key: run_of(key) for own in keys for key in own}
    found = asyncio.run(read_all(place, runs))
    tell(f"{place.kind}: {crashes} crashes under {len(runs)} runs, {len(acknowledged)} promises")
    assert [line for each in found.values() for line in complaints(each)] == []
    assert {each.run.status for each in found.values()} == {"succeeded"}
    for each in found.values():
        assert count(each.done, "effect").total() == CALLS
    for promise in acknowledged:
        event, key = promise.split(" ")
        assert len(times_said(found[key], event)) == 1, promise
