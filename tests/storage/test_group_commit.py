"""What travels together, what must not, and what a caller's end does to the others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mayura.runtime.core.state import Run, RunStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, Nonce, RunId
from mayura.runtime.ports import OnceClaim, Refused, RunWrite, WriteAnswer
from mayura.storage.group_commit import (
    Group,
    GroupCommit,
    GroupStatistics,
    Outcome,
    write_keys,
)


@dataclass
class Gate:
    """A flush whose flights land when the test says so. Items are (key, number)."""

    airborne: list[tuple[tuple[str, int], ...]] = field(default_factory=list)
    landings: list[asyncio.Future[None]] = field(default_factory=list)

    async def flush(self, batch: Sequence[tuple[str, int]]) -> Sequence[str | MayuraError]:
        self.airborne.append(tuple(batch))
        landing = asyncio.get_running_loop().create_future()
        self.landings.append(landing)
        await landing
        return [f"{key}{number}" for key, number in batch]

    def land(self, flight: int) -> None:
        self.landings[flight].set_result(None)


def group_of(
    gate: Gate, *, lanes: int = 1, batch_items_max: int = 128
) -> Group[tuple[str, int], str]:
    return Group(gate.flush, lambda item: (item[0],), lanes=lanes, batch_items_max=batch_items_max)


async def settle() -> None:
    """Let everything run that is ready: a flight needs three turns of the loop to take off."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_items_ready_at_the_same_moment_share_a_flight() -> None:
    gate = Gate()
    group = group_of(gate)
    puts = [asyncio.create_task(group.put((key, 0))) for key in "abc"]
    await settle()
    assert gate.airborne == [(("a", 0), ("b", 0), ("c", 0))]
    gate.land(0)
    assert await asyncio.gather(*puts) == ["a0", "b0", "c0"]


async def test_an_item_alone_flies_at_once() -> None:
    gate = Gate()
    group = group_of(gate)
    put = asyncio.create_task(group.put(("a", 0)))
    await settle()
    assert gate.airborne == [(("a", 0),)]
    gate.land(0)
    assert await put == "a0"


async def test_what_arrives_during_a_flight_forms_the_next_one() -> None:
    gate = Gate()
    group = group_of(gate)
    puts = [asyncio.create_task(group.put(("a", 0)))]
    await settle()
    for key in "bcd":
        puts.append(asyncio.create_task(group.put((key, 0))))
        await settle()
    assert group.statistics() == GroupStatistics(batches=1, items=1, largest=1, queued=3)
    gate.land(0)
    await settle()
    assert gate.airborne[1:] == [(("b", 0), ("c", 0), ("d", 0))]
    gate.land(1)
    await asyncio.gather(*puts)
    assert group.statistics() == GroupStatistics(batches=2, items=4, largest=3, queued=0)


async def test_callers_whose_answers_came_together_fly_together_again() -> None:
    batches: list[int] = []

    async def flush(batch: Sequence[tuple[int, int]]) -> Sequence[Outcome[int]]:
        batches.append(len(batch))
        await asyncio.sleep(0)
        return [number for _, number in batch]

    group: Group[tuple[int, int], int] = Group(flush, lambda item: (item[0],))

    async def caller(key: int) -> None:
        for number in range(3):
            await group.put((key, number))

    await asyncio.gather(*map(caller, range(10)))
    assert batches == [10, 10, 10]


async def test_a_flight_is_no_larger_than_its_limit() -> None:
    gate = Gate()
    group = group_of(gate, batch_items_max=2)
    puts = [asyncio.create_task(group.put((key, 0))) for key in "abcde"]
    for flight in range(3):
        await settle()
        gate.land(flight)
    await asyncio.gather(*puts)
    assert [len(batch) for batch in gate.airborne] == [2, 2, 1]


async def test_two_items_of_one_key_never_share_a_flight() -> None:
    gate = Gate()
    group = group_of(gate)
    puts = [asyncio.create_task(group.put(item)) for item in (("a", 1), ("a", 2), ("b", 1))]
    await settle()
    gate.land(0)
    await settle()
    gate.land(1)
    await asyncio.gather(*puts)
    assert gate.airborne == [(("a", 1), ("b", 1)), (("a", 2),)]


async def test_two_items_of_one_key_are_never_in_two_flights_at_once() -> None:
    gate = Gate()
    group = group_of(gate, lanes=2)
    first = asyncio.create_task(group.put(("a", 1)))
    await settle()
    second = asyncio.create_task(group.put(("a", 2)))
    other = asyncio.create_task(group.put(("b", 1)))
    await settle()
    assert gate.airborne == [(("a", 1),), (("b", 1),)]
    gate.land(1)
    assert await other == "b1"
    await settle()
    assert len(gate.airborne) == 2
    gate.land(0)
    await settle()
    gate.land(2)
    assert [await first, await second] == ["a1", "a2"]


