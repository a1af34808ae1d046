"""What only the store in memory can do: a clock that is set, and commits that are watched."""

from __future__ import annotations

import asyncio

import pytest

from mayura.runtime.core.state import Instant
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ports import NewRun, Refused, RunWrite, Won
from mayura.storage.memory import MemoryStore, no_hook
from mayura.storage.memory_database import MemoryDatabase, VirtualClock
from tests.storage.places import SCOPE
from tests.storage.runs import (
    NODE,
    SETTLE_WAIT_US,
    dispatch_of,
    loaded,
    prepare,
    submitted,
    won,
    write_of,
)

NOON = Instant(wall_us=12_000_000, steady_us=5_000_000, epoch="boot")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOON)


@pytest.fixture
async def store(clock: VirtualClock) -> MemoryStore:
    store = MemoryStore(MemoryDatabase(clock=clock, secret=bytes(32)), SCOPE)
    await prepare(store)
    return store


async def test_time_is_what_the_test_says(store: MemoryStore, clock: VirtualClock) -> None:
    run = await submitted(store)
    assert run.created_at_us == NOON.wall_us
    later = Instant(NOON.wall_us + 7, NOON.steady_us + 3, "another boot")
    clock.instant = later
    begun = await won(store, dispatch_of(run, wake_at_us=NOON.wall_us + 100))
    dispatch = begun.step(NODE).dispatch
    assert dispatch is not None
    assert dispatch.at_us == later.wall_us
    assert dispatch.settle.at_us == later.steady_us + SETTLE_WAIT_US
    assert dispatch.settle.epoch == "another boot"
    assert await store.due(10) == []
    clock.instant = Instant(NOON.wall_us + 100, later.steady_us, later.epoch)
    assert [due.run_id for due in await store.due(10)] == [run.run_id]


async def test_a_commit_is_held_until_the_test_lets_it_go(store: MemoryStore) -> None:
    run, reached, go = await submitted(store), asyncio.Event(), asyncio.Event()
    faster = MemoryStore(store.database, SCOPE)

    async def hold(write: RunWrite | NewRun) -> None:
        reached.set()
        await go.wait()

    store.before_commit = hold
    writing = asyncio.ensure_future(store.write(write_of(run)))
    await reached.wait()
    assert isinstance(await faster.write(write_of(run)), Won)
    go.set()
    assert await writing == Refused("lost")


async def test_an_answer_is_lost_and_found_by_its_nonce(store: MemoryStore) -> None:
    run = await submitted(store)

    async def lose(write: RunWrite | NewRun) -> None:
        raise MayuraError(Code.STORAGE_UNAVAILABLE, "the answer was lost")

    store.after_commit = lose
    write = dispatch_of(run)
    with pytest.raises(MayuraError):
        await store.write(write)
    assert (await loaded(store, run.run_id)).version == 2
    store.after_commit = no_hook
    assert isinstance(await store.write(write), Won)
    assert len(await store.journal(run.run_id)) == 2


async def test_a_process_that_stops_before_its_commit_leaves_nothing(store: MemoryStore) -> None:
    run = await submitted(store)

    async def stop(write: RunWrite | NewRun) -> None:
        raise asyncio.CancelledError

    store.before_commit = stop
    with pytest.raises(asyncio.CancelledError):
        await store.write(dispatch_of(run))
    assert await loaded(store, run.run_id) == run


async def test_a_secret_gives_the_same_keys_again() -> None:
    one, other = (MemoryDatabase(secret=bytes(32)).once_key(SCOPE) for _ in range(2))
    assert one == other != MemoryDatabase().once_key(SCOPE)
