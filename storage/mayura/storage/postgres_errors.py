"""What an error of PostgreSQL or its driver means for the statement that met it.

The driver does not say whether a write was committed: it raises the same error whether the
connection was cut before the commit arrived or only its answer was lost, and under a crashing
server errors of no family at all. So the table below lists the certain noes, and whatever is not
in it leaves the write unsure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from mayura.runtime.errors import Code, MayuraError

Meaning: TypeAlias = Literal["again", "offence", "unsure"]
"""`again`: certainly not committed, by no fault of the write; the same may win the next time.
`offence`: certainly not committed, and never will be: a value no column can hold, or a constraint.
`unsure`: committed or not; only the journal can tell."""

SQLSTATES: Final[Mapping[str, Meaning]] = {
    "40001": "again",  # serialization_failure
    "40P01": "again",  # deadlock_detected
    "55P03": "again",  # lock_not_available: lock_timeout
    "57014": "again",  # query_canceled, during the statement; a commit is not interrupted so
}
SQLSTATE_CLASSES: Final[Mapping[str, Meaning]] = {
    "22": "offence",  # data exception; the driver's own complaints about a value are of it too
    "23": "offence",  # integrity constraint violation
    "54": "offence",  # program limit exceeded: a name too long for an index
}

_REMEDIES: Final[Mapping[str, str]] = {
    "25006": "it is read-only, a standby or told to be: name the one that takes writes in the URL, "
    "or all of them with target_session_attrs=read-write",
    "28": "it refuses this user: correct the user or the password in the URL",
    "3D": "it has no database of this name: create it, or correct the URL",
    "42501": "this user lacks a right: grant it all rights on the store's tables",
    "53": "it is out of connections, memory or disk: free some",
    "57P03": "it is starting or stopping: wait",
}
_MISCONFIGURED: Final = frozenset({"28", "3D"})


def sqlstate_of(error: BaseException) -> str:
    """The five characters that the server gave the error; empty where it gave none."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else ""


def meaning_of(error: BaseException) -> Meaning:
    """What is known of a write whose statement raised this."""
    state = sqlstate_of(error)
    return SQLSTATES.get(state) or SQLSTATE_CLASSES.get(state[:2], "unsure")


def misconfigured(error: BaseException) -> bool:
    """Whether nothing but another URL can help."""
    return sqlstate_of(error)[:2] in _MISCONFIGURED


def unavailable(error: BaseException | None) -> MayuraError:
    """STORAGE_UNAVAILABLE, with what to do about it."""
    state = "" if error is None else sqlstate_of(error)
    remedy = _REMEDIES.get(state) or _REMEDIES.get(state[:2])
    if remedy is None:
        remedy = "see that it runs and can be reached; what was asked may be asked again"
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        name = "no answer in time"
    else:
        name = state or ("" if error is None else type(error).__name__) or "no connection"
    text = f"The database did not confirm ({name}): {remedy}."
    return MayuraError(Code.STORAGE_UNAVAILABLE, text)


def not_opened(error: BaseException) -> MayuraError:
    """INVALID_CONFIG where only another URL can help; else as `unavailable`.

    Only a store that is being opened may say so. To one that is open a refused user is an outage:
    what it sent before may be committed, and the user may be let in again.
    """
    met = unavailable(error)
    return MayuraError(Code.INVALID_CONFIG, str(met)) if misconfigured(error) else met


def violation(run_id: str, error: BaseException) -> MayuraError:
    """INTEGRITY_VIOLATION, naming the constraint where it has a name."""
    named = getattr(error, "constraint_name", None) or sqlstate_of(error)
    return MayuraError(
        Code.INTEGRITY_VIOLATION,
        f"Run {run_id}: the store refused a write that contradicts what it holds ({named}).",
    )


def not_an_id(error: BaseException) -> MayuraError:
    """INVALID_INPUT for a question whose values the database cannot even compare."""
    return MayuraError(
        Code.INVALID_INPUT,
        f"The store was asked about something that is no id or name ({sqlstate_of(error)}): a run "
        "id has 32 lower-case hexadecimal characters.",
    )
