"""How many calls may be in hand at once: taken before the dispatch commit, never waited for in it.

A slot is held until the body has truly ended, also when its step settled long before (a body that
ignores its timeout still uses its thread and its provider).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

CALLS_MAX = 64
THREADS_MAX = 32


@dataclass(frozen=True, slots=True)
class SlotsUsed:
    """How many slots are taken, and how many runs wait for one."""

    calls: int
    threads: int
    waiting: int


@dataclass(slots=True)
class _Limit:
    maximum: int
    taken: int = 0


@dataclass(slots=True)
class Slots:
    """Counts calls in this process: all of them, those in threads, and those of each tool."""

    calls_max: int = CALLS_MAX
    threads_max: int = THREADS_MAX
    _limits: dict[str, _Limit] = field(default_factory=dict)
    _waiting: deque[Callable[[], None]] = field(default_factory=deque)

    def try_take(self, tool_id: str, *, concurrency: int | None, thread: bool) -> bool:
        """Take every slot this call needs, or none of them."""
        needed = self._needed(tool_id, concurrency, thread)
        if any(limit.taken >= limit.maximum for limit in needed):
            return False
        for limit in needed:
            limit.taken += 1
        return True

    def release(self, tool_id: str, *, concurrency: int | None, thread: bool) -> None:
        """Give the slots back and tell those that wait, first come first served."""
        for limit in self._needed(tool_id, concurrency, thread):
            limit.taken -= 1
        waiting, self._waiting = self._waiting, deque()
        for poke in waiting:
            poke()

    def when_released(self, poke: Callable[[], None]) -> None:
        """Call `poke` once, after the next release."""
        self._waiting.append(poke)

    def statistics(self) -> SlotsUsed:
        """A reading for metrics and tests."""
        taken = {name: limit.taken for name, limit in self._limits.items()}
        return SlotsUsed(taken.get("calls", 0), taken.get("threads", 0), len(self._waiting))

    def _needed(self, tool_id: str, concurrency: int | None, thread: bool) -> list[_Limit]:
        needed = [self._limit("calls", self.calls_max)]
        if thread:
            needed.append(self._limit("threads", self.threads_max))
        if concurrency is not None:
            needed.append(self._limit(f"tool:{tool_id}", concurrency))
        return needed

    def _limit(self, name: str, maximum: int) -> _Limit:
        limit = self._limits.get(name)
        if limit is None:
            limit = self._limits[name] = _Limit(maximum)
        return limit
