"""Drives one run in this process: decides, admits, and turns commits into calls.

An advance is a wave: every step whose dependencies are done starts, siblings in parallel. What
follows from a change is added to the very commit that makes the change, as far as it need not
wait; what has to wait (a guard, a slot, a payload, a `once` lookup) is held and looked at again
when it may go on. So a completion never waits for the next step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from mayura.runtime.admission import Admission
from mayura.runtime.call import Call
from mayura.runtime.calls import Calls
from mayura.runtime.core import decision, ending, values
from mayura.runtime.core import transitions as t
from mayura.runtime.core.budget import affordable, shortage
from mayura.runtime.core.call_key import call_key, once_subject
from mayura.runtime.core.deadlines import due_steps
from mayura.runtime.core.decision import Ready, View
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.draft import Draft
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, PayloadName, call_id_of
from mayura.runtime.loaded import Pinned
from mayura.runtime.ports import Refused, RunWrite
from mayura.runtime.process import Process
from mayura.runtime.run_writer import RunWriter, stopped


class RunDriver:
    """The follower of a run's writer. Keeps the run's books always, starts steps only on demand."""

    def __init__(self, process: Process, writer: RunWriter, pinned: Pinned) -> None:
        self.writer = writer
        self.pinned = pinned
        self.users = 0  #: callers that hold this driver
        self.just_read = True  #: nothing is gained by reading the run again before it is driven
        self._process = process
        self.payloads: dict[PayloadName, JsonValue] = {}  #: those that were read or written here
        self._unstored: dict[PayloadName, JsonValue] = {}  #: those of the draft at hand
        self._known: Mapping[PayloadName, JsonValue] = {}  #: both
        self._admission = Admission(process, writer.context, self._again, self._stop)
        self.calls = Calls(
            process, writer, self._admission, failed=self._stop, ended=self._check_rest
        )
        self._frontier: dict[NodeId, None] = {}
        self._unbegun: dict[NodeId, None] = {}  #: may begin, but not now or not here
        self._positions = {node.id: i for i, node in enumerate(pinned.definition.nodes)}
        self._driving = False
        self._asking = 0  #: callers of `until_rest`
        self._loading = 0
        self._fence = writer.run.fence
        self._stopped: BaseException | None = None
        self._unreachable: MayuraError | None = None
        self._moved = asyncio.Event()
        writer.follower = self

    # --- what callers ask -------------------------------------------------------------------

    @property
    def resting(self) -> bool:
        """Nothing is left to do here now: no call, no guard, nothing to read or write."""
        run = self.writer.run
        begins = run.open and not run.cancelled and run.paused_at_us is None
        held = self._loading > 0 or (begins and self._admission.waiting)
        return not self.calls and self.writer.idle and not (self._driving and held)

    async def until_rest(self) -> None:
        """Start what can start, until nothing is left to do now.

        Raises what stopped it (a store that does not answer, a store that would lose a dispatch).
        Once nobody asks any more nothing new is started; calls that are in hand go on and store
        their receipts all the same.
        """
        if self.pinned.workflow is not None and self._process.starts:
            self._driving = True
        self._stopped = self._unreachable = None
        self._look_everywhere()
        self.writer.poke(fresh=not self.just_read)
        self.just_read = False
        self._asking += 1
        try:
            while not self.resting:
                self._moved.clear()
                await self._moved.wait()
                if self._unreachable is not None:
                    raise self._unreachable
        finally:
            self._asking -= 1
            if not self._asking:
                self.stop_driving()
        if self._stopped is not None:
            raise self._stopped

    def stop_driving(self) -> None:
        """Start nothing more; keep the books of what is in hand."""
        self._driving = False
        self._admission.pass_on()
        self._check_rest()

    # --- the writer's follower --------------------------------------------------------------

    def advance(self, draft: Draft) -> None:
        """Add to `draft` what follows from it. Nothing else of this run moves meanwhile."""
        try:
            if draft.run.open:
                self._follow(draft)
        finally:
            self._admission.pass_on()

    def _follow(self, draft: Draft) -> None:
        due_now = self._decide(draft)
        if not ending.ended(self.pinned.definition, draft.run):
            self._rest(draft, due_now=due_now)
            return
        missing = self._missing(ending.end_reads(self.pinned.definition, draft.run))
        if self._driving and missing:
            self._load(missing, ())
            self._rest(draft, due_now=True)
            return
        end = ending.settled(self._view(draft))
        if end is None:
            self._rest(draft, due_now=True)
        else:
            draft.apply(end)

    def won(self, draft: Draft, write: RunWrite) -> None:
        """The draft is durable: call what it dispatched."""
        if self._driving:
            self.payloads.update(self._unstored)
        else:
            self._forget(self._unstored)
        for node in write.dispatches:
            self.calls.make(write.after.steps[node].dispatch)
        if write.after.cancelled:
            self.calls.tell_cancelled()

    def refused(self, draft: Draft, write: RunWrite, refused: Refused) -> None:
        """Nothing of `draft` is stored: give back what it took, and look at everything again."""
        for node in write.dispatches:
            dispatch = write.after.steps[node].dispatch
            stored = self.writer.run.step(node).dispatch
            assert dispatch is not None
            if stored is not None and stored.nonce == dispatch.nonce:
                self.calls.make(dispatch)  # an earlier sending, unanswered then, had been committed
            else:
                self.calls.give_up(dispatch)
        if refused.reason == "once" and write.once is not None:
            self._admission.refuse_once(write.once.node, write.once.digest)
        if refused.reason == "not_durable":
            self._stop(MayuraError(Code.INVALID_CONFIG, f"no call is begun: {refused.remedy}"))
        self._look_everywhere()

    def dropped(self, draft: Draft) -> None:
        """Nothing of `draft` is or will be stored: give back what it took."""
        for node in draft.dispatches:
            self.calls.give_up(draft.run.step(node).dispatch)
        self._look_everywhere()

    def reread(self) -> None:
        """Another process may have moved the run: look at everything again."""
        resolved = [n for n, step in self.writer.run.steps.items() if step.resolution is not None]
        self._forget(PayloadName(f"output:{node}") for node in resolved)
        self._look_everywhere()
        if self.writer.run.cancelled:
            self.calls.tell_cancelled()

    def written(self) -> None:
        self._check_rest()

    def unreachable(self, error: MayuraError) -> None:
        self._unreachable = error
        self._moved.set()

    def broken(self, error: BaseException) -> None:
        self.calls.give_up_all()
        self._admission.pass_on()
        self._stop(error if isinstance(error, Exception) else stopped())

    # --- deciding ---------------------------------------------------------------------------

    def _look_everywhere(self) -> None:
        self._frontier = dict.fromkeys(self._positions)

    def _reach(self, node: NodeId) -> None:
        self._frontier[node] = None
        for dependent in self.pinned.definition.dependents.get(node, ()):
            self._frontier[dependent] = None

    def _view(self, draft: Draft) -> View:
        return View(
            definition=self.pinned.definition,
            policy=self.pinned.policy,
            code=self.pinned.workflow if self._driving else None,
            run=draft.run,
            payloads=self._known,
            now=draft.now,
            own=self._process.in_flight,
        )

    def _decide(self, draft: Draft) -> bool:
        """Apply what follows until nothing does; whether something more could start here."""
        due_now = False
        later: list[NodeId] = []
        self._unstored = {name: values.decode(body) for name, body in draft.payloads.items()}
        self._known = {**self.payloads, **self._unstored} if self._unstored else self.payloads
        for node in (*draft.moved, *due_steps(draft.run, draft.now, self._process.in_flight)):
            self._reach(node)
        self._frontier.update(self._unbegun)  # so that no draft puts the run to sleep over them
        self._unbegun.clear()
        while self._frontier:
            reached = sorted(self._frontier, key=self._positions.__getitem__)
            cancelled = draft.run.cancelled
            nodes = [n for n in reached if cancelled or not self._admission.holds(n)]
            due_now = due_now or len(nodes) < len(reached)
            self._frontier.clear()
            missing = self._missing(decision.wanted(self.pinned.definition, draft.run, nodes))
            if missing and self._driving:
                self._load(missing, nodes)
                due_now = True
                break
            decided = decision.decide(self._view(draft), nodes)
            if decided.unstarted:
                due_now = True
                self._unbegun.update(dict.fromkeys(nodes))
            for transition in decided.transitions:
                draft.apply(transition)
                self._reach(transition.node)  # type: ignore[union-attr]  # decide moves steps only
            for ready in decided.ready:
                verdict = self._admit(draft, ready)
                due_now = due_now or verdict != "go"
                if verdict == "next":
                    later.append(ready.node.id)
                elif verdict == "held":
                    self._unbegun[ready.node.id] = None
        for node in later:
            self._again(node)
        return due_now or self._admission.waiting or self._loading > 0

    def _rest(self, draft: Draft, *, due_now: bool) -> None:
        run = draft.run
        rest = ending.rest(run, draft.now, due_now=due_now)
        if rest.status is not run.status or rest.wake_at_us != run.wake_at_us:
            draft.apply(rest)

    # --- admitting and dispatching ----------------------------------------------------------

    def _admit(self, draft: Draft, ready: Ready) -> Literal["go", "held", "next"]:
        """Put a ready call into the draft if nothing stands in its way."""
        if not self._process.starts or draft.run.fence != self._fence or self._stopped is not None:
            return "held"
        if ready.node.id in self.calls.made:
            text = f"step {ready.node.id!r} was called, and its dispatch is not stored any more: "
            text += "the store went back in time; it is not called again here (G15)"
            self._stop(MayuraError(Code.INTEGRITY_VIOLATION, text))
            return "held"
        workflow = self.pinned.workflow
        assert workflow is not None
        node, tool = ready.node, workflow.tool(ready.node.id)
        if ready.ask is None and not affordable(draft.run, node.tool.cost_micros):
            asked = shortage(draft.run, node.tool.cost_micros)  # a sibling took it just now
            draft.apply(t.Block(node.id, Code.BUDGET_EXCEEDED, asked))
            self._reach(node.id)
            return "go"
        once = once_subject(self._process.store.once_key, node.tool, ready.input)
        call = self._new_call(ready, draft, once)
        verdict = self._admission.admit(ready, tool, call, once, draft)
        if isinstance(verdict, t.Block):
            draft.apply(verdict)
            self._reach(node.id)
            return "go"
        if verdict == "go" and ready.ask is not None:
            draft.apply(ready.ask)
        elif verdict == "go":
            limit = self.pinned.policy.output_bytes_max
            self.calls.begin(draft, ready, tool=tool, call=call, once=once, output_bytes_max=limit)
        return verdict

    def _new_call(self, ready: Ready, draft: Draft, once: bytes | None) -> Call:
        run_id, node = draft.run.run_id, ready.node
        return Call(
            run_id=run_id,
            call_id=call_id_of(run_id, node.id),
            key=call_key(run_id, node.id, once),
            scope=self._process.store.scope,
            cost_micros=node.tool.cost_micros,
            deadline_us=draft.now.wall_us + node.tool.timeout_ms * 1_000,
        )

    # --- reading payloads -------------------------------------------------------------------

    def _missing(self, names: Collection[PayloadName]) -> frozenset[PayloadName]:
        return frozenset(names) - self.payloads.keys() - self._unstored.keys()

    def _forget(self, names: Iterable[PayloadName]) -> None:
        """They may have been stored anew: a resolution may go on with another output."""
        for name in names:
            self.payloads.pop(name, None)

    def _load(self, names: Collection[PayloadName], nodes: Iterable[NodeId]) -> None:
        self._loading += 1
        self._process.start(self._read(names, tuple(nodes)), self.writer.context)

    async def _read(self, names: Collection[PayloadName], nodes: Iterable[NodeId]) -> None:
        try:
            found = await self._process.store.payloads(self.writer.run_id, names)
            if absent := sorted(set(names) - found.keys()):
                text = f"run {self.writer.run_id} lacks the stored value {absent[0]!r}"
                raise MayuraError(Code.INTEGRITY_VIOLATION, text)
            self.payloads.update({name: values.decode(body) for name, body in found.items()})
        except Exception as error:  # noqa: BLE001 - reaches whoever drives the run; nothing is decided
            self._loading -= 1
            self._unbegun.update(dict.fromkeys(nodes))
            self._stop(error)
            return
        self._loading -= 1
        self._frontier.update(dict.fromkeys(nodes))
        if self._driving:  # else this driver may be forgotten, and the run have another
            self.writer.poke()

    # --- resting ----------------------------------------------------------------------------

    def _again(self, node: NodeId) -> None:
        self._frontier[node] = None
        if self._driving:
            self.writer.poke()
        else:
            self._admission.pass_on()

    def _stop(self, error: BaseException) -> None:
        self._stopped = error
        self._check_rest()

    def _check_rest(self) -> None:
        if self.resting:
            self._driving = False
            self._moved.set()
            self._process.on_rest(self.writer.run_id)
