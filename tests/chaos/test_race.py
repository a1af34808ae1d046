"""Six processes drive every run at once; without claims, compare-and-set alone keeps order.

Case A2: all of them read the same output and the same signal, whoever won which commit.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import pytest

from mayura.runtime import Code
from tests.chaos.history import complaints, read_all
from tests.chaos.ledger import count
from tests.chaos.place import Place, chosen_seed, run_of
from tests.chaos.processes import Drivers, until_all_ended
from tests.chaos.racing import AT_DISPATCH, RACERS, Race, Seen, all_seen, jitters, race_through

CALLS: Final = 6
RACED_SHARE_MIN: Final = 0.9
ROUND_S_MAX: Final = 1.5


@pytest.mark.timeout(0)
@pytest.mark.parametrize("rounds", [200, pytest.param(5_000, marks=pytest.mark.chaos)])
def test_six_drivers_of_one_run_act_once_and_agree(
    place: Place, drivers: Drivers, tell: Callable[[str], None], rounds: int
) -> None:
    seed, again = chosen_seed("tests/chaos/test_race.py")
    race = Race(seed, rounds)
    racers = [
        drivers.start(jitter, race_through, race, number)
        for number, jitter in enumerate(jitters(race))
    ]
    until_all_ended(racers, within_s=60 + rounds * ROUND_S_MAX)
    raced = {key for key in race.keys if place.gate(f"{key}-{AT_DISPATCH}").arrived() > 1}
    tell(f"{place.kind}: {len(raced)} of {rounds} rounds raced, {RACERS} drivers each. {again}")
    assert len(raced) >= rounds * RACED_SHARE_MIN, again
    check_agreement(place, again)
    check_histories(place, race, again)


def check_agreement(place: Place, again: str) -> None:
    """Every racer of a round saw the same end, and met nothing but lost races."""
    rounds: defaultdict[str, list[Seen]] = defaultdict(list)
    for one in all_seen(place):
        rounds[one.key].append(one)
    for key, seen in rounds.items():
        assert len(seen) == RACERS, f"{key}: {again}"
        assert {each.status for each in seen} == {"succeeded"}, f"{key}: {again}"
        assert len({str(each.output) for each in seen}) == 1, f"{key}: {again}"
        assert len({str(each.message) for each in seen}) == 1, f"{key}: {again}"
        assert {code for each in seen for code in each.met} <= {Code.CONFLICT}, f"{key}: {again}"
        (sender,) = [each for each in seen if each.sent]
        assert sender.message == {"sender": sender.racer, "text": f"from racer {sender.racer}"}
        assert sum(each.agreed for each in seen) == 1, f"{key}: {again}"


def check_histories(place: Place, race: Race, again: str) -> None:
    """One effect a call and one dispatch record a step; the journals verify."""
    found = asyncio.run(read_all(place, {key: run_of(key) for key in race.keys}))
    assert [line for each in found.values() for line in complaints(each)] == [], again
    for key, each in found.items():
        assert set(count(each.done, "effect").values()) == {1}, f"{key}: {again}"
        assert len(count(each.done, "effect")) == CALLS, f"{key}: {again}"
    assert place.dispatch_records() == CALLS * race.rounds, again
