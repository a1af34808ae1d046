"""A database that is away, slow to answer or quick to end sessions, and callers who leave."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import asyncpg
import pytest

from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import RunId
from mayura.runtime.ports import CallRef, Store, Won
from mayura.storage.postgres import PostgresStore, migrate, open_store
from mayura.storage.postgres_limits import LONE_WRITERS, READERS, WRITERS, Limits
from tests.postgres_server import PostgresServer
from tests.storage.fault_proxy import FaultProxy
from tests.storage.places import SCOPE
from tests.storage.runs import (
    DEFINITION,
    NODE,
    POLICY,
    dispatch_of,
    loaded,
    submission,
    submitted,
    won,
    write_of,
)
from tests.storage.sessions import opened, until, watching

SESSIONS = (
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and application_name = 'mayura'"
)
SESSIONS_MAX = WRITERS + LONE_WRITERS + READERS
IMPATIENT = Limits(method_s=3.0, connect_s=1.0, send_s=0.8, lock_wait_s=0.5, close_s=0.5)
CLOSED_WITHIN_S = 2.0

Question = Callable[[Store, RunId], Awaitable[object]]
QUESTIONS: dict[str, Question] = {
    "now": lambda store, _: store.now(),
    "put_definition": lambda store, _: store.put_definition(b"n" * 32, "w", "1", b"{}"),
    "definition": lambda store, _: store.definition(DEFINITION),
    "put_policy": lambda store, _: store.put_policy(b"n" * 32, b"{}"),
    "policy": lambda store, _: store.policy(POLICY),
    "create": lambda store, _: store.create(submission("another")),
    "load": lambda store, run_id: store.load(run_id),
    "payloads": lambda store, run_id: store.payloads(run_id, ["input"]),
    "write": lambda store, _: store.write(dispatch_of(submission("o-1").run)),
    "last_checks": lambda store, run_id: store.last_checks([CallRef(run_id, NODE)]),
    "journal": lambda store, run_id: store.journal(run_id),
    "command": lambda store, run_id: store.command(run_id, "c-1"),
    "once_holder": lambda store, _: store.once_holder(b"d" * 32),
    "due": lambda store, _: store.due(10),
    "cancelled": lambda store, run_id: store.cancelled([run_id]),
}


@pytest.fixture
async def proxy(postgres_server: PostgresServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: FaultProxy, postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store with little patience, whose connections go through the proxy."""
    async with opened(proxy.url(postgres_url), IMPATIENT) as store:
        yield store


async def use_every_session(store: Store) -> None:
    """Let the store open as many sessions as it ever has for reading, and one for writing."""
    run = await submitted(store, "warm")
    await asyncio.gather(*(store.load(run.run_id) for _ in range(2 * READERS)))
    await won(store, write_of(run))


async def sessions_of(watcher: asyncpg.Connection) -> int:
    count: int = await watcher.fetchval(SESSIONS)
    return count


async def end_sessions(watcher: asyncpg.Connection) -> int:
    """End the store's sessions as a cloud's idle timeout does; answers how many."""
    ended: int = await watcher.fetchval(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and application_name = 'mayura'"
    )
    return ended


@pytest.mark.parametrize("name", ["create", "load", "write"])
async def test_a_user_who_is_locked_out_for_a_while_is_an_outage(
    postgres_url: str, name: str
) -> None:
    """What was sent before may be committed: nothing else may be said (G4)."""
    ask = QUESTIONS[name]
    async with watching(postgres_url) as watcher:
        await watcher.execute("drop role if exists guest; create role guest superuser login")
        async with opened(postgres_url.replace("postgres@", "guest@"), IMPATIENT) as store:
            run = await submitted(store)
            await watcher.execute("alter role guest nologin")
            await end_sessions(watcher)
            with pytest.raises(MayuraError) as given_up:
                await ask(store, run.run_id)
            assert given_up.value.code is Code.STORAGE_UNAVAILABLE
            await watcher.execute("alter role guest login")
            await ask(store, run.run_id)
        await watcher.execute("drop role guest")


async def test_connections_that_lead_nowhere_hold_nobody_longer_than_the_limit(
    proxy: FaultProxy, store: PostgresStore
) -> None:
    """Case D8."""
    run = await submitted(store)
    await use_every_session(store)
    proxy.cut_all("black_hole")
    proxy.hold_back()
    began_s = time.monotonic()
    answers = await asyncio.gather(
        *(ask(store, run.run_id) for ask in QUESTIONS.values()), return_exceptions=True
    )
    assert time.monotonic() - began_s < IMPATIENT.method_s + 2.0
    codes = {
        name: getattr(answer, "code", None) for name, answer in zip(QUESTIONS, answers, strict=True)
    }
    assert codes == dict.fromkeys(QUESTIONS, Code.STORAGE_UNAVAILABLE)
    proxy.admit()
    for ask in QUESTIONS.values():
        await ask(store, run.run_id)


async def test_sessions_that_the_server_ended_while_idle_are_replaced(postgres_url: str) -> None:
    """Case D12."""
    async with opened(postgres_url) as store, watching(postgres_url) as watcher:
        await use_every_session(store)
        for wave in range(3):
            runs = [await submitted(store, f"o-{wave}-{number}") for number in range(8)]
            assert await end_sessions(watcher) > 0
            answers = await asyncio.gather(*(store.write(dispatch_of(run)) for run in runs))
            assert all(isinstance(answer, Won) for answer in answers)
            assert await end_sessions(watcher) > 0
            await asyncio.gather(*(loaded(store, run.run_id) for run in runs))
            for run in runs:
                assert len(await store.journal(run.run_id)) == 2


