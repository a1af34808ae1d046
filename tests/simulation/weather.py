"""What goes wrong, and when: everything that a seed decides beside the order of things."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

Passage = Literal["fine", "request lost", "answer lost", "request late"]

LIFE_STEPS_MAX: Final = 700


class Weather:
    """How bad it is in this seed; `clear_up` ends all of it."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.fair = rng.random() < 0.1  #: nothing goes wrong at all
        self.over = self.fair
        self._losses = rng.choice((0.0, 0.0, 0.02, 0.1))
        self._delays = rng.choice((0.0, 0.1, 0.5))
        self._deaths = rng.choice((0.0, 0.3, 0.7, 0.9))
        self._freezes = rng.choice((0.0, 0.0, 0.3, 0.6))
        self._outages = rng.choice((0.0, 0.0, 0.02, 0.06))
        self.outage_until_s = 0.0

    def clear_up(self) -> None:
        """From now on nothing goes wrong."""
        self.over = True
        self.outage_until_s = 0.0

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens now; never after the faults are over."""
        return not self.over and self._rng.random() < probability

    def dies_at(self) -> int | None:
        """After how many of its steps a new process dies."""
        return 1 + int(self._rng.random() * LIFE_STEPS_MAX) if self.chance(self._deaths) else None

    def freezes_at(self) -> int | None:
        """After how many of its steps a new process freezes."""
        return 1 + int(self._rng.random() * LIFE_STEPS_MAX) if self.chance(self._freezes) else None

    def freeze_s(self) -> float:
        """How long it is frozen: past the check's age, past the deadline, or hardly at all."""
        return self._rng.choice((0.05, 0.3, 1.5, 7.0))

    def restarts_after_s(self) -> float:
        """How long a dead process is away."""
        return self._rng.choice((0.0, 0.5, 6.0))

    def passage(self, now_s: float) -> Passage:
        """What becomes of one request to the store and its answer."""
        if self.over:
            return "fine"
        if now_s < self.outage_until_s:
            return "request lost"
        if self.chance(self._outages):
            self.outage_until_s = now_s + self._rng.choice((0.5, 2.0, 8.0))
            return "answer lost"
        if not self.chance(self._losses):
            return "fine"
        return self._rng.choice(("request lost", "answer lost", "request late"))

    def latency_s(self) -> float:
        """How long a request or an answer takes; 0 is as soon as it is its turn."""
        if self.chance(self._delays):
            return self._rng.choice((0.001, 0.02, 0.12, 0.6))
        return 0.0

    def silence_s(self) -> float:
        """How long a process waits for an answer that does not come."""
        return self._rng.choice((0.01, 0.2, 1.0))

    def late_s(self) -> float:
        """How long a late request is on its way after its sender gave up on it."""
        return self._rng.choice((0.0, 0.1, 2.0, 6.0))

    def between_sweeps_s(self) -> float:
        """How long a process lets the due runs be."""
        return 1.0 if self.over else 0.1 + self._rng.random()

    def calls_max(self) -> int:
        """How many calls a process makes at once."""
        return self._rng.choice((1, 2, 64))
