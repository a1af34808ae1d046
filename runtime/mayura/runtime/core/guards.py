"""Guards: checks around a tool that allow or block, and fail closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mayura.runtime.core.definition import GuardSpec
from mayura.runtime.ids import CallId, RunId, Scope

GUARDS_MAX = 32  #: of each kind, on one tool

Boundary: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class GuardContext:
    """Which call a guard is asked about, and on which side of it."""

    run_id: RunId
    call_id: CallId
    scope: Scope
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Guard:
    """A named check of a call's input or output.

    `check` gets the value in its stored form and returns True to allow it. Anything else blocks;
    raising, or taking longer than five seconds, blocks as well (GUARD_UNAVAILABLE). An `async def`
    runs on the event loop, a plain function in a thread, where others may run beside it. An input
    guard blocks before anything happened; an output guard withholds what the tool returned. Name
    and version are part of the definition's digest: change the version when the check changes.
    """

    name: str
    version: str
    check: Callable[[object, GuardContext], bool | Awaitable[bool]]

    @property
    def spec(self) -> GuardSpec:
        """What the manifest says of it."""
        return GuardSpec(self.name, self.version)
