"""The limits every store keeps, by name."""

from __future__ import annotations

from typing import Final

JOURNAL_BYTES_MAX: Final = 1 << 20
"""Bytes of events in one page of a journal, unless a single entry is larger."""

METHOD_TIME_MAX_MS: Final = 15_000
"""How long a method of a store may take before it answers STORAGE_UNAVAILABLE."""

FILE_CLOSE_TIME_MS: Final = 3_000
"""Of a method's time, what closing an embedded store keeps for its file; what is in hand has the
rest."""

LOCK_WAIT_MAX_MS: Final = 10_000
"""How long a write waits for the store's lock before it answers STORAGE_UNAVAILABLE."""

ONCE_KEY_BYTES: Final = 32
"""Length of a scope's secret for `once` digests."""
