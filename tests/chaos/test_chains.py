"""SIGKILL between two steps, for every two: the run goes on, and nobody acts again (case B4)."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.chaos import roles
from tests.chaos.faults import Fault, Faults
from tests.chaos.history import complaints, read_all
from tests.chaos.ledger import count
from tests.chaos.place import Place, run_of
from tests.chaos.processes import Drivers, until_all_ended
from tests.chaos.shop import CHAIN

EVERYTHING: Final = len(CHAIN)
GUARDED, FUSED, WAITING = "chaos.guarded-chain", "chaos.fused-chain", "chaos.waiting-chain"

TABLE: Final[dict[tuple[str, str, int], tuple[str, int]]] = {
    # Where each completion commits alone, nothing is in hand between two steps.
    **{(GUARDED, "completion.committed", n): ("succeeded", EVERYTHING) for n in (1, 2, 3, 4)},
    **{(GUARDED, "dispatch.before_commit", n): ("succeeded", EVERYTHING) for n in (1, 2, 3, 4)},
    # Where it carries the next dispatch, that call is in hand, and may have acted.
    **{(FUSED, "completion.committed", n): ("outcome_unknown", n) for n in (1, 2, 3)},
    (FUSED, "completion.committed", EVERYTHING): ("succeeded", EVERYTHING),
    # Without that commit there is the receipt of the step before, and no completion.
    (FUSED, "dispatch.before_commit", 1): ("succeeded", EVERYTHING),
    **{(FUSED, "dispatch.before_commit", n): ("blocked", n - 1) for n in (2, 3, 4)},
    # A run that waits for a person, a signal or a time waits on.
    **{(WAITING, "completion.committed", n): ("succeeded", 3) for n in (1, 2, 3, 4)},
}
"""Workflow, place and passage of the kill: how the run ends, and how many effects there are."""


@pytest.mark.timeout(180)
def test_one_later_look_finishes_a_run_left_between_two_steps(
    place: Place, drivers: Drivers
) -> None:
    keys = {case: "{} killed at {} {}".format(*case) for case in TABLE}
    victims = [
        drivers.start(Faults(Fault(point, passage=n)), roles.submit_and_drive, workflow, [key])
        for (workflow, point, n), key in keys.items()
    ]
    for victim in victims:
        victim.until_killed()
    between = {key: run_of(key) for (workflow, _, _), key in keys.items() if workflow == GUARDED}
    for found in asyncio.run(read_all(place, between)).values():
        assert not any(s.status == "dispatching" for s in found.run.steps.values())
    looks = [drivers.start(Faults(), roles.look_once, run) for run in between.values()]
    until_all_ended(looks)
    second = drivers.start(Faults(), roles.drive, [run_of(key) for key in keys.values()])
    second.until_ended()
    ends = asyncio.run(read_all(place, {case: run_of(key) for case, key in keys.items()}))
    assert {
        case: (found.run.status.value, count(found.done, "effect").total())
        for case, found in ends.items()
    } == TABLE
    assert [line for found in ends.values() for line in complaints(found)] == []
