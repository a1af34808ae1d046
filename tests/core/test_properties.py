"""Whatever happens, in whatever order, to whatever workflow: what never breaks.

Each rule is something that can happen to a run between two readings of it. After each of them every
invariant is checked against what was true before; at the end everything is answered, and the run
must come to its end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mayura.runtime.core import decision, outcome
from mayura.runtime.core import transitions as t
from mayura.runtime.core.deadlines import next_wake_us
from mayura.runtime.core.definition import Definition, HumanNode, JsonValue, SignalNode, ToolNode
from mayura.runtime.core.outcome import Ending
from mayura.runtime.core.state import (
    TERMINAL_STEPS,
    Acted,
    Instant,
    Question,
    Receipt,
    RunStatus,
    StepStatus,
)
from mayura.runtime.core.why import why
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId
from mayura.runtime.journal import verified_events
from mayura.storage.memory_checks import check_run, check_step
from tests.core.drive import PERSON, SECOND_US, Drive, begin_of
from tests.core.random_graphs import COST_MICROS_MAX, definitions, inputs, outputs
from tests.core.truths import calls_of, refuse_a_lie, refuse_a_way_back, refuse_going_back

S = StepStatus
ENDINGS: Final[tuple[Ending, ...]] = ("returned", "refused", "raised", "timed_out", "cancelled")
WITHHELD: Final = (None, None, Code.INVALID_OUTPUT, Code.LIMIT_EXCEEDED, Code.GUARD_BLOCKED)
MOMENTS_S: Final = (0.001, 1, 49, 60, 91, 3_600, 10_000)
JUMP_S: Final = 5_000
LONG_S: Final = 100 * JUMP_S
endings = st.sampled_from(ENDINGS)
usage = st.sampled_from([None, None, 0, 3, COST_MICROS_MAX, COST_MICROS_MAX + 5])
ANY: Final = st.data()


class AnyRun(RuleBasedStateMachine):
    """One run of a random workflow, and everything that can happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = False  #: whether anybody looked at the run since time passed

    @initialize(
        definition=definitions(),
        value=inputs,
        budget=st.sampled_from([10_000, 10_000, 10_000, 80, 0]),
        loaded=st.sampled_from([True, True, True, False]),
    )
    def submit(self, definition: Definition, value: JsonValue, budget: int, loaded: bool) -> None:
        self.drive = Drive(definition, input=value, budget_micros=budget, loaded=loaded)
        self.seen = self.drive.run

    def take(self, data: st.DataObject, found: list[NodeId]) -> NodeId:
        return data.draw(st.sampled_from(found))

    def happens(self, what: Callable[[], None]) -> None:
        """`what` is committed, or refused and changes nothing."""
        before = self.drive.run
        try:
            what()
        except MayuraError as refusal:
            refused = refusal.code
        else:
            self.looked = True
            return
        assert refused is Code.CONFLICT
        assert self.drive.run == before

    # --- which steps something can happen to ------------------------------------------------

    def in_hand(self) -> list[NodeId]:
        own = self.drive.own
        return [n for n in self.drive.in_status(S.DISPATCHING) if self.drive.nonce(n) in own]

    def dispatched(self) -> list[NodeId]:
        steps = self.drive.run.steps
        return [n.id for n in self.drive.definition.nodes
                if n.id in steps and steps[n.id].dispatch is not None]  # fmt: skip

    def asking(self) -> list[NodeId]:
        found = self.drive.in_status(S.WAITING)
        return [n for n in found if isinstance(self.drive.definition.index[n], ToolNode)]

    def questions(self) -> list[NodeId]:
        return [
            n
            for n in self.drive.in_status(S.WAITING)
            if isinstance(detail := self.drive.step(n).detail, Question)
            and detail.answer_digest is None
        ]

    def signals(self) -> list[NodeId]:
        nodes = self.drive.definition.nodes
        return [n.id for n in nodes if isinstance(n, SignalNode)]

    # --- rules ------------------------------------------------------------------------------

    @rule()
    def advance(self) -> None:
        self.happens(self.drive.commit)

    @precondition(lambda self: self.in_hand())
    @rule(data=ANY, ending=endings, output=outputs, known=usage,
          unknown=st.sampled_from([0, 0, 0, 2]), withheld=st.sampled_from(WITHHELD))  # fmt: skip
    def a_call_ends(
        self,
        data: st.DataObject,
        ending: Ending,
        output: JsonValue,
        known: int | None,
        unknown: int,
        withheld: Code | None,
    ) -> None:
        node = self.take(data, self.in_hand())

        def end() -> None:
            self.drive.end(
                node,
                ending,
                output=output,
                withheld=withheld,
                known_micros=known,
                unknown_micros=unknown,
            )

        self.happens(end)

    @rule(data=ANY)
    def everybody_answers(self, data: st.DataObject) -> None:
        """What makes a run go on: each call ends, each person and system answers."""
        for node in self.in_hand():
            self.happens(partial(self.drive.end, node, data.draw(endings)))
        self.people_and_systems_answer()

    @precondition(lambda self: self.in_hand())
    @rule(data=ANY)
    def the_last_check_says_no(self, data: st.DataObject) -> None:
        node = self.take(data, self.in_hand())
        decline = t.Decline(node, self.drive.nonce(node), Code.TIMEOUT)
        self.happens(lambda: self.drive.commit(decline))

    @precondition(lambda self: self.dispatched())
    @rule(data=ANY, receipt=st.sampled_from(Receipt), charge=st.integers(0, 60))
    def evidence_comes_from_elsewhere(
        self, data: st.DataObject, receipt: Receipt, charge: int
    ) -> None:
        """Also for a step that ended, for a run that ended, and against what is known."""
        node = self.take(data, self.dispatched())
        changing = not self.drive.tool(node).tool.changes_nothing
        acted = {Receipt.SUCCEEDED: Acted.YES, Receipt.UNKNOWN: Acted.UNKNOWN}
        charged = {Receipt.NOT_STARTED: 0, Receipt.UNKNOWN: None}
        record = t.RecordReceipt(
            node,
            self.drive.nonce(node),
            receipt,
            acted.get(receipt, Acted.NO) if changing else Acted.NO,
            None,
            charged.get(receipt, charge),
            False,
        )
        self.happens(lambda: self.drive.commit(record))

    @precondition(lambda self: self.dispatched())
    @rule(data=ANY, ending=endings)
    def a_body_ends_late(self, data: st.DataObject, ending: Ending) -> None:
        ended = [n for n in self.dispatched() if self.drive.status(n) is not S.DISPATCHING]
        if ended:
            node = self.take(data, ended)
            self.happens(lambda: self.drive.end(node, ending))

    @precondition(lambda self: self.dispatched())
    @rule(data=ANY)
    def somebody_dispatches_a_step_again(self, data: st.DataObject) -> None:
        """G1: refused, whatever became of the first dispatch."""
        node = self.take(data, self.dispatched())
        nonce = self.drive.nonce(node)
        again = begin_of(self.drive.tool(node), nonce, self.drive.now, self.drive.run)
        before = self.drive.run
        with pytest.raises(MayuraError):
            self.drive.commit(again)
        assert self.drive.run == before

    @precondition(lambda self: self.asking())
    @rule(data=ANY, yes=st.booleans())
    def a_person_decides(self, data: st.DataObject, yes: bool) -> None:
        node, at_us = self.take(data, self.asking()), self.drive.now.wall_us
        kind = t.Approve if yes else t.Reject
        self.happens(lambda: self.drive.commit(kind(node, PERSON, at_us, "c")))

    @precondition(lambda self: self.questions())
    @rule(data=ANY, value=outputs)
    def a_person_answers(self, data: st.DataObject, value: JsonValue) -> None:
        node = self.take(data, self.questions())
        self.happens(lambda: self.drive.respond(node, value))

    @precondition(lambda self: self.signals())
    @rule(data=ANY, value=outputs)
    def a_signal_comes(self, data: st.DataObject, value: JsonValue) -> None:
        """Early, in time, late, twice, for a step that was left out: taken or refused."""
        node = self.take(data, self.signals())
        self.happens(lambda: self.drive.signal(node, value))

    @rule(seconds=st.sampled_from(MOMENTS_S))
    def time_passes(self, seconds: float) -> None:
        self.drive.later(seconds)
        self.looked = False

    @rule(seconds=st.sampled_from([-JUMP_S, JUMP_S]))
    def the_wall_clock_jumps(self, seconds: int) -> None:
        now = self.drive.now
        self.drive.now = Instant(now.wall_us + seconds * SECOND_US, now.steady_us, now.epoch)
        self.looked = False

    @rule(reboot=st.booleans())
    def the_process_dies(self, reboot: bool) -> None:
        self.drive.own.clear()
        if reboot:
            self.drive.reboot()
        self.looked = False

    @rule()
    def an_operator_settles_what_was_abandoned(self) -> None:
        nodes = [n for n in self.drive.in_status(S.DISPATCHING) if n not in self.in_hand()]
        moves = [decision.abandon(self.drive.tool(n), self.drive.step(n), command_id="c")
                 for n in nodes]  # fmt: skip
        self.happens(lambda: self.drive.commit(*moves))

    @rule()
    def the_run_is_paused(self) -> None:
        self.happens(self.drive.pause)

    @rule()
    def the_run_is_resumed(self) -> None:
        self.happens(self.drive.resume)

    @precondition(lambda self: len(self.drive.journal) > 6)
    @rule()
    def the_run_is_cancelled(self) -> None:
        self.happens(self.drive.cancel)

    @rule(loaded=st.booleans())
    def a_release_has_the_code_or_not(self, loaded: bool) -> None:
        self.drive.loaded = loaded
        self.happens(self.drive.commit)

    @rule(data=ANY, held=st.booleans())
    def a_guard_takes_its_time(self, data: st.DataObject, held: bool) -> None:
        nodes = [node.id for node in self.drive.definition.nodes]
        self.drive.held = {self.take(data, nodes)} if held else set()
        self.happens(self.drive.commit)

    # --- what never breaks ------------------------------------------------------------------

    @invariant()
    def nothing_breaks(self) -> None:
        """Compared with the reading before; this one is what the next is compared with."""
        self.money_is_never_spent_twice()
        self.no_step_goes_back()
        self.a_paused_or_cancelled_run_dispatches_nothing()
        self.what_a_step_says_is_true()
        self.every_store_holds_such_a_run()
        self.the_journal_tells_the_same_story()
        self.an_open_run_has_a_wake_source()
        self.a_settled_run_has_the_status_of_its_worst_step()
        self.seen = self.drive.run

    def money_is_never_spent_twice(self) -> None:
        """G14, and the books of the run are those of its steps."""
        run, steps = self.drive.run, self.drive.run.steps.values()
        assert run.spent_micros + run.reserved_micros <= run.maximum_micros
        assert min(run.spent_micros, run.reserved_micros, run.overrun_micros) >= 0
        assert run.reserved_micros == sum(step.reserved_micros for step in steps)
        charged = sum(step.charged_micros for step in steps)
        assert run.spent_micros + run.overrun_micros == charged

    def no_step_goes_back(self) -> None:
        for node, before in self.seen.steps.items():
            refuse_going_back(before, self.drive.run.step(node))

    def a_paused_or_cancelled_run_dispatches_nothing(self) -> None:
        stopped = (self.seen.paused_at_us, self.seen.cancelled) != (None, False)
        still = self.drive.run.paused_at_us is not None or self.drive.run.cancelled
        if stopped and still:
            assert calls_of(self.drive.run) == calls_of(self.seen)

    def what_a_step_says_is_true(self) -> None:
        for step in self.drive.run.steps.values():
            refuse_a_lie(step)

    def every_store_holds_such_a_run(self) -> None:
        """Else a check of the tables would refuse what happened, and lose it (G5)."""
        check_run(self.drive.run)
        for node, step in self.drive.run.steps.items():
            check_step(self.drive.run, node, step)

    def the_journal_tells_the_same_story(self) -> None:
        events = verified_events(self.drive.journal)
        assert self.drive.run.event_seq == len(events)
        assert self.drive.run.version == self.drive.journal[-1].version
        dispatches = [event.data["node"] for event in events if event.type == "step.dispatching"]
        assert len(dispatches) == len(set(dispatches))
        assert set(dispatches) == calls_of(self.drive.run)
        for node in calls_of(self.drive.run):
            refuse_a_way_back(events, node)

    def an_open_run_has_a_wake_source(self) -> None:
        """G13: a time, or a person, a signal or a resume that `why` names."""
        run, now = self.drive.run, self.drive.now
        assert why(self.drive.definition, run, accepted=self.drive.loaded)
        if not self.looked or not run.open:
            assert run.open or run.wake_at_us is None
            return
        wanted_us = next_wake_us(run, now)
        if wanted_us is not None:
            assert run.wake_at_us is not None
            assert run.wake_at_us <= max(wanted_us, now.wall_us)
        if run.wake_at_us is None:
            waits = {node.id for node in self.drive.definition.nodes
                     if run.step(node.id).status is S.WAITING}  # fmt: skip
            assert run.status is RunStatus.PAUSED or (run.status is RunStatus.WAITING and waits)

    def a_settled_run_has_the_status_of_its_worst_step(self) -> None:
        run = self.drive.run
        if self.seen.open and not run.open:
            statuses = frozenset(self.drive.status(n.id) for n in self.drive.definition.nodes)
            expected = outcome.of_run(statuses, cancelled=run.cancelled)
            unfit = expected is RunStatus.SUCCEEDED and run.result_code is not None
            assert run.status is (RunStatus.FAILED if unfit else expected)
            assert statuses <= TERMINAL_STEPS
        if not self.seen.open:
            assert (run.status, run.settlement) == (self.seen.status, self.seen.settlement)

    def teardown(self) -> None:
        """When everything answers, every run ends in a bounded number of waves (case B16)."""
        if not hasattr(self, "drive"):
            return
        self.drive.loaded = True
        self.drive.held.clear()
        self.drive.later(LONG_S)
        if self.drive.run.paused_at_us is not None:
            self.drive.resume()
        rounds_max = 4 * len(self.drive.definition.nodes) + 4
        for _ in range(rounds_max):
            if not self.drive.run.open:
                break
            self.answer_everything()
        assert not self.drive.run.open, self.drive.statuses()
        self.looked = True
        self.nothing_breaks()

    def answer_everything(self) -> None:
        for node in self.in_hand():
            self.drive.end(node)
        self.people_and_systems_answer()
        self.drive.later(100).advance()

    def people_and_systems_answer(self) -> None:
        drive = self.drive
        for node in self.asking():
            self.happens(partial(drive.approve, node))
        for node in self.questions():
            self.happens(partial(drive.respond, node, "answer"))
        for node in drive.in_status(S.WAITING):
            if isinstance(drive.definition.index[node], SignalNode | HumanNode):
                self.happens(partial(drive.signal, node))


TestAnyRun = AnyRun.TestCase
TestAnyRun.settings = settings(
    max_examples=400,
    stateful_step_count=40,
    derandomize="CI" in os.environ,  # elsewhere a failure prints the line that repeats it
)
