"""Behind PgBouncer in transaction mode nothing is kept in a session, and everything still holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from hashlib import sha256

import pytest

from mayura.runtime.ids import NodeId
from mayura.runtime.ports import CallRef, OnceClaim, Refused, Won
from mayura.storage.postgres import PostgresStore
from tests import system_tools
from tests.postgres_server import PostgresServer
from tests.storage.pooler import Pooler
from tests.storage.runs import (
    DEFINITION,
    NODE,
    POLICY,
    dispatch_of,
    loaded,
    submitted,
    succeeded,
    won,
    write_of,
)
from tests.storage.sessions import carry_out, opened

pytestmark = pytest.mark.needs("pgbouncer")


@pytest.fixture(scope="module")
def pooler(postgres_server: PostgresServer) -> Iterator[Pooler]:
    with Pooler(system_tools.require("pgbouncer"), postgres_server) as pooler:
        yield pooler


@pytest.fixture
async def stores(pooler: Pooler, postgres_url: str) -> AsyncIterator[list[PostgresStore]]:
    """Three processes' stores, which share two sessions."""
    async with AsyncExitStack() as stack:
        url = pooler.url(postgres_url)
        yield [await stack.enter_async_context(opened(url)) for _ in range(3)]


async def end_sessions(url: str) -> None:
    """End the pooler's sessions with the database."""
    await carry_out(
        url,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()",
    )


async def test_runs_go_their_way(stores: list[PostgresStore]) -> None:
    runs = await asyncio.gather(*(submitted(stores[0], f"o-{number}") for number in range(12)))
    for store in stores:
        node = NodeId(f"step-{stores.index(store)}")
        answers = await asyncio.gather(*(store.write(dispatch_of(run, node)) for run in runs))
        assert all(isinstance(answer, Won) for answer in answers)
        begun = await asyncio.gather(*(loaded(store, run.run_id) for run in runs))
        checks = await asyncio.gather(
            *(store.last_checks([CallRef(run.run_id, node)]) for run in begun)
        )
        for run, (check,) in zip(begun, checks, strict=True):
            dispatch = run.step(node).dispatch
            assert dispatch is not None
            assert check is not None
            assert check.nonce == dispatch.nonce
        runs = await asyncio.gather(
            *(won(store, write_of(run, {node: succeeded(run.step(node))})) for run in begun)
        )


async def test_no_statement_is_answered_by_another(stores: list[PostgresStore]) -> None:
    """Two statements with the same parameters, on sessions that change hands in between."""
    for _ in range(20):
        answers = await asyncio.gather(
            *(
                ask
                for store in stores
                for ask in (
                    store.definition(DEFINITION),
                    store.policy(POLICY),
                    store.definition(POLICY),
                    store.policy(DEFINITION),
                )
            )
        )
        assert answers == [b'{"nodes":[]}', b'{"version":"1"}', None, None] * len(stores)


async def test_of_many_writes_of_a_version_one_wins(stores: list[PostgresStore]) -> None:
    run = await submitted(stores[0])
    answers = await asyncio.gather(*(store.write(write_of(run)) for store in stores * 3))
    assert sum(isinstance(answer, Won) for answer in answers) == 1
    assert answers.count(Refused("lost")) == len(answers) - 1


async def test_of_many_calls_for_a_subject_one_wins(stores: list[PostgresStore]) -> None:
    """G16."""
    claim = OnceClaim(sha256(b"order").digest(), NODE)
    runs = [await submitted(stores[0], f"o-{number}") for number in range(9)]
    answers = await asyncio.gather(
        *(stores[number % 3].write(dispatch_of(run, once=claim)) for number, run in enumerate(runs))
    )
    assert sum(isinstance(answer, Won) for answer in answers) == 1
    assert answers.count(Refused("once")) == len(runs) - 1


async def test_a_role_that_commits_without_the_disk_may_not_dispatch(
    stores: list[PostgresStore], postgres_url: str
) -> None:
    """G2: read back by the statement, since the session is one that somebody else began."""
    run = await submitted(stores[0])
    name = postgres_url.rpartition("/")[2]
    await carry_out(postgres_url, f"alter database {name} set synchronous_commit = off")
    await end_sessions(postgres_url)
    answer = await stores[0].write(dispatch_of(run))
    assert isinstance(answer, Refused)
    assert answer.reason == "not_durable"


async def test_sessions_that_the_server_ended_are_replaced(
    stores: list[PostgresStore], postgres_url: str
) -> None:
    """Case D12."""
    runs = [await submitted(stores[0], f"o-{number}") for number in range(6)]
    await end_sessions(postgres_url)
    answers = await asyncio.gather(*(stores[0].write(dispatch_of(run)) for run in runs))
    assert all(isinstance(answer, Won) for answer in answers)
    for run in runs:
        assert len(await stores[1].journal(run.run_id)) == 2
