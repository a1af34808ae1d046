"""What PostgreSQL adds to the promises of a store: locks, time, durability."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from hashlib import sha256

import asyncpg
import pytest

from mayura.runtime.core.state import Acted, Receipt, Run, Step, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ports import Holder, OnceClaim, Refused, Won
from mayura.storage.postgres import PostgresStore
from mayura.storage.postgres_limits import Limits
from tests.postgres_server import PostgresServer
from tests.storage.runs import (
    NODE,
    SETTLE_WAIT_US,
    dispatch_of,
    loaded,
    submitted,
    succeeded,
    won,
    write_of,
)
from tests.storage.sessions import (
    carry_out,
    locked,
    opened,
    until,
    until_waiting,
    watching,
)

QUICK_LOCKS = Limits(lock_wait_s=0.2)


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(postgres_url) as store:
        yield store


@pytest.fixture
async def watcher(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session that looks at the others."""
    async with watching(postgres_url) as connection:
        yield connection


async def test_a_batch_passes_a_locked_run_by(
    store: PostgresStore, watcher: asyncpg.Connection, postgres_url: str
) -> None:
    runs = [await submitted(store, f"o-{number}") for number in range(5)]
    async with locked(postgres_url, runs[2].run_id):
        writing = [asyncio.create_task(store.write(dispatch_of(run))) for run in runs]
        await until_waiting(watcher, "Lock")
        others = [task for number, task in enumerate(writing) if number != 2]
        answers = await asyncio.gather(*others)
        assert all(isinstance(answer, Won) for answer in answers)
        assert len(set(answers)) == 1, "one commit"
        assert not writing[2].done()
    assert isinstance(await writing[2], Won)
    assert store.statistics().batches == 1


async def test_a_dispatch_that_waited_for_a_lock_counts_from_after_the_wait(
    store: PostgresStore, watcher: asyncpg.Connection, postgres_url: str
) -> None:
    """G9: its settle deadline must leave the tool its whole timeout."""
    run = await submitted(store)
    async with locked(postgres_url, run.run_id) as holder:
        writing = asyncio.create_task(store.write(dispatch_of(run)))
        await until_waiting(watcher, "Lock")
        released_us = await holder.fetchval(
            "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
        )
    answer = await writing
    assert isinstance(answer, Won)
    assert answer.at.wall_us >= released_us
    dispatch = (await loaded(store, run.run_id)).step(NODE).dispatch
    assert dispatch is not None
    assert dispatch.settle.at_us == answer.at.wall_us + SETTLE_WAIT_US


async def test_a_claim_that_is_renewed_under_a_waiting_write_is_kept(
    store: PostgresStore, watcher: asyncpg.Connection, postgres_url: str
) -> None:
    run = await submitted(store)
    async with locked(postgres_url, run.run_id) as holder:
        writing = asyncio.create_task(store.write(dispatch_of(run)))
        await until_waiting(watcher, "Lock")
        await holder.execute("update runs set claim_holder = 'me', claim_until_us = 7")
    assert isinstance(await writing, Won)
    row = await watcher.fetchrow("select version, claim_holder, claim_until_us from runs")
    assert row is not None
    assert tuple(row) == (2, "me", 7)


async def test_a_dispatch_that_waited_through_a_takeover_is_fenced(
    store: PostgresStore, watcher: asyncpg.Connection, postgres_url: str
) -> None:
    """G8."""
    run = await submitted(store)
    async with locked(postgres_url, run.run_id) as holder:
        writing = asyncio.create_task(store.write(dispatch_of(run)))
        await until_waiting(watcher, "Lock")
        await holder.execute("update runs set claim_fence = claim_fence + 1")
    assert await writing == Refused("fenced")


async def test_a_write_that_waited_through_another_write_is_lost(
    store: PostgresStore, watcher: asyncpg.Connection, postgres_url: str
) -> None:
    run = await submitted(store)
    async with locked(postgres_url, run.run_id) as holder:
        writing = asyncio.create_task(store.write(dispatch_of(run)))
        await until_waiting(watcher, "Lock")
        await holder.execute("update runs set version = version + 1")
    assert await writing == Refused("lost")
    assert (await loaded(store, run.run_id)).steps == {}


async def test_a_lock_that_is_held_too_long_is_waited_for_again(
    postgres_url: str, store: PostgresStore, watcher: asyncpg.Connection
) -> None:
    run = await submitted(store)
    async with opened(postgres_url, QUICK_LOCKS) as quick:
        async with locked(postgres_url, run.run_id):
            writing = asyncio.create_task(quick.write(dispatch_of(run)))
            await until_waiting(watcher, "Lock")
            await until(
                watcher,
                "select xact_rollback from pg_stat_database where datname = current_database()",
            )
            await until_waiting(watcher, "Lock")
        assert isinstance(await writing, Won)


async def test_a_write_that_an_operator_interrupts_is_sent_again(
    store: PostgresStore, watcher: asyncpg.Connection, postgres_url: str
) -> None:
    run = await submitted(store)
    async with locked(postgres_url, run.run_id):
        writing = asyncio.create_task(store.write(dispatch_of(run)))
        pid = await until_waiting(watcher, "Lock")
        await watcher.execute(f"select pg_cancel_backend({pid})")
        await asyncio.sleep(0)
    assert isinstance(await writing, Won)
    assert len(await store.journal(run.run_id)) == 2


async def test_a_run_that_stays_locked_is_given_up_in_time(
    postgres_url: str, store: PostgresStore
) -> None:
    run = await submitted(store)
    write = dispatch_of(run)
    async with opened(postgres_url, replace(QUICK_LOCKS, method_s=1.0)) as quick:
        async with locked(postgres_url, run.run_id):
            with pytest.raises(MayuraError) as given_up:
                await quick.write(write)
        assert given_up.value.code is Code.STORAGE_UNAVAILABLE
        assert isinstance(await quick.write(write), Won)


