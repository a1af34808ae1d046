"""The one error class, its stable codes, and what each asks the caller to do."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """Stable error codes. Tests and callers compare codes, never texts."""

    INVALID_CONFIG = "INVALID_CONFIG"  #: A definition, policy, setting or URL is wrong: fix it.
    INVALID_INPUT = "INVALID_INPUT"  #: A value does not fit its schema: send another.
    INVALID_OUTPUT = "INVALID_OUTPUT"  #: A tool returned what its schema does not allow.
    INVALID_JSON = "INVALID_JSON"  #: A value cannot be stored as JSON: the path is named.
    PERMISSION_DENIED = "PERMISSION_DENIED"  #: The policy lacks a grant, or the person may not.
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"  #: The run's budget cannot cover the call.
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"  #: A named limit was passed.
    CANCELLED = "CANCELLED"  #: The run was cancelled first.
    TIMEOUT = "TIMEOUT"  #: Nothing came within the time given.
    TOOL_FAILED = "TOOL_FAILED"  #: The tool refused or failed; the cause says which.
    GUARD_BLOCKED = "GUARD_BLOCKED"  #: A guard said no.
    GUARD_UNAVAILABLE = "GUARD_UNAVAILABLE"  #: A guard could not answer: fail closed.
    REJECTED = "REJECTED"  #: A person rejected the call.
    ABANDONED = "ABANDONED"  #: The process that made the call is gone.
    ALREADY_DONE = "ALREADY_DONE"  #: `once`: another call for this subject exists (G16).
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"  #: The call may have acted: look it up by its key.
    NOT_FOUND = "NOT_FOUND"  #: No such run, step, name or key here.
    CONFLICT = "CONFLICT"  #: The run moved on, or the key holds something else: read again.
    STORAGE_UNAVAILABLE = "STORAGE_UNAVAILABLE"  #: The store did not confirm.
    INTEGRITY_VIOLATION = "INTEGRITY_VIOLATION"  #: Stored facts contradict each other: stop, look.


class MayuraError(Exception):
    """Every error this package raises; `code` is stable, the text is for people.

    The text never holds a tool's exception text, SQL, a DSN or a payload.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


class SubmitConflict(MayuraError):
    """The key already belongs to another submission; names the run that holds it (CONFLICT)."""

    def __init__(self, message: str, *, run_id: str, status: str) -> None:
        super().__init__(Code.CONFLICT, message)
        self.run_id = run_id
        self.status = status
