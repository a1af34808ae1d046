"""Brings a PostgreSQL store to the schema of this release, and opens a scope of it.

Migrations run in one transaction under a lock that is taken before the marks are read: of ten
processes at once one migrates and nine find it done, and an interruption between any two
statements leaves the old version complete (cases K2, K4).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial

import asyncpg

from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import Scope
from mayura.storage.limits import ONCE_KEY_BYTES
from mayura.storage.migrate import (
    Migration,
    SchemaMarks,
    missing,
    require_current,
    require_environment,
)
from mayura.storage.postgres_errors import misconfigured, not_opened
from mayura.storage.postgres_limits import LEAVE_S_MAX, PAUSE_S_MAX, PAUSE_S_MIN, Limits
from mayura.storage.postgres_reads import ask
from mayura.storage.postgres_sessions import SQL, Sessions
from mayura.storage.postgres_url import Target


async def bring_up(target: Target, limits: Limits, migrations: Sequence[Migration]) -> int:
    """Carry out the missing migrations; answers the schema version that is there now.

    A migration takes as long as it takes; only reaching the database has a limit.
    """
    connection = await _connect(target, limits)
    try:
        async with connection.transaction():
            await connection.execute(SQL["lock_schema"])
            marks = await _read_marks(connection)
            for migration in missing(migrations, marks):
                for statement in migration.statements:
                    await connection.execute(statement.sql)
                name = "insert_store" if marks.version == 0 else "update_marks"
                marks = SchemaMarks(migration.number, migration.writable_by)
                await connection.execute(SQL[name], marks.version, marks.writable_by)
        return marks.version
    except MayuraError:
        raise
    except Exception as error:  # noqa: BLE001 - the driver has errors of many families
        raise not_opened(error) from None
    finally:
        await _leave(connection)


async def enter_scope(
    sessions: Sessions,
    limits: Limits,
    migrations: Sequence[Migration],
    scope: Scope,
    environment: str,
) -> tuple[int, bytes]:
    """The scope's number and secret, made if it is new, in a store of this environment."""
    first = partial(ask, sessions, limits, opening=True)
    ((exists,),) = await first("store_exists")
    marks = SchemaMarks()
    if exists:
        marks = SchemaMarks(*(await first("read_marks"))[0])
    require_current(migrations, marks)
    ((found,),) = await first("read_environment")
    if found is None:
        await first("claim_environment_if_unclaimed", environment)
        ((found,),) = await first("read_environment")
    require_environment(found, environment)
    named = (scope.principal, scope.project)
    rows = await first("read_scope", *named)
    if not rows:
        secret = secrets.token_bytes(ONCE_KEY_BYTES)
        await first("insert_scope_if_new", *named, secret)
        rows = await first("read_scope", *named)
    scope_id, once_key = rows[0]
    return scope_id, once_key


async def _read_marks(connection: asyncpg.Connection) -> SchemaMarks:
    if not await connection.fetchval(SQL["store_exists"]):
        return SchemaMarks()
    try:
        row = await connection.fetchrow(SQL["read_marks"])
    except asyncpg.UndefinedColumnError:
        row = None
    if row is None:
        raise MayuraError(
            Code.INVALID_CONFIG,
            "This database has a table `store` that is not ours: correct the URL, or give the user"
            " a schema of its own.",
        )
    return SchemaMarks(*row)


async def _connect(target: Target, limits: Limits) -> asyncpg.Connection:
    """A connection without a limit on its statements; waits for a server that is not there yet."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + limits.method_s
    pause_s = PAUSE_S_MIN
    while True:
        try:
            return await asyncpg.connect(
                target.dsn, timeout=limits.connect_s, statement_cache_size=0
            )
        except Exception as error:  # noqa: BLE001 - the driver has errors of many families
            if misconfigured(error) or loop.time() + pause_s > deadline_s:
                raise not_opened(error) from None
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


async def _leave(connection: asyncpg.Connection) -> None:
    try:
        await connection.close(timeout=LEAVE_S_MAX)
    except Exception:  # noqa: BLE001 - the driver has errors of many families
        connection.terminate()
