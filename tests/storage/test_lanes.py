"""How flights share the lanes that are free."""

from __future__ import annotations

import asyncio

import pytest

from mayura.storage.group_commit import SHARED_ITEMS_MIN
from tests.storage.test_group_commit import Gate, group_of, settle


@pytest.mark.parametrize(
    ("ready", "flights"), [(SHARED_ITEMS_MIN, [8]), (9, [8, 1]), (32, [16, 16]), (33, [17, 16])]
)
async def test_free_lanes_share_what_is_ready(ready: int, flights: list[int]) -> None:
    gate = Gate()
    group = group_of(gate, lanes=2)
    puts = [asyncio.create_task(group.put((f"k{number}", 0))) for number in range(ready)]
    await settle()
    assert [len(flight) for flight in gate.airborne] == flights
    for flight in range(len(flights)):
        gate.land(flight)
    await asyncio.gather(*puts)


async def test_the_last_free_lane_takes_all_that_is_ready() -> None:
    gate = Gate()
    group = group_of(gate, lanes=2)
    first = asyncio.create_task(group.put(("a", 0)))
    await settle()
    puts = [asyncio.create_task(group.put((f"k{number}", 0))) for number in range(32)]
    await settle()
    assert [len(flight) for flight in gate.airborne] == [1, 32]
    gate.land(0)
    gate.land(1)
    await asyncio.gather(first, *puts)
