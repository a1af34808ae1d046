"""Finds the store a URL names: the runtime itself knows none of them."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Awaitable, Callable, Generator
from importlib.metadata import entry_points
from types import TracebackType
from typing import Final, cast

import anyio

from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import SCOPE_CHARS_MAX, Scope, check_text
from mayura.runtime.ports import Store

GROUP = "mayura.stores"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class Opening(Awaitable[Store]):
    """A store that is about to be opened: awaited it is the store, entered it is closed as well."""

    def __init__(self, opening: Awaitable[Store]) -> None:
        self._opening = opening
        self._opened: Store | None = None

    async def __aenter__(self) -> Store:
        """Open the store. Errors: as awaiting it."""
        self._opened = await self._opening
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store, also where the body was cancelled."""
        if self._opened is not None:
            with anyio.CancelScope(shield=True):
                await self._opened.close()

    def __await__(self) -> Generator[object, None, Store]:
        return self._opening.__await__()


def open_store(
    url: str, *, scope: Scope | None = None, environment: str = "default", migrate: bool = True
) -> Opening:
    """Open the store behind `url` (`sqlite:///shop.db`, `postgresql://...`, `memory://`).

        async with open_store("sqlite:///shop.db") as store:  # closed at the end
        store = await open_store("sqlite:///shop.db")  # closed by `await store.close()`

    It is used and closed on the event loop that opened it. `migrate`: bring its tables up to this
    release first. Raises INVALID_CONFIG for a scheme no installed store has, and what the store
    says of its URL.
    """
    return Opening(_open(url, scope, environment, migrate))


async def _open(url: str, scope: Scope | None, environment: str, migrate: bool) -> Store:
    if scope is not None and not isinstance(scope, Scope):
        text = f'a scope is a Scope("orders", "shop"), not a {type(scope).__name__}'
        raise MayuraError(Code.INVALID_CONFIG, text)
    check_text("an environment", environment, SCOPE_CHARS_MAX)
    # What is installed, and its code, are read from files: not on the loop.
    opener = await asyncio.to_thread(_opener, _scheme(url))
    return await opener(url, scope=scope or Scope(), environment=environment, migrate=migrate)


def _scheme(url: object) -> str:
    found = _SCHEME.match(url) if isinstance(url, str) else None
    if found is None:  # nothing of it is repeated: it may be a connection string with a password
        text = "a store's URL begins with its scheme: sqlite:///shop.db, postgresql://host/database"
        raise MayuraError(Code.INVALID_CONFIG, text)
    return found[1]


def _opener(scheme: str) -> Callable[..., Awaitable[Store]]:
    found = {point.name: point for point in entry_points(group=GROUP)}
    if scheme not in found:
        near = difflib.get_close_matches(scheme, found, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        known = ", ".join(sorted(found))
        raise MayuraError(
            Code.INVALID_CONFIG, f"no store has the URL scheme {scheme!r}{hint} (known: {known})"
        )
    return cast(Callable[..., Awaitable[Store]], found[scheme].load())
