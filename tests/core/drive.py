"""One run, driven through the pure core as the shell drives it, without a store or a tool.

Each commit holds what happened, what follows from it and what starts because of it. `decide` sees
only the payloads that it said it wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mayura.runtime.core import decision, ending, outcome, values
from mayura.runtime.core import transitions as t
from mayura.runtime.core.budget import affordable
from mayura.runtime.core.call_key import call_key
from mayura.runtime.core.deadlines import settle_wait_us
from mayura.runtime.core.decision import Ready, View
from mayura.runtime.core.definition import Definition, JsonValue, ToolNode
from mayura.runtime.core.digest import chain
from mayura.runtime.core.outcome import Ending, Outcome
from mayura.runtime.core.policy import Policy
from mayura.runtime.core.state import (
    Acted,
    Deadline,
    Dispatch,
    Instant,
    Receipt,
    Run,
    RunStatus,
    Step,
    StepStatus,
)
from mayura.runtime.draft import Draft, committed
from mayura.runtime.errors import Code
from mayura.runtime.ids import NodeId, Nonce, PayloadName, RunId, call_id_of
from mayura.runtime.ports import JournalEntry
from tests.core.graphs import BUDGET_MICROS, Types
from tests.core.graphs import policy as policy_for

SECOND_US: Final = 1_000_000
MARGIN_MS: Final = 60_000
START: Final = Instant(1_800_000_000 * SECOND_US, 5_000 * SECOND_US, "boot-1")
CREATED: Final = values.encode([{"type": "run.created"}])
PERSON: Final = t.Person("ada", "shop", "password")


def new_run(definition: Definition, policy: Policy, now: Instant = START) -> Run:
    """A run that was just submitted."""
    return Run(
        run_id=RunId("0" * 32),
        key="o-1",
        definition=definition.digest,
        policy=policy.digest,
        requested_by=None,
        salt=b"s" * 16,
        status=RunStatus.RUNNING,
        version=1,
        event_seq=1,
        chain=chain(bytes(32), 0, 1, CREATED),
        last_at_us=now.wall_us,
        created_at_us=now.wall_us,
        maximum_micros=policy.budget_micros,
        wake_at_us=now.wall_us,
    )


@dataclass
class Drive:
    """The run `run` of `definition`; `loaded` says whether its code is here (G12)."""

    definition: Definition
    input: JsonValue = None
    policy: Policy | None = None
    budget_micros: int = BUDGET_MICROS
    loaded: bool = True
    now: Instant = START
    held: set[NodeId] = field(default_factory=set)  #: steps that a guard or a slot keeps waiting
    own: set[Nonce] = field(default_factory=set)  #: calls that this process has in hand
    payloads: dict[PayloadName, JsonValue] = field(default_factory=dict)
    written: dict[PayloadName, bytes] = field(default_factory=dict)
    journal: list[JournalEntry] = field(default_factory=list)
    waves: int = 0  #: commits that decided
    _nonces: int = 0

    def __post_init__(self) -> None:
        self.pinned = self.policy or policy_for(self.definition, budget_micros=self.budget_micros)
        self.run = new_run(self.definition, self.pinned, self.now)
        self.payloads[PayloadName("input")] = self.input
        self._write_down(CREATED, 1, self._nonce())

    # --- what a test does -------------------------------------------------------------------

    def advance(self) -> Drive:
        """One wave: whatever follows now."""
        self.commit()
        return self

    def commit(
        self, *moves: t.Transition, payloads: Mapping[PayloadName, JsonValue] | None = None
    ) -> None:
        """What happened and what follows from it, in one commit; refused: nothing changes."""
        draft = Draft(self.run, self.now, 0.0)
        for move in moves:
            draft.apply(move)
        stored = {name: values.encode(value) for name, value in (payloads or {}).items()}
        draft.payloads.update(stored)
        self.payloads.update(payloads or {})
        if draft.run.open:
            self._follow(draft)
        if not draft.changed:
            return
        write = draft.build(self._nonce())
        self.run = committed(write.after, write.dispatches, self.now)
        self.written.update(write.payloads)
        self._write_down(write.entries, write.before.event_seq + 1, write.nonce)

    def end(
        self,
        node: str,
        ending: Ending = "returned",
        *,
        output: JsonValue = None,
        withheld: Code | None = None,
        known_micros: int | None = None,
        unknown_micros: int = 0,
    ) -> None:
        """The call of `node` ended so: its receipt, and its completion if it is still awaited."""
        name, spec, nonce = NodeId(node), self.tool(node).tool, self.nonce(node)
        found = outcome.evidence(spec, ending, known_micros, unknown_micros)
        returned = ending == "returned"
        receipt = t.RecordReceipt(
            name, nonce, found.receipt, found.acted, found.cause, found.charge_micros, returned
        )
        kept = {PayloadName(f"output:{node}"): output} if returned else {}
        if found.receipt is not Receipt.SUCCEEDED or found.charge_micros is None:
            result = outcome.without_output(spec, ending, found)
        else:
            result = outcome.withheld(spec, withheld) if withheld else outcome.succeeded(spec)
        if self.step(node).status is not StepStatus.DISPATCHING:
            self.commit(receipt, payloads=kept)
        elif spec.changes_nothing:
            self.commit(receipt, completion(name, nonce, result), payloads=kept)
        else:
            self.commit(receipt, payloads=kept)
            self.commit(completion(name, nonce, result))
        self.own.discard(nonce)

    def approve(self, node: str) -> None:
        """A verified person says yes."""
        self.commit(t.Approve(NodeId(node), PERSON, self.now.wall_us, "c-approve"))

    def respond(self, node: str, value: JsonValue) -> None:
        """A verified person answers."""
        answer = t.Answer(NodeId(node), b"answer", PERSON, "c-answer")
        self.commit(answer, payloads={PayloadName(f"answer:{node}"): value})

    def signal(self, node: str, payload: JsonValue = None) -> None:
        """A signal comes."""
        came = t.ReceiveSignal(NodeId(node), f"signal-{node}", b"payload", self.now.wall_us)
        self.commit(came, payloads={PayloadName(f"signal:{node}"): payload})

    def pause(self) -> None:
        self.commit(t.Pause(self.now.wall_us, "c-pause", "ops"))

    def resume(self) -> None:
        self.commit(t.Resume(self.now.wall_us, "c-resume", "ops"))

    def cancel(self) -> None:
        self.commit(t.Cancel("c-cancel", "ops"))

    def later(self, seconds: float) -> Drive:
        """Let time pass on both clocks."""
        by_us = round(seconds * SECOND_US)
        wall_us, steady_us = self.now.wall_us + by_us, self.now.steady_us + by_us
        self.now = Instant(wall_us, steady_us, self.now.epoch)
        return self

    def reboot(self) -> None:
        """The host restarts: its steady clock begins again, its calls are gone."""
        self.now = Instant(self.now.wall_us, 0, f"{self.now.epoch}+")
        self.own.clear()

    # --- what a test asks -------------------------------------------------------------------

    def step(self, node: str) -> Step:
        return self.run.step(NodeId(node))

    def status(self, node: str) -> StepStatus:
        return self.step(node).status

    def statuses(self) -> dict[str, str]:
        """The status of every step, as plain text."""
        return {node.id: self.status(node.id).value for node in self.definition.nodes}

    def tool(self, node: str) -> ToolNode:
        found = self.definition.index[NodeId(node)]
        assert isinstance(found, ToolNode)
        return found

    def nonce(self, node: str) -> Nonce:
        dispatch = self.step(node).dispatch
        assert dispatch is not None, f"{node} was not dispatched"
        return dispatch.nonce

    def in_status(self, status: StepStatus) -> list[NodeId]:
        return [node.id for node in self.definition.nodes if self.status(node.id) is status]

    def events(self, node: str | None = None) -> list[str]:
        """The types of the events, of one step if named, in order."""
        found: list[str] = []
        for entry in self.journal:
            decoded = values.decode(entry.entries)
            assert isinstance(decoded, list)
            for event in decoded:
                assert isinstance(event, dict)
                if node is None or event.get("node") == node:
                    found.append(str(event["type"]))
        return found

    def view(self, run: Run | None = None, reads: Iterable[PayloadName] = ()) -> View:
        """What `decide` sees now; of the payloads, only `reads`."""
        return View(
            definition=self.definition,
            policy=self.pinned,
            code=Types(self.definition) if self.loaded else None,
            run=run or self.run,
            payloads={name: self.payloads[name] for name in reads},
            now=self.now,
            own=self.own,
        )

    # --- how a commit is put together -------------------------------------------------------

    def _follow(self, draft: Draft) -> None:
        self.waves += 1
        due_now = bool(self.held)
        nodes = [node.id for node in self.definition.nodes]
        for _ in range(4 * len(nodes) + 4):
            before = draft.run
            due_now = self._decide(draft, nodes) or due_now
            if draft.run is before:
                break
        else:
            raise AssertionError("deciding finds no end")
        if ending.ended(self.definition, draft.run):
            reads = ending.end_reads(self.definition, draft.run)
            end = ending.settled(self.view(draft.run, reads))
            if end is not None:
                draft.apply(end)
                return
            due_now = True
        rest = ending.rest(draft.run, self.now, due_now=due_now)
        if rest.status is not draft.run.status or rest.wake_at_us != draft.run.wake_at_us:
            draft.apply(rest)

    def _decide(self, draft: Draft, nodes: list[NodeId]) -> bool:
        looked_at = [n for n in nodes if draft.run.cancelled or n not in self.held]
        wanted = decision.wanted(self.definition, draft.run, looked_at)
        decided = decision.decide(self.view(draft.run, wanted), looked_at)
        for move in decided.transitions:
            draft.apply(move)
        for ready in decided.ready:
            self._start(draft, ready)
        return decided.unstarted

    def _start(self, draft: Draft, ready: Ready) -> None:
        node = ready.node
        if ready.ask is not None:
            draft.apply(ready.ask)
        elif affordable(draft.run, node.tool.cost_micros):
            begun = begin_of(node, self._nonce(), self.now, draft.run, ready.digest)
            self.own.add(begun.dispatch.nonce)
            draft.begin(begun, None)
        else:
            draft.apply(t.Block(node.id, Code.BUDGET_EXCEEDED))

    def _write_down(self, entries: bytes, first_seq: int, nonce: Nonce) -> None:
        self.journal.append(
            JournalEntry(
                version=self.run.version,
                first_seq=first_seq,
                entries=entries,
                at_us=self.run.last_at_us,
                nonce=nonce,
                chain=self.run.chain,
            )
        )

    def _nonce(self) -> Nonce:
        self._nonces += 1
        return Nonce(self._nonces.to_bytes(16, "big"))


def begin_of(
    node: ToolNode, nonce: Nonce, now: Instant, run: Run, digest: bytes = b"input"
) -> t.Begin:
    """The record that the call of `node` was begun now."""
    wait_us = settle_wait_us(node.tool.timeout_ms, MARGIN_MS)
    dispatch = Dispatch(
        nonce=nonce,
        at_us=now.wall_us,
        settle=Deadline(now.steady_us + wait_us, now.epoch),
        settle_wait_us=wait_us,
        timeout_ms=node.tool.timeout_ms,
        input_digest=digest,
        fence=run.fence,
    )
    acted = Acted.NO if node.tool.changes_nothing else Acted.UNKNOWN
    call_id, key = call_id_of(run.run_id, node.id), call_key(run.run_id, node.id, None)
    return t.Begin(node.id, dispatch, node.tool.cost_micros, call_id, key, acted)


def completion(node: NodeId, nonce: Nonce, result: Outcome) -> t.Complete:
    """The step's end as its process saw it."""
    return t.Complete(node, nonce, result.status, result.code, result.cause, result.acted)
