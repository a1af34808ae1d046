"""A disk that errs: connections to a file whose statements fail as they are told to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

ERRORS = {
    "SQLITE_IOERR_FSYNC": (sqlite3.OperationalError, 1034),
    "SQLITE_IOERR_READ": (sqlite3.OperationalError, 266),
    "SQLITE_FULL": (sqlite3.OperationalError, 13),
    "SQLITE_BUSY": (sqlite3.OperationalError, 5),
}


def error_of(name: str) -> sqlite3.Error:
    """The error as the driver raises it."""
    kind, code = ERRORS[name]
    error = kind(name)
    error.sqlite_errorname = name
    error.sqlite_errorcode = code
    return error


@dataclass
class Disk:
    """What happens to the next statements that begin with a word; None: nothing."""

    before: dict[str, list[sqlite3.Error | None]] = field(default_factory=dict)  #: instead of it
    after: dict[str, list[sqlite3.Error | None]] = field(default_factory=dict)  #: when it is done
    handled: list[str] = field(default_factory=list)  #: "open" and "close", as they came

    def execute(self, sql: str, carry_out: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
        word = sql.split(maxsplit=1)[0].rstrip(";").lower()
        _raise_next(self.before.get(word))
        cursor = carry_out()
        _raise_next(self.after.get(word))
        return cursor


def _raise_next(errors: list[sqlite3.Error | None] | None) -> None:
    error = errors.pop(0) if errors else None
    if error is not None:
        raise error


class FaultyConnection(sqlite3.Connection):
    """Asks the disk about every single statement."""

    disk: Disk

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
        carry_out = partial(super().execute, sql, parameters)  # type: ignore[arg-type]
        return self.disk.execute(sql, carry_out)

    def close(self) -> None:
        self.disk.handled.append("close")
        super().close()


def faulty_disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """From now on every connection is to this disk."""
    disk, connect = Disk(), sqlite3.connect

    def connect_to_disk(
        path: Path,
        *,
        isolation_level: None = None,
        check_same_thread: bool = True,
        cached_statements: int = 128,
    ) -> FaultyConnection:
        connection = connect(
            path,
            isolation_level=isolation_level,
            check_same_thread=check_same_thread,
            factory=FaultyConnection,
            cached_statements=cached_statements,
        )
        assert isinstance(connection, FaultyConnection)
        connection.disk = disk
        disk.handled.append("open")
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_to_disk)
    return disk