async def test_a_second_lane_flies_while_the_first_is_in_the_air() -> None:
    gate = Gate()
    group = group_of(gate, lanes=2)
    puts = []
    for key in "abc":
        puts.append(asyncio.create_task(group.put((key, 0))))
        await settle()
    assert len(gate.airborne) == 2
    assert group.statistics().queued == 1
    gate.land(1)
    await settle()
    assert gate.airborne[2] == (("c", 0),)
    gate.land(0)
    gate.land(2)
    await asyncio.gather(*puts)


async def test_cancelling_a_caller_loses_neither_its_item_nor_the_answers_of_others() -> None:
    gate = Gate()
    group = group_of(gate)
    flying = asyncio.create_task(group.put(("a", 0)))
    beside = asyncio.create_task(group.put(("b", 0)))
    await settle()
    queued = asyncio.create_task(group.put(("c", 0)))
    await settle()
    flying.cancel()
    queued.cancel()
    await asyncio.wait({flying, queued})
    assert flying.cancelled()
    assert queued.cancelled()
    gate.land(0)
    assert await beside == "b0"
    await settle()
    assert gate.airborne[1] == (("c", 0),)
    gate.land(1)
    await group.close(within_seconds=1)
    assert group.statistics().queued == 0


async def test_an_error_is_the_answer_of_its_own_item_only() -> None:
    async def flush(batch: Sequence[int]) -> Sequence[int | MayuraError]:
        return [MayuraError(Code.INTEGRITY_VIOLATION, "odd") if n % 2 else n for n in batch]

    group: Group[int, int] = Group(flush, lambda item: (item,))
    answers = await asyncio.gather(*(group.put(n) for n in range(4)), return_exceptions=True)
    assert answers[0::2] == [0, 2]
    assert [getattr(answer, "code", None) for answer in answers[1::2]] == [
        Code.INTEGRITY_VIOLATION
    ] * 2
    assert group.statistics().batches == 1


async def test_a_flush_that_raises_answers_everybody_and_the_next_flight_goes() -> None:
    calls = 0

    async def flush(batch: Sequence[int]) -> Sequence[int | MayuraError]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise MayuraError(Code.STORAGE_UNAVAILABLE, "gone")
        return list(batch)

    group: Group[int, int] = Group(flush, lambda item: (item,))
    answers = await asyncio.gather(group.put(1), group.put(2), return_exceptions=True)
    assert [getattr(answer, "code", None) for answer in answers] == [Code.STORAGE_UNAVAILABLE] * 2
    assert await group.put(3) == 3


async def test_a_flush_that_leaves_an_item_unanswered_leaves_no_caller_waiting() -> None:
    async def flush(batch: Sequence[int]) -> Sequence[int | MayuraError]:
        return list(batch)[1:]

    group: Group[int, int] = Group(flush, lambda item: (item,))
    answers = await asyncio.gather(group.put(1), group.put(2), return_exceptions=True)
    assert [type(answer) for answer in answers] == [RuntimeError] * 2


async def test_an_item_answered_later_keeps_its_key_and_gives_up_its_lane() -> None:
    later: asyncio.Future[str | MayuraError] = asyncio.get_running_loop().create_future()

    async def flush(batch: Sequence[tuple[str, int]]) -> Sequence[Outcome[str]]:
        return [later if item == ("a", 1) else f"{item[0]}{item[1]}" for item in batch]

    group: Group[tuple[str, int], str] = Group(flush, lambda item: (item[0],))
    first = asyncio.create_task(group.put(("a", 1)))
    await settle()
    second = asyncio.create_task(group.put(("a", 2)))
    assert await group.put(("b", 1)) == "b1"
    assert not first.done()
    assert not second.done()
    later.set_result("a1")
    assert [await first, await second] == ["a1", "a2"]


async def test_close_gives_up_on_what_would_be_answered_later() -> None:
    never: asyncio.Future[str | MayuraError] = asyncio.get_running_loop().create_future()

    async def flush(batch: Sequence[str]) -> Sequence[Outcome[str]]:
        return [never for _ in batch]

    group: Group[str, str] = Group(flush, lambda item: (item,))
    put = asyncio.create_task(group.put("a"))
    await settle()
    await group.close(within_seconds=0.01)
    with pytest.raises(MayuraError) as given_up:
        await put
    assert given_up.value.code is Code.STORAGE_UNAVAILABLE


