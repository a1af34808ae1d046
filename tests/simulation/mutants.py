"""Deliberate breakages of shipped code: each makes one sentence of the guarantee false.

A simulation that finds nothing is worth as much as what it would have found. Every mutant breaks
one function or constant for as long as its context lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Final
from unittest import mock

from mayura.runtime import dispatch, driver
from mayura.runtime.calls import Calls
from mayura.runtime.core import change, deadlines, decision, outcome
from mayura.runtime.core.decision import Ready
from mayura.runtime.core.definition import ToolNode, ToolSpec
from mayura.runtime.core.outcome import Ending, Evidence
from mayura.runtime.core.state import PENDING, Acted, Receipt, StepStatus
from mayura.runtime.core.transitions import Complete
from mayura.runtime.dispatch import Proof, StepCall
from mayura.runtime.draft import Draft
from mayura.runtime.driver import RunDriver
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import RunId
from mayura.runtime.ports import Loaded, Refused, RunWrite, Won
from mayura.runtime.run_writer import RunWriter
from mayura.storage.memory import MemoryStore
from mayura.storage.memory_database import MemoryDatabase

Mutant = Callable[[], AbstractContextManager[object]]


def _without(reason: str) -> Mutant:
    """The database does not refuse a write for this reason."""
    refusal = MemoryDatabase._refusal

    def broken(*asked: object) -> Refused | None:
        said: Refused | None = refusal(*asked)  # type: ignore[arg-type]
        return None if said is not None and said.reason == reason else said

    return lambda: mock.patch.object(MemoryDatabase, "_refusal", broken)


def no_last_check() -> AbstractContextManager[object]:
    """The body is entered without asking again (G3)."""

    async def broken(_: StepCall) -> bool:
        return True

    return mock.patch.object(StepCall, "_last_check", broken)


def checks_of_any_age() -> AbstractContextManager[object]:
    """A last check is good for ever (G3)."""
    return mock.patch.object(dispatch, "LAST_CHECK_AGE_S_MAX", 1e9)


def dispatches_of_any_age() -> AbstractContextManager[object]:
    """A dispatch may be called however long ago it was sent (G3)."""
    return mock.patch.object(dispatch, "LAST_CHECK_MARGIN_SHARE", 1e-9)


@contextmanager
def called_before_it_is_durable() -> Iterator[None]:
    """The call is made when its dispatch is sent, and nothing is checked (G2)."""
    begin = Calls.begin

    def broken(self: Calls, draft: Draft, ready: Ready, **how: object) -> None:
        begin(self, draft, ready, **how)  # type: ignore[arg-type]
        self.make(draft.run.step(ready.node.id).dispatch)

    with no_last_check(), mock.patch.object(Calls, "begin", broken):
        yield


@contextmanager
def own_calls_are_settled() -> Iterator[None]:
    """Settling does not ask what this process has in hand (G9)."""
    due_steps = deadlines.due_steps

    def broken(run: object, now: object, _: object) -> object:
        return due_steps(run, now, ())  # type: ignore[arg-type]

    view = RunDriver._view

    def blind(self: RunDriver, draft: object) -> object:
        return replace(view(self, draft), own=())  # type: ignore[arg-type]

    with (
        mock.patch.object(driver, "due_steps", broken),
        mock.patch.object(RunDriver, "_view", blind),
    ):
        yield


def settled_at_once() -> AbstractContextManager[object]:
    """Every settle deadline has passed (G9)."""
    return mock.patch.object(deadlines, "passed", return_value=True)


def dispatching_is_read_as_pending() -> AbstractContextManager[object]:
    """A run that is read again has forgotten its calls (G1, G11)."""
    load = MemoryStore.load

    async def broken(self: MemoryStore, run_id: RunId) -> Loaded | None:
        found = await load(self, run_id)
        if found is None:
            return None
        steps = {
            node: PENDING if step.status is StepStatus.DISPATCHING else step
            for node, step in found.run.steps.items()
        }
        return replace(found, run=replace(found.run, steps=steps))

    return mock.patch.object(MemoryStore, "load", broken)


def receipts_are_given_up() -> AbstractContextManager[object]:
    """A receipt that the store does not confirm is forgotten (G4)."""

    async def broken(self: StepCall, receipt: Proof) -> Proof:
        try:
            await self._writer.change(lambda draft: self._merge(draft, receipt))
        except MayuraError as error:
            if error.code is not Code.STORAGE_UNAVAILABLE:
                raise
        return replace(receipt, stored=True)

    return mock.patch.object(StepCall, "_record_receipt", broken)


def silence_is_consent() -> AbstractContextManager[object]:
    """A write that was not answered counts as committed (G2, G13)."""

    async def broken(
        self: RunWriter, draft: object, write: RunWrite, intents: object
    ) -> Won | Refused:
        try:
            return await self._store.write(write)
        except MayuraError as error:
            if error.code is not Code.STORAGE_UNAVAILABLE:
                raise
            return Won(self._store.estimate())

    return mock.patch.object(RunWriter, "_until_answered", broken)


def exceptions_are_failures() -> AbstractContextManager[object]:
    """A write tool that raised counts as one that did nothing (G10)."""
    evidence = outcome.evidence

    def broken(spec: ToolSpec, ending: Ending, known: int | None, unknown: int) -> Evidence:
        if ending == "raised":
            return Evidence(Receipt.FAILED, Acted.NO, None, 0)
        return evidence(spec, ending, known, unknown)

    return mock.patch.object(outcome, "evidence", broken)


def any_move_is_legal() -> AbstractContextManager[object]:
    """The table of moves allows everything, and a settled step is completed (G6)."""

    async def broken(self: StepCall, receipt: Proof, result: outcome.Outcome) -> None:
        end = Complete(
            self._x.node.id, self._x.nonce, result.status, result.code, result.cause, result.acted
        )

        def plan(draft: Draft) -> None:
            if not receipt.stored:
                self._merge(draft, receipt)
            draft.apply(end)

        await self._writer.change(plan, patient=True)

    stack = ExitStack()
    stack.enter_context(mock.patch.object(change, "legal", return_value=True))
    stack.enter_context(mock.patch.object(StepCall, "_complete", broken))
    return stack


def nobody_is_asked() -> AbstractContextManager[object]:
    """Steps that need a person's yes start without it."""
    tool = decision._tool

    def broken(view: decision.View, node: ToolNode, *rest: object) -> object:
        return tool(view, replace(node, approval=False), *rest)  # type: ignore[arg-type]

    return mock.patch.object(decision, "_tool", broken)


