"""How many calls may be in hand at once: taken before the dispatch commit, never waited for in it.

A slot is held until the body has truly ended, also when its step settled long before (a body that
ignores its timeout still uses its thread and its provider).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

CALLS_MAX = 64
THREADS_MAX = 32
SLOTS_MAX = 10_000  #: of either


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


_Need: TypeAlias = tuple[str, int | None, bool]  #: tool, its own limit, whether it takes a thread


@dataclass(slots=True)
class Slots:
    """Counts calls in this process: all of them, those in threads, and those of each tool."""

    calls_max: int = CALLS_MAX
    threads_max: int = THREADS_MAX
    _limits: dict[str, _Limit] = field(default_factory=dict)
    _waiting: dict[_Need, deque[tuple[int, Callable[[], None]]]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _handing_out: bool = False

    def try_take(self, tool_id: str, *, concurrency: int | None, thread: bool) -> bool:
        """Take every slot this call needs, or none of them."""
        needed = self._needed(tool_id, concurrency, thread)
        for limit in needed:
            if limit.taken >= limit.maximum:
                return False
        for limit in needed:
            limit.taken += 1
        return True

    def release(self, tool_id: str, *, concurrency: int | None, thread: bool) -> None:
        """Give the slots back, and take them for those that have waited longest."""
        for limit in self._needed(tool_id, concurrency, thread):
            limit.taken -= 1
        if not self._waiting or self._handing_out:
            return
        self._handing_out = True
        try:
            while (granted := self._next()) is not None:
                granted()
        finally:
            self._handing_out = False

    def wait(
        self, tool_id: str, *, concurrency: int | None, thread: bool, granted: Callable[[], None]
    ) -> None:
        """Call `granted` once the slots were taken for the caller, first come first served.

        Who does not want them then gives them back by `release`.
        """
        queue = self._waiting.setdefault((tool_id, concurrency, thread), deque())
        queue.append((next(self._numbers), granted))

    def statistics(self) -> SlotsUsed:
        """A reading for metrics and tests."""
        taken = {name: limit.taken for name, limit in self._limits.items()}
        waiting = sum(map(len, self._waiting.values()))
        return SlotsUsed(taken.get("calls", 0), taken.get("threads", 0), waiting)

    def _next(self) -> Callable[[], None] | None:
        """Whoever has waited longest of those whose slots are all free; they are taken for it."""
        for _, need in sorted((queue[0][0], need) for need, queue in self._waiting.items()):
            tool_id, concurrency, thread = need
            if self.try_take(tool_id, concurrency=concurrency, thread=thread):
                queue = self._waiting[need]
                _, granted = queue.popleft()
                if not queue:
                    del self._waiting[need]
                return granted
        return None

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