async def test_close_at_once_leaves_no_caller_of_a_flight_that_never_began_waiting() -> None:
    gate = Gate()
    group = group_of(gate)
    put = asyncio.create_task(group.put(("a", 0)))
    await asyncio.sleep(0)
    await group.close(within_seconds=0)
    with pytest.raises(MayuraError) as given_up:
        await put
    assert given_up.value.code is Code.STORAGE_UNAVAILABLE


async def test_close_lets_what_is_here_land() -> None:
    gate = Gate()
    group = group_of(gate, batch_items_max=1)
    puts = [asyncio.create_task(group.put((key, 0))) for key in "ab"]
    await settle()
    closing = asyncio.create_task(group.close(within_seconds=30))
    gate.land(0)
    await settle()
    gate.land(1)
    assert await closing == 0
    assert await asyncio.gather(*puts) == ["a0", "b0"]
    with pytest.raises(MayuraError) as refused:
        await group.put(("c", 0))
    assert refused.value.code is Code.STORAGE_UNAVAILABLE


async def test_close_gives_up_in_time_and_leaves_no_caller_waiting() -> None:
    gate = Gate()
    group = group_of(gate, batch_items_max=1)
    puts = [asyncio.create_task(group.put((key, 0))) for key in "ab"]
    await settle()
    assert await group.close(within_seconds=0.01) == 2
    answers = await asyncio.gather(*puts, return_exceptions=True)
    assert [getattr(answer, "code", None) for answer in answers] == [Code.STORAGE_UNAVAILABLE] * 2


@pytest.mark.parametrize("seed", range(20))
async def test_any_order_of_arrivals_and_landings_keeps_keys_apart_and_in_order(seed: int) -> None:
    """Repeat one with `pytest tests/storage/test_group_commit.py -k 'any_order and <seed>-'`."""
    choice = random.Random(seed)
    in_the_air: set[str] = set()
    landed: list[tuple[str, int]] = []

    async def flush(batch: Sequence[tuple[str, int]]) -> Sequence[int | MayuraError]:
        keys = [key for key, _ in batch]
        assert len(set(keys)) == len(keys) <= 3
        assert in_the_air.isdisjoint(keys)
        in_the_air.update(keys)
        for _ in range(choice.randrange(5)):
            await asyncio.sleep(0)
        in_the_air.difference_update(keys)
        landed.extend(batch)
        return [number for _, number in batch]

    group: Group[tuple[str, int], int] = Group(
        flush, lambda item: (item[0],), lanes=2, batch_items_max=3
    )
    items = [(choice.choice("abcd"), number) for number in range(60)]
    puts = []
    for item in items:
        puts.append(asyncio.create_task(group.put(item)))
        for _ in range(choice.randrange(3)):
            await asyncio.sleep(0)
    assert await asyncio.gather(*puts) == [number for _, number in items]
    for key in "abcd":
        assert [item for item in landed if item[0] == key] == [
            item for item in items if item[0] == key
        ]


def run_of(number: int) -> Run:
    """The least of a run that a key function looks at."""
    return Run(
        run_id=RunId(f"{number:032x}"),
        key=f"key-{number}",
        definition=b"definition",
        policy=b"policy",
        requested_by=None,
        salt=b"salt",
        status=RunStatus.RUNNING,
        version=1,
        event_seq=0,
        chain=b"",
        last_at_us=0,
        created_at_us=0,
    )


def write_of(number: int, *, once: bytes | None = None, released: bytes | None = None) -> RunWrite:
    run = run_of(number)
    return RunWrite(
        nonce=Nonce(bytes(16)),
        before=run,
        after=run,
        entries=b"[]",
        once=None if once is None else OnceClaim(once, NodeId("charge")),
        once_released=() if released is None else (released,),
    )


def test_the_keys_of_a_write_are_its_run_and_its_once_subjects() -> None:
    run_id = run_of(1).run_id
    assert list(write_keys(write_of(1))) == [run_id]
    assert list(write_keys(write_of(1, once=b"x", released=b"y"))) == [run_id, b"x", b"y"]


async def test_two_claims_of_one_once_subject_go_one_after_the_other() -> None:
    batches: list[int] = []

    async def flush(batch: Sequence[RunWrite]) -> Sequence[WriteAnswer | MayuraError]:
        batches.append(len(batch))
        return [Refused("once") for _ in batch]

    group = GroupCommit(flush)
    writes = [write_of(1, once=b"x"), write_of(2, once=b"x"), write_of(3, once=b"y")]
    await asyncio.gather(*(group.put(write) for write in writes))
    assert batches == [2, 1]
