"""Where processes meet: each arrival is one byte of a file, which every process can count."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_AGAIN_S = 0.0005


@dataclass(frozen=True, slots=True)
class Gate:
    """A meeting point of processes that know its path."""

    path: Path

    def arrive(self) -> None:
        """Count this process in."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, b".")
        finally:
            os.close(file)

    def arrived(self) -> int:
        """How many have come so far."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    async def meet(self, parties: int, *, within_s: float) -> bool:
        """Arrive, and wait for the others; False where they did not all come in time."""
        self.arrive()
        return await self.opened(parties, within_s=within_s)

    async def opened(self, parties: int, *, within_s: float) -> bool:
        """Wait until `parties` have arrived, without arriving."""
        give_up_at = time.monotonic() + within_s
        while self.arrived() < parties:
            if time.monotonic() > give_up_at:
                return False
            await asyncio.sleep(LOOK_AGAIN_S)
        return True

    def until(self, parties: int, *, within_s: float = 30.0) -> None:
        """Wait like `opened`, in a test; raises AssertionError where not enough have come."""
        give_up_at = time.monotonic() + within_s
        while (arrived := self.arrived()) < parties:
            assert time.monotonic() < give_up_at, f"{arrived} of {parties} at {self.path.name}"
            time.sleep(LOOK_AGAIN_S)
