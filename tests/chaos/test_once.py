"""One subject, many runs: a `once` tool acts for one of them, whoever dies meanwhile (G16)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from mayura.runtime import Code
from tests.chaos import roles
from tests.chaos.faults import Fault, Faults
from tests.chaos.history import History, complaints, read_all
from tests.chaos.ledger import count
from tests.chaos.place import Place, run_of
from tests.chaos.processes import Drivers, until_all_ended

RACERS: Final = 6
AT_DISPATCH: Final = "dispatch.before_commit"
RACED_SHARE_MIN: Final = 0.9
DONE, ALREADY, UNKNOWN = ("succeeded", 1), ("blocked", 0), ("outcome_unknown", 0)

TABLE: Final = {
    # killed at: the end of its own run and of the next one for the same order, with their effects
    "dispatch.before_commit": (ALREADY, DONE),
    "dispatch.committed": (UNKNOWN, ALREADY),
    "tool.entered": (UNKNOWN, ALREADY),
    "effect.after": (("outcome_unknown", 1), ALREADY),
    "receipt.committed": (("blocked", 1), ALREADY),
    "completion.committed": (DONE, ALREADY),
}


@pytest.mark.timeout(120)
def test_a_subject_stays_taken_when_its_process_dies(place: Place, drivers: Drivers) -> None:
    for point in TABLE:
        drivers.start(Faults(Fault(point)), roles.pay_once, point, f"{point} first").until_killed()
    until_all_ended(
        [drivers.start(Faults(), roles.pay_once, point, f"{point} next") for point in TABLE]
    )
    keys = {(point, which): f"{point} {which}" for point in TABLE for which in ("first", "next")}
    drivers.start(Faults(), roles.drive, [run_of(key) for key in keys.values()]).until_ended()
    found = asyncio.run(read_all(place, {case: run_of(key) for case, key in keys.items()}))
    assert {
        point: (_end(found[point, "first"]), _end(found[point, "next"])) for point in TABLE
    } == TABLE
    assert [line for each in found.values() for line in complaints(each)] == []


@pytest.mark.timeout(60)
def test_a_subject_is_free_again_once_its_call_was_declined(place: Place, drivers: Drivers) -> None:
    frozen = Faults(Fault("check.before", "stop"))
    holder = drivers.start(frozen, roles.pay_once, "o-1", "first")
    holder.until_stopped()
    drivers.start(Faults(), roles.pay_once, "o-1", "meanwhile").until_ended()
    time.sleep(roles.MARGIN_S / 4)  # what is tested is that time has passed
    holder.go_on()
    holder.until_ended()
    drivers.start(Faults(), roles.pay_once, "o-1", "next").until_ended()
    keys = ("first", "meanwhile", "next")
    found = asyncio.run(read_all(place, {key: run_of(key) for key in keys}))
    assert [_end(found[key]) for key in keys] == [ALREADY, ALREADY, DONE]
    assert [line for each in found.values() for line in complaints(each)] == []


@pytest.mark.timeout(0)
@pytest.mark.parametrize("rounds", [50, pytest.param(1_000, marks=pytest.mark.chaos)])
def test_of_six_runs_for_one_subject_one_acts(
    place: Place, drivers: Drivers, tell: Callable[[str], None], rounds: int
) -> None:
    orders = [f"o-{n}" for n in range(rounds)]
    until_all_ended(
        [
            drivers.start(
                Faults(meets={AT_DISPATCH: RACERS}), roles.pay_once_together, orders, racer, RACERS
            )
            for racer in range(RACERS)
        ],
        within_s=60 + rounds,
    )
    keys = {(o, racer): run_of(f"{o}-by-{racer}") for o in orders for racer in range(RACERS)}
    found = asyncio.run(read_all(place, keys))
    acted = Counter(order for (order, _), each in found.items() if _end(each) == DONE)
    assert acted == dict.fromkeys(orders, 1)
    for each in found.values():
        assert _end(each) in (DONE, ALREADY)
        if _end(each) == ALREADY:
            assert each.run.step(each.definition.nodes[0].id).code is Code.ALREADY_DONE
    assert [line for each in found.values() for line in complaints(each)] == []
    raced = sum(place.gate(f"{order}-{AT_DISPATCH}").arrived() > 1 for order in orders)
    tell(f"{place.kind}: in {raced} of {rounds} rounds several of {RACERS} wanted one subject")
    assert raced >= rounds * RACED_SHARE_MIN


def _end(found: History) -> tuple[str, int]:
    return found.run.status.value, count(found.done, "effect").total()
