"""How a PostgreSQL store gets its schema, and which stores are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import asyncpg
import pytest

from mayura.runtime import open_store as open_any_store
from mayura.runtime.errors import Code, MayuraError
from mayura.storage.migrate import migration_of, migrations_of, schema_of
from mayura.storage.postgres import migrate, open_store
from mayura.storage.postgres_limits import Limits
from mayura.storage.postgres_schema import bring_up
from mayura.storage.postgres_url import target_of
from tests.postgres_server import PostgresServer
from tests.storage.places import SCOPE
from tests.storage.sessions import carry_out, watching

MIGRATIONS = migrations_of("postgres")
SCHEMA = schema_of("postgres")


def shape_of(server: PostgresServer, url: str) -> str:
    """Everything that the database's schema says."""
    dumped = server.run("pg_dump", "--schema-only", "--no-owner", "--dbname", url)
    return re.sub(r"(?m)^(--.*|\\(un)?restrict .*)$", "", dumped)


async def test_the_migrations_add_up_to_the_schema(
    postgres_server: PostgresServer, empty_postgres_url: str, postgres_url: str
) -> None:
    for statement in SCHEMA:
        await carry_out(empty_postgres_url, statement.sql)
    assert "CREATE TABLE" in shape_of(postgres_server, empty_postgres_url)
    assert shape_of(postgres_server, postgres_url) == shape_of(postgres_server, empty_postgres_url)


async def test_migrating_again_changes_nothing(empty_postgres_url: str) -> None:
    newest = MIGRATIONS[-1].number
    assert [await migrate(empty_postgres_url) for _ in range(2)] == [newest, newest]


async def test_a_migration_that_fails_leaves_the_old_version_whole(postgres_url: str) -> None:
    broken = migration_of(
        "0002_break.sql",
        "-- writable by: 1\n"
        "-- name: extra\n-- A table.\ncreate table extra (id integer);\n"
        "-- name: broken\n-- No such table.\ninsert into nowhere values (1);\n",
    )
    target = target_of(postgres_url)
    with pytest.raises(MayuraError):
        await bring_up(target, Limits(), [*MIGRATIONS, broken])
    async with watching(postgres_url) as watcher:
        assert await watcher.fetchval("select schema_version from store") == MIGRATIONS[-1].number
        assert await watcher.fetchval("select to_regclass('extra')") is None


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ("update store set schema_version = 99, writable_by = 99", "upgrade"),
        ("update store set environment = 'production'", "environment"),
    ],
)
async def test_a_store_of_another_release_or_environment_is_refused(
    postgres_url: str, change: str, hint: str
) -> None:
    """G15."""
    await carry_out(postgres_url, change)
    with pytest.raises(MayuraError) as refused:
        await open_store(postgres_url, scope=SCOPE, environment="staging")
    assert refused.value.code is Code.INVALID_CONFIG
    assert hint in str(refused.value)


async def test_a_newer_store_that_we_may_still_write_is_opened(postgres_url: str) -> None:
    await carry_out(postgres_url, "update store set schema_version = 99")
    store = await open_store(postgres_url, scope=SCOPE)
    await store.close()


async def test_a_store_that_must_be_migrated_first_is_refused(empty_postgres_url: str) -> None:
    with pytest.raises(MayuraError) as refused:
        await open_store(empty_postgres_url, scope=SCOPE, migrate=False)
    assert refused.value.code is Code.INVALID_CONFIG
    assert "migrate=True" in str(refused.value)


async def test_somebody_elses_store_table_is_left_alone(empty_postgres_url: str) -> None:
    await carry_out(empty_postgres_url, "create table store (shelf text)")
    with pytest.raises(MayuraError) as refused:
        await open_store(empty_postgres_url, scope=SCOPE)
    assert refused.value.code is Code.INVALID_CONFIG


@pytest.mark.parametrize("part", ["user", "database"])
async def test_a_url_that_the_database_refuses_is_said_so_at_once(
    postgres_server: PostgresServer, part: str
) -> None:
    url = postgres_server.url("nowhere")
    if part == "user":
        url = postgres_server.url().replace("postgres@", "nobody:hunter2@")
    with pytest.raises(MayuraError) as refused:
        await open_store(url, scope=SCOPE)
    assert refused.value.code is Code.INVALID_CONFIG
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None


async def test_a_database_that_takes_no_writes_is_said_to_be_read_only(
    empty_postgres_url: str,
) -> None:
    name = empty_postgres_url.rpartition("/")[2]
    setting = f'alter database "{name}" set default_transaction_read_only = on'
    await carry_out(empty_postgres_url, setting)
    with pytest.raises(MayuraError) as refused:
        await open_store(empty_postgres_url, scope=SCOPE)
    assert refused.value.code is Code.STORAGE_UNAVAILABLE
    assert "it is read-only" in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgress://ada:hunter2@db/shop",
        "postgresql://ada:hunter2@db:x/shop",
        "postgresql://ada:hunter2@db",
        "postgresql://ada:hunt#er2@db/shop",
        "host=db password=hunter2",
        "host=db:5432 password=hunter2",
        "//ada:hunter2@db/shop",
        Path("hunter2.db"),
        None,
    ],
)
async def test_no_text_about_a_wrong_url_holds_its_password(url: object) -> None:
    with pytest.raises(MayuraError) as refused:
        await open_any_store(cast(str, url))
    assert refused.value.code is Code.INVALID_CONFIG
    assert "hunt" not in str(refused.value)
    if str(url).startswith("postgress:"):
        assert "did you mean 'postgres" in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        "update definitions set version = '2'",
        "delete from definitions",
        "update policies set manifest = '\\x00'",
        "delete from policies",
        "update scopes set once_key = sha256('x')",
        "delete from scopes",
    ],
)
async def test_what_runs_point_at_stays_as_it_is(postgres_url: str, change: str) -> None:
    store = await open_store(postgres_url, scope=SCOPE)
    await store.put_definition(b"d" * 32, "orders.checkout", "1", b"{}")
    await store.put_policy(b"p" * 32, b"{}")
    await store.close()
    with pytest.raises(asyncpg.RestrictViolationError):
        await carry_out(postgres_url, change)
