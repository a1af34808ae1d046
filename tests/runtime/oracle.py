"""What must hold after every test, whatever it was about."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from mayura.runtime import RunId
from mayura.runtime.core.state import Receipt, Run, RunStatus, StepStatus
from mayura.runtime.ids import call_id_of
from mayura.runtime.journal import EventRecord, verified_events
from mayura.runtime.ports import JournalEntry, Store
from tests.runtime.shop import LEDGER

FIRST_ENDS = frozenset(
    f"step.{status}"
    for status in ("succeeded", "failed", "blocked", "unknown", "abandoned", "declined")
)


def check_ledger() -> None:
    """No body was entered twice for one call."""
    doubled = {call: n for call, n in Counter(LEDGER.entered).items() if n > 1}
    assert not doubled, f"entered more than once (G1): {doubled}"


async def check_runs(store: Store, run_ids: list[RunId]) -> None:
    """What no test may leave broken: journals, evidence, wake sources and money."""
    for run_id in run_ids:
        loaded = await store.load(run_id)
        if loaded is None:
            continue  # of another scope
        run, journal = loaded.run, await whole_journal(store, run_id)
        events = verified_events(journal, run)
        _check_journal(run, journal, events)
        _check_steps(run, events)
        _check_rest(run)
        assert run.spent_micros + run.reserved_micros <= run.maximum_micros, "G14"
        assert run.reserved_micros == sum(s.reserved_micros for s in run.steps.values())


async def whole_journal(store: Store, run_id: RunId) -> list[JournalEntry]:
    """Every entry of a run."""
    entries: list[JournalEntry] = []
    while page := await store.journal(run_id, len(entries)):
        entries.extend(page)
    return entries


def _check_journal(run: Run, journal: list[JournalEntry], events: list[EventRecord]) -> None:
    assert [event.seq for event in events] == list(range(1, run.event_seq + 1))
    assert journal[-1].version == run.version
    assert (journal[-1].chain, journal[-1].at_us) == (run.chain, run.last_at_us)
    assert all(one.at_us <= two.at_us for one, two in pairwise(events))


def _check_steps(run: Run, events: list[EventRecord]) -> None:
    begun = Counter(e.data["node"] for e in events if e.type == "step.dispatching")
    ended = Counter(e.data["node"] for e in events if e.type in FIRST_ENDS)
    for node, step in run.steps.items():
        call = call_id_of(run.run_id, node)
        entered = call in LEDGER.entered
        assert begun[node] == (step.dispatch is not None), f"step {node} was begun once or never"
        assert ended[node] <= 1, f"step {node} ended {ended[node]} times"
        assert not entered or begun[node], f"step {node} was entered before it was recorded (G2)"
        if step.receipt is Receipt.SUCCEEDED:
            assert entered, f"step {node} has evidence of what never happened"
        if step.receipt is Receipt.NOT_STARTED or step.status is StepStatus.PENDING:
            assert step.reserved_micros == 0


def _check_rest(run: Run) -> None:
    waits = any(step.status is StepStatus.WAITING for step in run.steps.values())
    asleep = run.status is RunStatus.PAUSED or (run.status is RunStatus.WAITING and waits)
    assert not run.open or run.wake_at_us is not None or asleep, "nobody will ever look again (G13)"
