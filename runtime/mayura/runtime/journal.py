"""Reads a run's journal back, and finds out whether somebody wrote in it."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from mayura.runtime.core import values
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.digest import chain
from mayura.runtime.core.state import Run
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import RunId
from mayura.runtime.ports import JournalEntry, Store

_GENESIS = bytes(32)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event: numbered from 1 without gaps; `version` is the commit that it was part of."""

    seq: int
    version: int
    at_us: int
    type: str
    data: dict[str, JsonValue]


async def read_journal(store: Store, run_id: RunId) -> list[JournalEntry]:
    """The whole journal of a run, unchecked."""
    entries: list[JournalEntry] = []
    while page := await store.journal(run_id, entries[-1].version if entries else 0):
        entries.extend(page)
    return entries


def verified_events(entries: Sequence[JournalEntry], run: Run | None = None) -> list[EventRecord]:
    """The events of a whole journal. Each entry's digest covers its predecessor and its time.

    `run`, read before the journal, says how far that must reach at least. Raises
    INTEGRITY_VIOLATION naming the first version that does not follow from the one before.
    """
    previous, previous_at_us, seq, version = _GENESIS, 0, 1, 1
    records: list[EventRecord] = []
    for entry in entries:
        expected = chain(previous, previous_at_us, entry.version, entry.entries)
        follows = entry.version == version and entry.first_seq == seq
        if run is not None and version == run.version:
            follows = follows and (entry.chain, entry.at_us) == (run.chain, run.last_at_us)
        if not follows or not hmac.compare_digest(expected, entry.chain):
            raise _altered(version)
        for event in cast(list[dict[str, JsonValue]], values.decode(entry.entries)):
            data = {k: v for k, v in event.items() if k != "type"}
            records.append(EventRecord(seq, entry.version, entry.at_us, str(event["type"]), data))
            seq += 1
        previous, previous_at_us, version = entry.chain, entry.at_us, version + 1
    if run is not None and version <= run.version:
        raise _altered(version)
    return records


def _altered(version: int) -> MayuraError:
    text = f"the journal was altered: version {version} does not follow from the one before"
    return MayuraError(Code.INTEGRITY_VIOLATION, text)
