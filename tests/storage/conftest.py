"""One suite, every store: `place` is each of the three in turn, `store` an open store there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mayura.runtime.ports import Store
from tests.storage.places import MemoryPlace, Place, PostgresPlace, SqlitePlace
from tests.storage.runs import prepare


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        return MemoryPlace()
    if request.param == "sqlite":
        return SqlitePlace(tmp_path / "runs.db")
    return PostgresPlace(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    """An open store with the definition and the policy of `tests.storage.runs`."""
    opened = await place.open()
    await prepare(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def other(place: Place, store: Store) -> AsyncIterator[Store]:
    """The same place as another process sees it."""
    opened = await place.open()
    yield opened
    await opened.close()
