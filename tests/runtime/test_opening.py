"""A store is opened by awaiting it, or by entering it, which closes it as well."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mayura.runtime import Code, open_store
from mayura.runtime.ports import Store
from tests.runtime.world import refused


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


async def is_closed(store: Store) -> bool:
    with refused(Code.STORAGE_UNAVAILABLE):
        await store.definition(bytes(32))
    return True


async def test_a_store_that_was_entered_is_closed_at_the_end(url: str) -> None:
    async with open_store(url) as store:
        assert await store.definition(bytes(32)) is None
    assert await is_closed(store)


async def test_it_is_closed_where_its_user_fails_or_is_cancelled(url: str) -> None:
    opened: list[Store] = []
    inside = asyncio.Event()

    async def use() -> None:
        async with open_store(url) as store:
            opened.append(store)
            inside.set()
            await asyncio.Event().wait()

    async def fail() -> None:
        async with open_store(url) as store:
            opened.append(store)
            raise ZeroDivisionError

    using = asyncio.create_task(use())
    await inside.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert await is_closed(opened[0])
    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await is_closed(opened[1])


async def test_a_store_may_be_opened_beside_others_and_closed_by_hand(url: str) -> None:
    for store in await asyncio.gather(open_store(url), open_store(url)):
        await store.close()
        assert await is_closed(store)
    store = await open_store(url)
    await store.close()
    assert await is_closed(store)


async def test_what_is_wrong_with_a_url_is_said_when_it_is_entered() -> None:
    with refused(Code.INVALID_CONFIG):
        async with open_store("sqlte:///shop.db"):
            pass
