"""The event loop that a store was opened on: its locks, queues and connections work there alone."""

from __future__ import annotations

import asyncio

from mayura.runtime.errors import Code, MayuraError


class HomeLoop:
    """The loop that runs where this is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def require(self) -> None:
        """INVALID_CONFIG on any other loop, where a wait might never end."""
        if asyncio.get_running_loop() is not self._loop:
            raise MayuraError(
                Code.INVALID_CONFIG,
                "This store was opened on another event loop: open it, use it and close it on one "
                "loop, inside the same asyncio.run; a second loop opens a store of its own.",
            )
