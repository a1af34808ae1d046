"""A process that is frozen and thaws after others settled its step: one effect, no new status.

SIGSTOP is what a suspended machine, a full page of swap or a long collection looks like from
outside. Such a process may act late, but nobody acts twice; see "What is not promised" in
docs/explanation/guarantee.md.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import pytest

from tests.chaos import roles
from tests.chaos.faults import Fault, Faults
from tests.chaos.history import History, complaints, read_all
from tests.chaos.ledger import count
from tests.chaos.place import Place, run_of
from tests.chaos.processes import Drivers, until_all_ended

PAY, IN_THREAD, LOOK = "chaos.pay", "chaos.pay-in-a-thread", "chaos.look"


@dataclass(frozen=True, slots=True)
class Thawed:
    """A step after its holder went on: its status as others settled it, its merged receipt."""

    status: str
    receipt: str | None
    entered: int
    effects: int


DECLINED: Final = Thawed("unknown", "not_started", 0, 0)
ACTED_LATE: Final = Thawed("unknown", "succeeded", 1, 1)
EFFECT_KNOWN: Final = Thawed("blocked", "succeeded", 1, 1)
DONE: Final = Thawed("succeeded", "succeeded", 1, 1)

TABLE: Final[dict[tuple[str, str], Thawed]] = {
    (PAY, "dispatch.before_commit"): DONE,  # by the other driver: the frozen one loses the race
    (PAY, "dispatch.committed"): DECLINED,
    (PAY, "check.before"): DECLINED,
    (PAY, "check.passed"): DECLINED,  # an old check is made again (G3)
    (PAY, "tool.entered"): ACTED_LATE,
    (PAY, "effect.before"): ACTED_LATE,
    (PAY, "effect.after"): ACTED_LATE,
    (PAY, "tool.returned"): ACTED_LATE,
    (PAY, "receipt.before_commit"): ACTED_LATE,
    (PAY, "receipt.committed"): EFFECT_KNOWN,
    (PAY, "completion.before_commit"): EFFECT_KNOWN,
    (PAY, "completion.committed"): DONE,
    (IN_THREAD, "check.passed"): DECLINED,
    (IN_THREAD, "tool.entered"): ACTED_LATE,
    (IN_THREAD, "effect.before"): ACTED_LATE,
    (IN_THREAD, "effect.after"): ACTED_LATE,
    (LOOK, "check.passed"): Thawed("failed", "not_started", 0, 0),
    (LOOK, "effect.before"): Thawed("failed", "succeeded", 1, 1),
}
"""Workflow and where its holder is frozen, until another driver has settled everything."""


@pytest.mark.timeout(150)
def test_a_holder_that_thaws_after_its_deadline_changes_no_status(
    place: Place, drivers: Drivers
) -> None:
    """Case A10: its receipt is merged, its status write is not made."""
    keys = {case: "{} frozen at {}".format(*case) for case in TABLE}
    frozen = [
        drivers.start(Faults(Fault(point, "stop")), roles.submit_and_drive, workflow, [key])
        for (workflow, point), key in keys.items()
    ]
    for holder in frozen:
        holder.until_stopped()
    runs = {case: run_of(key) for case, key in keys.items()}
    drivers.start(Faults(), roles.drive, list(runs.values())).until_ended()
    settled = asyncio.run(read_all(place, runs))
    for holder in frozen:
        holder.go_on()
    until_all_ended(frozen)
    thawed = asyncio.run(read_all(place, runs))
    assert {case: _thawed(found) for case, found in thawed.items()} == TABLE
    assert [line for found in thawed.values() for line in complaints(found)] == []
    assert {case: found.run.status for case, found in settled.items()} == {
        case: found.run.status for case, found in thawed.items()
    }


@pytest.mark.timeout(60)
def test_a_holder_that_thaws_after_a_quarter_of_the_margin_does_not_act(
    place: Place, drivers: Drivers
) -> None:
    """Nobody settled its step yet, and nobody may know how long it was frozen (G3)."""
    holder = drivers.start(
        Faults(Fault("check.before", "stop")), roles.submit_and_drive, PAY, ["o-1"]
    )
    holder.until_stopped()
    time.sleep(roles.MARGIN_S / 4)  # what is tested is that time has passed
    holder.go_on()
    holder.until_ended()
    (found,) = asyncio.run(read_all(place, {"": run_of("o-1")})).values()
    assert _thawed(found) == Thawed("blocked", "not_started", 0, 0)
    assert found.run.status == "blocked"
    assert complaints(found) == []


def _thawed(found: History) -> Thawed:
    step = found.run.step(found.definition.nodes[0].id)
    assert step.contradiction is None
    return Thawed(
        step.status,
        step.receipt,
        count(found.done, "entered").total(),
        count(found.done, "effect").total(),
    )
