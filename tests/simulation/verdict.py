"""What must hold when the faults are over and everything has come to rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mayura.runtime.core.deadlines import passed
from mayura.runtime.core.definition import ToolNode
from mayura.runtime.core.state import Instant, Receipt, Run, RunStatus, Step, StepStatus
from mayura.runtime.core.why import why
from mayura.runtime.errors import MayuraError
from mayura.runtime.ids import call_id_of
from mayura.runtime.journal import EventRecord, verified_events
from tests.simulation.provider import CERTAIN, Entry

if TYPE_CHECKING:
    from tests.simulation.actors import Intended
    from tests.simulation.world import World

NAMELESS = "It has steps that can start now."
TWO_SWEEPS_US = 2_500_000
AT_REST = (RunStatus.WAITING, RunStatus.PAUSED)


def without_reason(world: World) -> Iterator[str]:
    """Runs that neither ended nor wait for something with a name, though nothing is in the way."""
    full = any(process.full for process in world.processes)
    for intended in world.intended:
        run = world.stored(intended.run_id)
        if run is None:
            yield f"run {intended.key} was never submitted"
        elif run.open:
            said = why(world.definition(run), run, accepted=True)
            now = world.clock()
            moved = now.wall_us - run.last_at_us < TWO_SWEEPS_US
            rests = run.status in AT_REST and said != NAMELESS
            if not rests and not moved and not full and not _in_a_call(run, now):
                yield f"run {run.key} is {run.status}: {said} (G13)"


def _in_a_call(run: Run, now: Instant) -> bool:
    dispatches = [s.dispatch for s in run.steps.values() if s.status is StepStatus.DISPATCHING]
    return any(d is not None and not passed(d.settle, now) for d in dispatches)


def unfinished(world: World) -> Iterator[str]:
    """Runs that did not end, though everybody answered."""
    for intended in world.intended:
        run = world.stored(intended.run_id)
        if run is None or run.open:
            state = "missing" if run is None else why(world.definition(run), run, accepted=True)
            yield f"run {intended.key} does not come to its end: {state} (G13)"


def flaws(world: World) -> Iterator[str]:
    """Everything that the end of the story shows to be wrong."""
    for intended in world.intended:
        kept = world.database.runs.get(intended.run_id)
        if kept is None:
            continue
        run = kept.run
        try:
            events = verified_events(kept.journal)
        except MayuraError as error:
            yield f"run {run.key}: {error} (journal)"
            continue
        if len(events) != run.event_seq or len(kept.journal) != run.version:
            yield f"run {run.key}: {len(events)} events and {len(kept.journal)} versions (G7)"
        yield from _dropped(intended, run, events)
        for node in world.definition(run).nodes:
            if isinstance(node, ToolNode):
                entry = world.provider.ledger.get(call_id_of(run.run_id, node.id))
                for wrong in _wrong_call(world, node, run.step(node.id), entry):
                    yield f"run {run.key} step {node.id}: {wrong}"


def _dropped(intended: Intended, run: Run, events: list[EventRecord]) -> Iterator[str]:
    """What was acknowledged and is not in the journal (G13)."""
    for kind, name in sorted(intended.acknowledged):
        found = [event for event in events if event.type == kind]
        if not any(not name or name in event.data.values() for event in found):
            yield f"run {run.key}: {kind} {name} was acknowledged and is not there (G13)"


def _wrong_call(world: World, node: ToolNode, step: Step, entry: Entry | None) -> Iterator[str]:
    quiet = node.tool.changes_nothing
    if entry is None:
        if step.receipt is Receipt.SUCCEEDED:
            yield "its receipt says succeeded, and the ledger knows nothing of it"
        return
    uncertain = (StepStatus.SUCCEEDED, StepStatus.BLOCKED, StepStatus.UNKNOWN)
    if entry.acted and not quiet and step.status not in uncertain:
        yield f"it is {step.status}, and the ledger says that it acted (G10)"
    told = step.receipt not in (None, Receipt.UNKNOWN)
    if entry.ended and entry.process.alive and entry.manner in CERTAIN and not quiet and not told:
        yield f"its process lives and did not store its receipt: {step.receipt} (G4)"
    if world.weather.fair and entry.manner in CERTAIN and step.status is StepStatus.UNKNOWN:
        yield "it is unknown, and nothing went wrong (R13)"
