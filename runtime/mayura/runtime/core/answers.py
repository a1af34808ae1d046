"""What a lookup may answer about a call whose outcome nobody here knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, final

O_co = TypeVar("O_co", covariant=True)


@final
@dataclass(frozen=True, slots=True)
class Happened(Generic[O_co]):
    """The provider carried the call out, and this is what the tool would have returned."""

    output: O_co


@final
@dataclass(frozen=True, slots=True)
class Absent:
    """The provider knows nothing under the call's key now.

    Believed only for a tool that declares `absent_after` and `key_lifetime`, and only within
    that window; otherwise it counts as Unclear.
    """


@final
@dataclass(frozen=True, slots=True)
class Never:
    """The provider did nothing, and would refuse this key if it still arrived."""


@final
@dataclass(frozen=True, slots=True)
class Unclear:
    """The provider cannot say."""


Answer: TypeAlias = Happened[O_co] | Absent | Never | Unclear
