"""Compares what the store says of a run with what its tools did.

The evidence is the run as stored, its journal entry by entry, and the ledger. Every check answers
one question with a list of complaints; `tests/chaos/test_history.py` breaks each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from mayura.runtime import MayuraError, RunId, open_store
from mayura.runtime.core import values
from mayura.runtime.core.definition import Definition, JsonValue, ToolNode
from mayura.runtime.core.manifest import from_manifest
from mayura.runtime.core.state import Acted, Receipt, Run, StepStatus
from mayura.runtime.ids import NodeId, call_id_of
from mayura.runtime.journal import verified_events
from mayura.runtime.ports import JournalEntry, Store
from tests.chaos.ledger import Entry, count
from tests.chaos.place import Place

Key = TypeVar("Key", bound=Hashable)

ENDS: Final = {
    "step.succeeded": {"succeeded"},
    "step.failed": {"failed"},
    "step.blocked": {"blocked"},
    "step.unknown": {"unknown"},
    "step.timed_out": {"timed_out"},
    "step.skipped": {"skipped"},
    "step.bypassed": {"bypassed"},
    "step.declined": {"blocked", "skipped"},
    "step.abandoned": {"blocked", "failed", "unknown"},
}
"""The events that end a step, and as what."""

EVIDENCE: Final = {
    "step.receipt",
    "integrity.contradiction",
    "budget.overrun",
    "signal.without_effect",
}
"""What may still be said of a step or a run that has ended."""

MAY_HAVE_ACTED: Final = {
    StepStatus.SUCCEEDED,
    StepStatus.BLOCKED,
    StepStatus.UNKNOWN,
    StepStatus.DISPATCHING,
}


@dataclass(frozen=True, slots=True)
class Said:
    """One event of the journal; `node` is None for the run's own."""

    type: str
    node: str | None
    at_us: int


@dataclass(frozen=True, slots=True)
class History:
    """Everything the store says of one run, and what its calls wrote into the ledger."""

    run: Run
    definition: Definition
    entries: tuple[JournalEntry, ...]
    done: tuple[Entry, ...]

    def said(self) -> list[Said]:
        """The events of the journal, in order."""
        found = []
        for entry in self.entries:
            events = values.decode(entry.entries)
            assert isinstance(events, list)
            for event in events:
                assert isinstance(event, dict)
                found.append(Said(str(event["type"]), _name(event.get("node")), entry.at_us))
        return found

    def calls(self) -> list[tuple[ToolNode, str]]:
        """The tool nodes, each with the id of the only call it can make."""
        tools = [node for node in self.definition.nodes if isinstance(node, ToolNode)]
        return [(node, call_id_of(self.run.run_id, node.id)) for node in tools]


Check: TypeAlias = Callable[[History], list[str]]


async def read_history(store: Store, run_id: RunId, ledger: Sequence[Entry]) -> History:
    """Collect the evidence about one run."""
    loaded = await store.load(run_id)
    assert loaded is not None, f"run {run_id} got lost"
    manifest = await store.definition(loaded.run.definition)
    assert manifest is not None, f"the definition of run {run_id} got lost"
    entries: list[JournalEntry] = []
    while page := await store.journal(run_id, entries[-1].version if entries else 0):
        entries.extend(page)
    done = tuple(entry for entry in ledger if entry.call_id.startswith(f"{run_id}/"))
    definition = from_manifest(values.decode(manifest))
    return History(loaded.run, definition, tuple(entries), done)


async def read_all(place: Place, runs: Mapping[Key, RunId]) -> dict[Key, History]:
    """The evidence about many runs, each under the name the test has for it."""
    store = await open_store(place.url, migrate=False)
    ledger = place.ledger.entries()
    found = {key: await read_history(store, run, ledger) for key, run in runs.items()}
    await store.close()
    return found


def complaints(history: History) -> list[str]:
    """What contradicts the guarantee; empty: nothing does."""
    run = f"run {history.run.run_id} ({history.run.key})"
    return [f"{run}: {complaint}" for check in CHECKS for complaint in check(history)]


def entered_once(history: History) -> list[str]:
    """(a) No call's body was entered twice, and no effect happened twice (G1)."""
    return [
        f"{call_id} has {times} entries {kind!r} in the ledger"
        for kind in ("entered", "effect")
        for call_id, times in count(history.done, kind).items()
        if times > 1
    ]