def nothing_wakes_a_run() -> AbstractContextManager[object]:
    """A run rests without saying when somebody must look again (G13)."""
    return mock.patch.object(deadlines, "next_wake_us", return_value=None)


def what_is_on_its_way_is_forgotten() -> AbstractContextManager[object]:
    """A run rests though a payload that a step waits for is being read (G13)."""
    nothing = property(lambda _: 0, lambda _, __: None)
    return mock.patch.object(RunDriver, "_loading", nothing, create=True)


def pausing_changes_nothing() -> AbstractContextManager[object]:
    """A paused run goes on."""
    decide = decision.decide

    def broken(view: decision.View, *rest: object) -> decision.Decision:
        run = replace(view.run, paused_at_us=None)
        return decide(replace(view, run=run), *rest)  # type: ignore[arg-type]

    return mock.patch.object(decision, "decide", broken)


MUTANTS: Final[Mapping[str, Mutant]] = {
    "versions are not compared": _without("lost"),
    "once is forgotten": _without("once"),
    **{
        mutant.__name__.replace("_", " "): mutant
        for mutant in (
            no_last_check,
            checks_of_any_age,
            dispatches_of_any_age,
            called_before_it_is_durable,
            own_calls_are_settled,
            settled_at_once,
            dispatching_is_read_as_pending,
            receipts_are_given_up,
            silence_is_consent,
            exceptions_are_failures,
            any_move_is_legal,
            nobody_is_asked,
            nothing_wakes_a_run,
            what_is_on_its_way_is_forgotten,
            pausing_changes_nothing,
        )
    },
}
