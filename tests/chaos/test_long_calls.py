"""Calls that outlast whoever looks at them: left alone by sweepers, and by a restarted host."""

from __future__ import annotations

import asyncio

import pytest

from tests.chaos import roles
from tests.chaos.faults import Faults
from tests.chaos.history import complaints, read_all, times_said
from tests.chaos.ledger import count
from tests.chaos.place import Place, run_of
from tests.chaos.processes import Drivers, until_all_ended

PASSES = 50


@pytest.mark.timeout(90)
def test_a_long_call_is_left_alone_by_whoever_sweeps_meanwhile(
    place: Place, drivers: Drivers
) -> None:
    """Case A4: its own process finishes it, and its result is accepted."""
    holder = drivers.start(Faults(), roles.submit_and_drive, "chaos.long", ["o-1"])
    place.gate("begun").until(1)
    sweeper = drivers.start(Faults(), roles.sweep, run_of("o-1"))
    place.gate("passes").until(PASSES)
    place.gate("enough").arrive()
    until_all_ended([holder, sweeper])
    (found,) = asyncio.run(read_all(place, {"": run_of("o-1")})).values()
    assert found.run.status == "succeeded"
    assert count(found.done, "effect").total() == 1
    assert complaints(found) == []


@pytest.mark.timeout(90)
def test_what_a_killed_host_had_started_is_not_started_again(
    place: Place, drivers: Drivers
) -> None:
    """Case A12: the process that the tool started lives on, and acts when it likes."""
    run = run_of("o-1")
    host = drivers.start(Faults(), roles.submit_and_drive, "chaos.outside", ["o-1"])
    place.gate("started").until(1)
    host.kill()
    drivers.start(Faults(), roles.look_at, run).until_ended()
    (at_once,) = asyncio.run(read_all(place, {"": run})).values()
    assert at_once.run.open, "settled while its call may still be going on"
    drivers.start(Faults(), roles.drive_one, run).until_ended()
    place.gate("released").arrive()
    place.gate("acted").until(1)
    (found,) = asyncio.run(read_all(place, {"": run})).values()
    assert found.run.status == "outcome_unknown"
    assert len(times_said(found, "step.abandoned")) == 1
    assert place.gate("started").arrived() == 1
    assert count(found.done, "effect").total() == 1
    assert complaints(found) == []
