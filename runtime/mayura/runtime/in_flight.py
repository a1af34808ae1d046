"""Which calls this process still has in hand: those are never settled by it, however late (G9)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from mayura.runtime.ids import Nonce


class InFlight:
    """The nonces of calls that run here or wait for their receipt or completion to be stored.

    A call enters before its dispatch is sent and leaves when its completion is stored.
    """

    def __init__(self) -> None:
        self._nonces: set[Nonce] = set()

    def __contains__(self, nonce: object) -> bool:
        return nonce in self._nonces

    def __iter__(self) -> Iterator[Nonce]:
        return iter(self._nonces)

    def __len__(self) -> int:
        return len(self._nonces)

    def enter(self, nonce: Nonce) -> None:
        self._nonces.add(nonce)

    def leave(self, nonce: Nonce) -> None:
        self._nonces.discard(nonce)

    def forget(self) -> None:
        """Nothing is in hand here."""
        self._nonces.clear()


THIS_PROCESS: Final = InFlight()
"""Shared by every engine of the process; simulations give each simulated process its own."""

os.register_at_fork(after_in_child=THIS_PROCESS.forget)  # calls stay with the parent
