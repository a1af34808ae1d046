"""A store that would forget a dispatch in a crash gets none, and the tool is not entered (G2)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import asyncpg
import pytest

from mayura.runtime import Code, Engine, MayuraError
from mayura.runtime.core.state import StepStatus
from mayura.runtime.ports import Store
from mayura.storage import sqlite
from tests.chaos import roles
from tests.chaos.conftest import ready
from tests.chaos.faults import Faults
from tests.chaos.history import complaints, read_all
from tests.chaos.ledger import count
from tests.chaos.place import Place, run_of
from tests.chaos.shop import POLICY, WORKFLOWS, Order, here, paying

pytestmark = pytest.mark.may_block("the tools write the ledger on the loop")
STEP: Final = "step"

Forget: TypeAlias = Callable[[Place], Awaitable[Store]]


async def below_full(place: Place) -> Store:
    """SQLite, on a connection that somebody set to another `synchronous`."""
    store = await place.open()
    assert isinstance(store, sqlite.SqliteStore)

    def lower(raw: sqlite3.Connection) -> None:
        raw.execute("pragma synchronous = normal")

    await store._file.write(lower)
    return store


async def role_setting(place: Place) -> Store:
    """PostgreSQL, as a role that has synchronous_commit off."""
    await execute(place, "create role forgetful superuser login")
    await execute(place, "alter role forgetful set synchronous_commit = off")
    return await Place(place.url.replace("//postgres@", "//forgetful@"), place.folder).open()


async def database_setting(place: Place) -> Store:
    """PostgreSQL, in a database that has synchronous_commit off."""
    name = place.url.rpartition("/")[2]
    await execute(place, f'alter database "{name}" set synchronous_commit = off')
    return await place.open()


async def execute(place: Place, statement: str) -> None:
    connection = await asyncpg.connect(place.url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


WAYS: Final[dict[str, tuple[str, Forget, str]]] = {
    "sqlite below FULL": ("sqlite", below_full, "synchronous"),
    "a role's setting": ("postgres", role_setting, "synchronous_commit"),
    "a database's setting": ("postgres", database_setting, "synchronous_commit"),
}
"""For which store, how, and what the refusal names as what to set."""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def place(way: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    if WAYS[way][0] == "postgres":
        url = request.getfixturevalue("postgres_url")
    found = ready(Place(url, tmp_path))
    here.be(found, Faults())
    yield found
    if WAYS[way][0] == "postgres":
        asyncio.run(execute(found, "drop role if exists forgetful"))


async def test_nothing_is_dispatched_and_the_refusal_says_what_to_set(
    place: Place, way: str
) -> None:
    _, forget, setting = WAYS[way]
    store = await forget(place)
    async with Engine(store, workflows=WORKFLOWS, policy=POLICY) as engine:
        run = (await engine.submit(paying, Order(order_id="o-1"), key="o-1")).id
        with pytest.raises(MayuraError, match=setting) as refused:
            await engine.run_until_settled(run)
        assert refused.value.code is Code.INVALID_CONFIG
        assert (await engine.inspect(run)).steps[paying.definition.nodes[0].id].status == "pending"
        assert (await engine.run_once()).failed == ((run, Code.INVALID_CONFIG),)
    await store.close()
    assert place.ledger.entries() == []


async def test_a_sound_connection_then_goes_on(place: Place, way: str) -> None:
    _, forget, _ = WAYS[way]
    store = await forget(place)
    async with Engine(store, workflows=WORKFLOWS, policy=POLICY) as engine:
        run = (await engine.submit(paying, Order(order_id="o-1"), key="o-1")).id
        assert (await engine.run_once()).failed
    await store.close()
    if way == "a database's setting":
        name = place.url.rpartition("/")[2]
        await execute(place, f'alter database "{name}" reset synchronous_commit')
    async with roles.engine(place) as engine:
        seen = await engine.run_until_settled(run)
    assert {step.status for step in seen.steps.values()} == {StepStatus.SUCCEEDED}
    (found,) = (await read_all(place, {"": run_of("o-1")})).values()
    assert count(found.done, "effect").total() == 1
    assert complaints(found) == []
