"""A store in whose writes a test can meddle: before they are committed, and after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from mayura.runtime import Code, MayuraError
from mayura.runtime.ports import Created, NewRun, RunWrite, Store, WriteAnswer

Meddle = Callable[[RunWrite], Awaitable[None]]


async def leave_alone(write: RunWrite) -> None:
    """What happens unless a test says otherwise."""


class _Meddled:
    """Another store in between; what the hooks raise, its `write` raises."""

    def __init__(self, inner: Store, before: Meddle, after: Meddle) -> None:
        self._inner = inner
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def write(self, write: RunWrite) -> WriteAnswer:
        await self._before(write)
        answer = await self._inner.write(write)
        await self._after(write)
        return answer


def meddled(inner: Store, *, before: Meddle = leave_alone, after: Meddle = leave_alone) -> Store:
    """`inner`, with a hook on each side of its commits."""
    return cast(Store, _Meddled(inner, before, after))


def events_of(write: RunWrite) -> str:
    """The events of a write as they are stored, to look for a word in."""
    return write.entries.decode()


class _Submitting:
    """Another store in between whose first submission fails, before it or after it."""

    def __init__(self, inner: Store, fails: str) -> None:
        self._inner = inner
        self._fails = fails

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def create(self, new: NewRun) -> Created:
        fails, self._fails = self._fails, ""
        if fails == "before":
            raise MayuraError(Code.STORAGE_UNAVAILABLE, "no answer")
        created = await self._inner.create(new)
        if fails == "after":
            raise MayuraError(Code.STORAGE_UNAVAILABLE, "the answer was lost")
        return created


def submitting(inner: Store, *, fails: str) -> Store:
    """`inner`, whose first submission fails `before` it is made or `after`."""
    return cast(Store, _Submitting(inner, fails))
