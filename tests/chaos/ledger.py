"""The oracle: what tools really did, written down outside of the system under test.

One line an entry, appended and on the disk before the tool goes on, so that no kill can take back
what was said. It knows nothing of stores, runs or receipts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

Kind: TypeAlias = Literal["entered", "effect"]
"""`entered`: the body of a call began. `effect`: it changed the world."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that one call did, and in which process."""

    kind: Kind
    call_id: str
    process: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """An append-only file that any number of processes write to."""

    path: Path

    def append(self, kind: Kind, call_id: str) -> None:
        """Add one entry; durable when it returns."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{kind} {call_id} {os.getpid()}\n".encode())
            os.fsync(file)
        finally:
            os.close(file)

    def entries(self) -> list[Entry]:
        """Everything that was written, in order."""
        if not self.path.exists():
            return []
        return [_entry(line) for line in self.path.read_text().splitlines()]


def _entry(line: str) -> Entry:
    kind, call_id, process = line.split(" ")
    assert kind in get_args(Kind), f"the ledger says {line!r}"
    return Entry(cast(Kind, kind), call_id, int(process))


def count(entries: Iterable[Entry], kind: Kind) -> Counter[str]:
    """How often each call has an entry of this kind."""
    return Counter(entry.call_id for entry in entries if entry.kind == kind)
