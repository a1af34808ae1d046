"""The history checker finds nothing in a good run, and each planted breakage in a bad one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from mayura.runtime import Engine, open_store
from mayura.runtime.core import values
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.state import Acted, RunStatus, StepStatus
from mayura.runtime.ids import NodeId
from tests.chaos import history
from tests.chaos.faults import Faults
from tests.chaos.history import CHECKS, Check, History, complaints, read_history
from tests.chaos.ledger import Entry
from tests.chaos.place import Place
from tests.chaos.shop import POLICY, Order, fused_chain, here

STEP: Final = NodeId("two")
pytestmark = pytest.mark.may_block("the tools write the ledger on the loop")


@pytest.fixture
async def good(tmp_path: Path) -> History:
    """A run of four writes that nothing happened to."""
    place = Place("memory://", tmp_path)
    here.be(place, Faults())
    store = await open_store(place.url)
    async with Engine(store, workflows=[fused_chain], policy=POLICY) as engine:
        run = await engine.submit(fused_chain, Order(order_id="o-1"), key="o-1")
        assert (await engine.run_until_settled(run.id)).status is RunStatus.SUCCEEDED
    found = await read_history(store, run.id, place.ledger.entries())
    await store.close()
    return found


def entry_of(found: History, kind: str) -> Entry:
    return next(e for e in found.done if e.call_id.endswith(f":{STEP}") and e.kind == kind)


def without(found: History, *gone: Entry) -> History:
    return replace(found, done=tuple(e for e in found.done if e not in gone))


def twice(found: History, kind: str) -> History:
    return replace(found, done=(*found.done, entry_of(found, kind)))


def with_step(found: History, **changes: object) -> History:
    steps = dict(found.run.steps)
    steps[STEP] = replace(steps[STEP], **changes)  # type: ignore[arg-type]  # whatever is planted
    return replace(found, run=replace(found.run, steps=steps))


def with_event(found: History, kind: str, *, node: str | None = None) -> History:
    """One more event, at the end."""
    event: dict[str, JsonValue] = {"type": kind} if node is None else {"type": kind, "node": node}
    last = found.entries[-1]
    more = replace(last, version=last.version + 1, entries=values.encode([event]))
    return replace(found, entries=(*found.entries, more))


def stopped_first(found: History, kind: str) -> History:
    """The first entry says that the run was stopped, and everything else follows."""
    event: dict[str, JsonValue] = {"type": kind}
    first = replace(found.entries[0], entries=values.encode([event]))
    return replace(found, entries=(first, *found.entries[1:]))


def without_dispatch(found: History) -> History:
    """The commit in which the step was dispatched is not there."""
    kept = [e for e in found.entries if b'"node":"two","nonce"' not in e.entries]
    assert len(kept) == len(found.entries) - 1
    return replace(found, entries=tuple(kept))


def failed_for_sure(found: History) -> History:
    return with_step(found, status=StepStatus.FAILED)


BREAKAGES: Final[list[tuple[Check, Callable[[History], History]]]] = [
    (history.entered_once, lambda found: twice(found, "entered")),
    (history.entered_once, lambda found: twice(found, "effect")),
    (
        history.dispatched_once_and_before,
        lambda found: with_event(found, "step.dispatching", node=STEP),
    ),
    (history.dispatched_once_and_before, without_dispatch),
    (history.receipts_tell_the_truth, lambda found: without(found, entry_of(found, "effect"))),
    (history.no_false_failure, failed_for_sure),
    (history.no_false_failure, lambda found: with_step(found, status=StepStatus.PENDING)),
    (history.acted_tells_the_truth, lambda found: with_step(found, acted=Acted.NO)),
    (history.acted_tells_the_truth, lambda found: without(found, entry_of(found, "effect"))),
    (history.journal_is_whole, lambda found: replace(found, entries=found.entries[1:])),
    (history.journal_is_whole, lambda found: replace(found, entries=found.entries[:-1])),
    (history.journal_is_whole, lambda found: replace(found, entries=())),
    (
        history.journal_is_whole,
        lambda found: replace(found, run=replace(found.run, event_seq=found.run.event_seq + 1)),
    ),
    (history.ends_are_final, lambda found: with_event(found, "step.unknown", node=STEP)),
    (history.ends_are_final, lambda found: with_event(found, "run.settled")),
    (history.ends_are_final, failed_for_sure),
    (history.ends_are_final, lambda found: replace(found, entries=found.entries[:2])),
    (history.nothing_begins_while_stopped, lambda found: stopped_first(found, "run.cancelled")),
    (
        history.nothing_begins_while_stopped,
        lambda found: stopped_first(found, "run.pause_requested"),
    ),
]


async def test_a_good_run_gives_no_cause_for_complaint(good: History) -> None:
    assert complaints(good) == []
    assert len(good.done) == 8


@pytest.mark.parametrize(("check", "plant"), BREAKAGES)
async def test_each_check_finds_what_is_planted_for_it(
    good: History, check: Check, plant: Callable[[History], History]
) -> None:
    assert check(plant(good))


def test_no_check_goes_without_a_planted_breakage() -> None:
    assert {check for check, _ in BREAKAGES} == set(CHECKS)
