"""What an error of SQLite means for the write that met it.

Full, busy at BEGIN and a broken constraint are certain noes. An I/O error is not: a commit whose
sync failed looks rolled back and may be there after a crash.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Final, Literal, TypeAlias

from mayura.runtime.errors import Code, MayuraError

Meaning: TypeAlias = Literal["busy", "full", "constraint", "damaged"]

OFFENCES: Final = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    OverflowError,
    UnicodeError,
)
"""What one write of a batch is to blame for: a broken constraint, a value no column can hold."""

_PRIMARY: Final = 0xFF
_MEANINGS: Final[dict[int, Meaning]] = {
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_CONSTRAINT: "constraint",
}


def meaning_of(error: sqlite3.Error) -> Meaning:
    """`damaged`: whatever it was, the connection is not trusted until it was opened again."""
    code = getattr(error, "sqlite_errorcode", None)
    return "damaged" if code is None else _MEANINGS.get(code & _PRIMARY, "damaged")


def unavailable(error: sqlite3.Error) -> MayuraError:
    """STORAGE_UNAVAILABLE, with what to do about it."""
    remedies = {
        "busy": "another process holds its lock: if it does not end, look who has the file open",
        "full": "the disk is full; nothing of this was stored: free some space and go on",
        "damaged": "see that the disk is well and the file still there; it is opened again",
    }
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return MayuraError(
        Code.STORAGE_UNAVAILABLE,
        f"The store did not confirm ({name}): {remedies.get(meaning_of(error), name)}.",
    )


def violation(run_id: str, error: Exception) -> MayuraError:
    """INTEGRITY_VIOLATION, naming the constraint where it has a name."""
    named = re.search(r": ([a-z_]+|[a-z_.]+(, [a-z_.]+)*)$", str(error))
    return MayuraError(
        Code.INTEGRITY_VIOLATION,
        f"Run {run_id}: the store refused a write that contradicts what it holds "
        f"({named[1] if named else getattr(error, 'sqlite_errorname', type(error).__name__)}).",
    )