@pytest.mark.parametrize("seed", range(3))
async def test_callers_that_leave_at_any_moment_leak_nothing(postgres_url: str, seed: int) -> None:
    """Case D6. Repeat one with `-k 'leave_at_any_moment and <seed>'`."""
    choice = random.Random(seed)
    asked = ("now", "load", "journal", "payloads", "last_checks", "due", "create", "write")
    async with opened(postgres_url) as store, watching(postgres_url) as watcher:
        run = await submitted(store)
        for _ in range(40):
            tasks = [
                asyncio.ensure_future(QUESTIONS[choice.choice(asked)](store, run.run_id))
                for _ in range(25)
            ]
            for _ in range(choice.randrange(8)):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(store.load(run.run_id) for _ in range(2 * READERS)))
        assert await sessions_of(watcher) <= SESSIONS_MAX
        began_s = time.monotonic()
        await store.close()
        assert time.monotonic() - began_s < CLOSED_WITHIN_S
        await until(watcher, f"select ({SESSIONS}) = 0")


async def test_there_are_never_more_sessions_than_said(postgres_url: str) -> None:
    async with opened(postgres_url) as store, watching(postgres_url) as watcher:
        runs = [await submitted(store, f"o-{number}") for number in range(40)]
        asking = asyncio.gather(
            *(ask(store, run.run_id) for run in runs for ask in QUESTIONS.values())
        )
        while not asking.done():
            assert await sessions_of(watcher) <= SESSIONS_MAX
        await asking


async def test_a_store_outlives_an_outage_of_its_database(
    crashing_postgres: PostgresServer,
) -> None:
    """Case D4: whoever asks again is answered, without opening anything again."""
    limits = replace(IMPATIENT, method_s=1.0)
    async with opened(crashing_postgres.create_database("outage"), limits) as store:
        run = await submitted(store)
        for how in ("fast", "immediate", "kill"):
            await asyncio.to_thread(crashing_postgres.stop, how)
            write = write_of(run)
            answers = await asyncio.gather(
                store.write(write), store.load(run.run_id), store.due(1), return_exceptions=True
            )
            codes = [getattr(answer, "code", None) for answer in answers]
            assert codes == [Code.STORAGE_UNAVAILABLE] * 3
            await asyncio.to_thread(crashing_postgres.start)
            assert isinstance(await store.write(write), Won)
            run = await loaded(store, run.run_id)


async def test_what_is_asked_just_before_a_restart_is_answered_after_it(
    crashing_postgres: PostgresServer,
) -> None:
    async with opened(crashing_postgres.create_database("restart")) as store:
        runs = [await submitted(store, f"o-{number}") for number in range(20)]
        await asyncio.to_thread(crashing_postgres.stop, "immediate")
        writing = [asyncio.create_task(store.write(dispatch_of(run))) for run in runs]
        reading = asyncio.create_task(store.load(runs[0].run_id))
        await asyncio.sleep(0)
        await asyncio.to_thread(crashing_postgres.start)
        assert all(isinstance(answer, Won) for answer in await asyncio.gather(*writing))
        assert await reading is not None


async def test_a_store_is_opened_as_soon_as_its_database_is_there(
    crashing_postgres: PostgresServer,
) -> None:
    """Case D4, at the start of a process."""
    url = crashing_postgres.create_database("late")
    await migrate(url)
    await asyncio.to_thread(crashing_postgres.stop)
    opening = asyncio.create_task(open_store(url, scope=SCOPE))
    await asyncio.sleep(0)
    await asyncio.to_thread(crashing_postgres.start)
    await (await opening).close()


async def test_a_database_that_stays_away_is_said_so_in_time(
    crashing_postgres: PostgresServer,
) -> None:
    await asyncio.to_thread(crashing_postgres.stop)
    with pytest.raises(MayuraError) as away:
        await open_store(crashing_postgres.url(), scope=SCOPE, limits=IMPATIENT)
    assert away.value.code is Code.STORAGE_UNAVAILABLE


async def test_close_ends_in_time_when_nobody_answers(proxy: FaultProxy, postgres_url: str) -> None:
    async with opened(proxy.url(postgres_url)) as store:
        await use_every_session(store)
        run = await submitted(store)
        proxy.cut_all("black_hole")
        proxy.hold_back()
        asked = [
            asyncio.create_task(store.write(dispatch_of(run))),
            asyncio.create_task(store.load(run.run_id)),
        ]
        await asyncio.sleep(0)
        began_s = time.monotonic()
        await store.close()
        assert time.monotonic() - began_s < CLOSED_WITHIN_S
        answers = await asyncio.gather(*asked, return_exceptions=True)
        codes = [getattr(answer, "code", None) for answer in answers]
        assert codes == [Code.STORAGE_UNAVAILABLE] * 2


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
async def test_a_closed_store_says_so_at_once(postgres_url: str, ask: Question) -> None:
    """Case D18."""
    async with opened(postgres_url) as store:
        await store.close()
        with pytest.raises(MayuraError) as closed:
            await ask(store, submission("o-1").run.run_id)
        assert closed.value.code is Code.STORAGE_UNAVAILABLE


async def test_twenty_at_once_set_an_empty_database_up_once(empty_postgres_url: str) -> None:
    """Cases D18 and K2."""
    async with AsyncExitStack() as stack:
        stores = await asyncio.gather(
            *(stack.enter_async_context(opened(empty_postgres_url)) for _ in range(20))
        )
        assert len({store.once_key for store in stores}) == 1
        watcher = await stack.enter_async_context(watching(empty_postgres_url))
        assert await watcher.fetchval("select count(*) from store") == 1
        assert await watcher.fetchval("select count(*) from scopes") == 1