async def test_a_role_that_commits_without_the_disk_may_not_dispatch(
    postgres_url: str, store: PostgresStore
) -> None:
    """G2: roles, databases and poolers override settings; the statement reads them back."""
    run = await submitted(store)
    name = postgres_url.rpartition("/")[2]
    await carry_out(
        postgres_url, f"alter role postgres in database {name} set synchronous_commit = off"
    )
    async with opened(postgres_url) as careless:
        answer = await careless.write(dispatch_of(run))
        assert isinstance(answer, Refused)
        assert answer.reason == "not_durable"
        assert "synchronous_commit" in answer.remedy
        assert await loaded(store, run.run_id) == run


async def test_a_subject_raced_for_by_six_stores_has_one_holder(postgres_url: str) -> None:
    """G16."""
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(postgres_url)) for _ in range(6)]
        for round_ in range(10):
            claim = OnceClaim(sha256(bytes([round_])).digest(), NODE)
            runs = [await submitted(stores[0], f"o-{round_}-{number}") for number in range(12)]
            answers = await asyncio.gather(
                *(
                    stores[number % 6].write(dispatch_of(run, once=claim))
                    for number, run in enumerate(runs)
                )
            )
            assert sum(isinstance(answer, Won) for answer in answers) == 1
            assert answers.count(Refused("once")) == len(runs) - 1


def refused(run: Run) -> Step:
    """The step of a run whose tool decided not to act."""
    return replace(
        run.step(NODE), status=StepStatus.FAILED, receipt=Receipt.NOT_STARTED, acted=Acted.NO
    )


async def test_batches_that_take_and_release_each_others_subjects_do_not_deadlock(
    postgres_url: str, store: PostgresStore, watcher: asyncpg.Connection
) -> None:
    subjects = [sha256(bytes([number])).digest() for number in range(6)]
    async with opened(postgres_url) as other:
        stores = (store, other)
        for round_ in range(6):
            writes = []
            for number, subject in enumerate(subjects):
                holder = await submitted(store, f"h-{round_}-{number}")
                claim = OnceClaim(subject, NODE)
                holder = await won(store, dispatch_of(holder, once=claim))
                release = write_of(holder, {NODE: refused(holder)}, once_released=(subject,))
                taker = await submitted(store, f"t-{round_}-{number}")
                wanted = OnceClaim(subjects[(number + 3) % 6], NODE)
                writes += [(number, release), (number, dispatch_of(taker, once=wanted))]
            answers = await asyncio.gather(
                *(stores[number % 2].write(write) for number, write in writes)
            )
            assert all(isinstance(answer, Won) for answer in answers[::2])
            for (number, taking), answer in zip(writes[1::2], answers[1::2], strict=True):
                subject = subjects[(number + 3) % 6]
                standing = await store.once_holder(subject)
                if isinstance(answer, Won):
                    assert standing == Holder(taking.before.run_id, NODE)
                    run = await loaded(store, taking.before.run_id)
                    await won(store, write_of(run, {NODE: refused(run)}, once_released=(subject,)))
                else:
                    assert standing is None
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
    assert await watcher.fetchval(deadlocks) == 0


async def test_a_cancelled_wait_for_the_standby_is_made_good_before_the_write_wins(
    crashing_postgres: PostgresServer,
) -> None:
    """G2, G15: the reply came with a warning and is not believed until a later commit waited."""
    url = crashing_postgres.create_database("standby")
    async with opened(url) as store, watching(url) as watcher:
        run = await submitted(store)
        await watcher.execute("alter system set synchronous_standby_names = 'nobody'")
        await watcher.execute("select pg_reload_conf()")
        await until(watcher, "select current_setting('synchronous_standby_names') = 'nobody'")
        writing = asyncio.create_task(store.write(dispatch_of(run)))
        pid = await until_waiting(watcher, "SyncRep")
        await watcher.execute(f"select pg_cancel_backend({pid})")
        await until(
            watcher,
            "select pid from pg_stat_activity"
            " where wait_event = 'SyncRep' and query like '%logical_emit_message%'",
        )
        assert len(await store.journal(run.run_id)) == 2, "it stands here"
        assert not writing.done()
        await watcher.execute("alter system reset synchronous_standby_names")
        await watcher.execute("select pg_reload_conf()")
        assert isinstance(await writing, Won)


async def test_large_values_are_kept_byte_for_byte(store: PostgresStore) -> None:
    run = await submitted(store)
    body = bytes(range(256)) * 16_384
    run = await won(store, dispatch_of(run))
    step = succeeded(run.step(NODE))
    await won(store, write_of(run, {NODE: step}, payloads=(("output:charge", body),)))
    assert await store.payloads(run.run_id, ["output:charge"]) == {"output:charge": body}


async def test_a_transition_leaves_the_indexes_of_its_run_alone(
    store: PostgresStore, watcher: asyncpg.Connection
) -> None:
    run = await won(store, dispatch_of(await submitted(store)))
    for _ in range(4):
        run = await won(store, write_of(run, {NODE: run.step(NODE)}))
    await store.close()
    counted = "select n_tup_upd from pg_stat_user_tables where relname = $1 and n_tup_upd >= $2"
    assert await until(watcher, counted, "runs", 5) == 5
    in_place = "select n_tup_hot_upd from pg_stat_user_tables where relname = $1"
    assert await watcher.fetchval(in_place, "runs") == 5
    assert await watcher.fetchval(in_place, "steps") == 4
