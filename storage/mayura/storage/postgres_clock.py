"""The database's time, guessed between two readings of it."""

from __future__ import annotations

import time

from mayura.runtime.core.state import Instant

DRIFT_US_PER_S = 100
"""How far two clocks may part in a second before a reading is worth less than a newer one."""


def instant_of(at_us: int) -> Instant:
    """A reading of the database's clock, which is wall time and steady time alike."""
    return Instant(wall_us=at_us, steady_us=at_us)


class DatabaseClock:
    """The last good reading, carried on by this host's steady clock.

    The guess is behind the database by no more than that reading's round trip, and never ahead
    of it: it counts from when the answer was there. What it decides (a call that is settled, a
    request that lapses) may come a moment late, and never early (G9).
    """

    def __init__(self) -> None:
        self._ahead_us = 0  #: the database's time minus ours, at least
        self._round_trip_us = 0
        self._read_at_us: int | None = None

    @staticmethod
    def local_us() -> int:
        """This host's steady clock."""
        return time.monotonic_ns() // 1000

    def read(self, at_us: int, *, asked_at_us: int) -> None:
        """Take in that the database said `at_us` to a question sent at our `asked_at_us`."""
        now_us = self.local_us()
        round_trip_us = now_us - asked_at_us
        if self._read_at_us is not None:
            age_us = now_us - self._read_at_us
            if round_trip_us > self._round_trip_us + age_us * DRIFT_US_PER_S // 1_000_000:
                return
        self._ahead_us = at_us - now_us
        self._round_trip_us = round_trip_us
        self._read_at_us = now_us

    def estimate(self) -> Instant:
        """The database's time now."""
        return instant_of(self.local_us() + self._ahead_us)
