"""What never breaks also when somebody finds out, at any time, what became of calls."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from mayura.runtime.core import transitions as t
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.state import Acted, Receipt, Resolution, Run, StepStatus
from mayura.runtime.errors import MayuraError
from mayura.runtime.ids import NodeId, PayloadName
from tests.core.drive import PERSON
from tests.core.random_graphs import outputs
from tests.core.test_properties import ANY, AnyRun

S = StepStatus


class ResolvedRun(AnyRun):
    """A run whose unknown steps are resolved, rightly or wrongly, and contradicted later."""

    def unresolved(self) -> list[NodeId]:
        return [
            node
            for node, step in self.drive.run.steps.items()
            if step.status in (S.UNKNOWN, S.BLOCKED)
            and step.dispatch is not None
            and step.acted is not Acted.NO
        ]

    @precondition(lambda self: self.unresolved())
    @rule(data=ANY, resolution=st.sampled_from(Resolution), value=outputs)
    def somebody_finds_out(
        self, data: st.DataObject, resolution: Resolution, value: JsonValue
    ) -> None:
        node = self.take(data, self.unresolved())
        happened = resolution is Resolution.HAPPENED
        charge_micros = self.drive.step(node).reserved_micros if happened else 0
        found = t.Resolve(node, resolution, charge_micros, happened, "c-found", PERSON)
        stored = {PayloadName(f"output:{node}"): value} if happened else {}
        step = self.drive.step(node)
        if not happened and Receipt.SUCCEEDED in (step.receipt, step.contradiction):
            with pytest.raises(MayuraError):
                self.drive.commit(found)
            return
        self.drive.commit(found, payloads=stored)

    @precondition(lambda self: self.drive.run.open)
    @rule(data=ANY)
    def a_step_is_reopened_for_nothing(self, data: st.DataObject) -> None:
        """Nobody may bring a step back that was called, or that is not skipped."""
        node = self.take(data, [n.id for n in self.drive.definition.nodes])
        step = self.drive.step(node)
        if step.status is S.SKIPPED and step.dispatch is None:
            return
        with pytest.raises(MayuraError):
            self.drive.commit(t.Reopen(node))

    def a_settled_run_has_the_status_of_its_worst_step(self) -> None:
        run = self.drive.run
        if not self.seen.open and run.settlement > self.seen.settlement:
            assert changed_after_the_end(self.seen, run)
            self.seen = self.seen if run.open else run
        super().a_settled_run_has_the_status_of_its_worst_step()


def changed_after_the_end(before: Run, after: Run) -> bool:
    """Whether a step was resolved, or its resolution opposed: what alone reopens a run."""
    return not before.cancelled and any(
        step.resolution is not None and step.status is not before.step(node).status
        for node, step in after.steps.items()
    )


TestResolvedRun = ResolvedRun.TestCase
TestResolvedRun.settings = settings(
    max_examples=150, stateful_step_count=40, derandomize="CI" in os.environ
)