def dispatched_once_and_before(history: History) -> list[str]:
    """One dispatch record at most for a step, and one for whatever was entered (G1, G2)."""
    dispatched = Counter(s.node for s in history.said() if s.type == "step.dispatching")
    found = [f"step {node!r} was dispatched {n} times" for node, n in dispatched.items() if n > 1]
    entered = count(history.done, "entered")
    for node, call_id in history.calls():
        if call_id in entered and node.id not in dispatched:
            found.append(f"step {node.id!r} was entered and never dispatched")
    return found


def receipts_tell_the_truth(history: History) -> list[str]:
    """(b) What a receipt says succeeded is in the ledger (G4)."""
    effects = count(history.done, "effect")
    return [
        f"step {node.id!r} has a succeeded receipt, and the ledger no effect"
        for node, call_id in history.calls()
        if history.run.step(node.id).receipt is Receipt.SUCCEEDED and call_id not in effects
    ]


def no_false_failure(history: History) -> list[str]:
    """(c) What is in the ledger never counts as failed or not begun (G10)."""
    effects = count(history.done, "effect")
    return [
        f"step {node.id!r} acted and is {history.run.step(node.id).status}"
        for node, call_id in history.calls()
        if call_id in effects
        and not node.tool.changes_nothing
        and history.run.step(node.id).status not in MAY_HAVE_ACTED
    ]


def acted_tells_the_truth(history: History) -> list[str]:
    """`acted` says no only without an effect, and yes only with one (G10)."""
    effects = count(history.done, "effect")
    found = []
    for node, call_id in history.calls():
        acted = history.run.step(node.id).acted
        contradicted = Acted.NO if call_id in effects else Acted.YES
        if acted is contradicted and not node.tool.changes_nothing:
            found.append(f"step {node.id!r} says acted: {acted}, and the ledger otherwise")
    return found


def journal_is_whole(history: History) -> list[str]:
    """(d) Versions and event numbers have no gap, and each entry covers the one before (G7)."""
    try:
        events = verified_events(history.entries)
    except MayuraError as error:
        return [str(error)]
    run, found = history.run, []
    if (last := history.entries[-1].version if history.entries else 0) != run.version:
        found.append(f"the journal ends with version {last}, the run has version {run.version}")
    if len(events) != run.event_seq:
        found.append(f"the journal has {len(events)} events, the run counts {run.event_seq}")
    return found


def ends_are_final(history: History) -> list[str]:
    """(e) A step or run that has ended stays as it is (G6)."""
    ended: dict[str | None, set[str]] = {}
    found = []
    for said in history.said():
        over = None in ended or said.node in ended
        if over and said.type not in EVIDENCE:
            found.append(f"{said.type} of {said.node or 'the run'} comes after the end")
        elif said.type == "run.settled":
            ended[None] = {history.run.status.value}
        elif said.type in ENDS:
            ended[said.node] = ENDS[said.type]
    for node in history.definition.nodes:
        status = history.run.step(node.id).status.value
        if node.id in ended and status not in ended[node.id]:
            found.append(f"step {node.id!r} is {status}, which its end in the journal is not")
        elif node.id not in ended and not history.run.open:
            found.append(f"step {node.id!r} is {status} in a settled run, without an end")
    return found


def nothing_begins_while_stopped(history: History) -> list[str]:
    """Between a pause and its resume, and after a cancel, nothing is dispatched."""
    stopped, found = "", []
    for said in history.said():
        if said.type in ("run.pause_requested", "run.cancelled"):
            stopped = said.type if stopped != "run.cancelled" else stopped
        elif said.type == "run.resumed" and stopped == "run.pause_requested":
            stopped = ""
        elif said.type == "step.dispatching" and stopped:
            found.append(f"step {said.node!r} was dispatched after {stopped}")
    return found


CHECKS: Final[tuple[Check, ...]] = (
    entered_once,
    dispatched_once_and_before,
    receipts_tell_the_truth,
    no_false_failure,
    acted_tells_the_truth,
    journal_is_whole,
    ends_are_final,
    nothing_begins_while_stopped,
)


def times_said(history: History, kind: str, node: NodeId | None = None) -> list[int]:
    """When events of this type were stored, about this node or any."""
    return [s.at_us for s in history.said() if s.type == kind and node in (None, s.node)]


def _name(node: JsonValue) -> str | None:
    return node if isinstance(node, str) else None
