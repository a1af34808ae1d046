"""What people, operators and other systems do to a run: recorded commands, each a compare-and-set.

Every command may carry a `command_id`: repeated under it, it changes nothing and succeeds; another
command under the same id is a CONFLICT. A command plans on the run as the store has it, at the
store's time, so an expiry is decided by the store's clock and by nobody's sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import uuid_utils

from mayura.runtime.call import REFUSAL_REASON_CHARS_MAX
from mayura.runtime.core import decision, values
from mayura.runtime.core import transitions as t
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.conformance import conforms
from mayura.runtime.core.deadlines import due_us
from mayura.runtime.core.definition import (
    HumanNode,
    JoinNode,
    JsonValue,
    Node,
    SignalNode,
    TimerNode,
    ToolNode,
)
from mayura.runtime.core.digest import COMMAND, keyed
from mayura.runtime.core.mistake import did_you_mean
from mayura.runtime.core.requests import answer_digest, signal_digest
from mayura.runtime.core.state import Approval, Question, Signal, StepStatus
from mayura.runtime.draft import Draft
from mayura.runtime.driver import RunDriver
from mayura.runtime.drivers import Drivers
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, PayloadName, RunId, check_name, check_text
from mayura.runtime.people import PERSON_CHARS_MAX, VerifyHuman, may_decide, verified
from mayura.runtime.ports import Command
from mayura.runtime.process import Life, Process

Kind = TypeVar("Kind", ToolNode, HumanNode)
COMMAND_ID_CHARS_MAX: Final = 128
SIGNAL_ID_CHARS_MAX: Final = 128
_WAITS_FOR: Final[dict[type[Node], str]] = {
    ToolNode: "is a call, and asks nothing: approve or reject it",
    HumanNode: "asks a question: respond to it",
    SignalNode: "waits for a signal: send it with signal(...)",
    TimerNode: "waits for a time, and for nobody",
    JoinNode: "collects other steps, and waits for nobody",
}


class Operations:
    """The commands. `Engine` adds submitting, driving and reading."""

    def __init__(
        self, process: Process, drivers: Drivers, verify_human: VerifyHuman | None
    ) -> None:
        self._process = process
        self._drivers = drivers
        self._verify_human = verify_human

    async def approve(
        self,
        run_id: RunId,
        node: str,
        digest: str,
        *,
        credential: str | None = None,
        unverified: str | None = None,
        reason: str = "",
        command_id: str | None = None,
    ) -> None:
        """Say yes to the exact call that `digest` binds.

        The same person's same decision again changes nothing. CONFLICT: decided otherwise or by
        somebody else, expired, or another digest. PERMISSION_DENIED: nobody who may decide.
        """
        await self._decide(run_id, node, digest, True, credential, unverified, reason, command_id)

    async def reject(
        self,
        run_id: RunId,
        node: str,
        digest: str,
        *,
        credential: str | None = None,
        unverified: str | None = None,
        reason: str = "",
        command_id: str | None = None,
    ) -> None:
        """Say no: the step ends `blocked` (REJECTED) and nothing acted. Errors as for approve."""
        await self._decide(run_id, node, digest, False, credential, unverified, reason, command_id)

    async def respond(
        self,
        run_id: RunId,
        node: str,
        digest: str,
        value: JsonValue,
        *,
        credential: str | None = None,
        unverified: str | None = None,
        command_id: str | None = None,
    ) -> None:
        """Answer the question that `digest` binds. The answer is data; it grants nothing.

        INVALID_INPUT: it does not fit, and the step keeps waiting. CONFLICT: answered otherwise,
        past the deadline, or another digest. An exact repeat (same command id) changes nothing.
        """
        async with self._drivers.hold(run_id) as driver:
            asked = node_of(driver, node, HumanNode)
            policy = driver.pinned.policy
            person = await verified(self._verify_human, credential, policy, unverified)
            stored = self._checked(driver, asked, asked.schema, value)

            def plan(draft: Draft, command: str) -> None:
                question = draft.run.step(asked.id).detail
                if not isinstance(question, Question) or question.digest.hex() != digest:
                    raise conflict("the question is not open, or it is another one; read it again")
                answered = answer_digest(draft.run, question.digest, command, person.id, stored)
                if question.answer_digest is not None:
                    raise conflict("the question was already answered")
                _in_time(draft, asked.id, "the question's deadline is over")
                draft.apply(t.Answer(asked.id, answered, person, command))
                draft.payloads[PayloadName(f"answer:{asked.id}")] = stored

            about = (asked.id.encode(), digest.encode(), person.id.encode(), stored)
            await self._carry_out(driver, "respond", about, command_id, plan)

    async def signal(self, run_id: RunId, name: str, signal_id: str, payload: JsonValue) -> None:
        """Deliver the signal `name`. The same id and payload again changes nothing.

        A signal that comes before its step waits is kept. NOT_FOUND: no such name. INVALID_INPUT:
        the payload does not fit. CONFLICT: another signal was first, its time is over, or the run
        has ended.
        """
        check_text("a signal id", signal_id, SIGNAL_ID_CHARS_MAX)
        async with self._drivers.hold(run_id) as driver:
            node = _signal_node(driver, name)
            stored = self._checked(driver, node, node.schema, payload)

            def plan(draft: Draft) -> None:
                digest = signal_digest(draft.run, name, stored)
                step = draft.run.step(node.id)
                got = step.detail if isinstance(step.detail, Signal) else Signal()
                if got.signal_id is not None:
                    if got.signal_id == signal_id and got.payload_digest == digest:
                        return
                    raise conflict(f"the signal {name!r} was already delivered to this run")
                if step.status is StepStatus.WAITING:
                    _in_time(draft, node.id, f"the time for the signal {name!r} is over")
                draft.apply(t.ReceiveSignal(node.id, signal_id, digest, draft.now.wall_us))
                draft.payloads[PayloadName(f"signal:{node.id}")] = stored

            await driver.writer.change(plan, fresh=True)

    async def pause(self, run_id: RunId, *, by: str, command_id: str | None = None) -> None:
        """Start nothing more; the run is `paused` once no call is in hand. Nothing lapses."""
        await self._command(run_id, "pause", by, command_id, t.Pause)

    async def resume(self, run_id: RunId, *, by: str, command_id: str | None = None) -> None:
        """Go on; every open request gets the lost time back (G13)."""
        await self._command(run_id, "resume", by, command_id, t.Resume)

    async def cancel(self, run_id: RunId, *, by: str, command_id: str | None = None) -> None:
        """Skip what has not begun and tell the calls in hand; nothing is undone (G10)."""
        await self._command(run_id, "cancel", by, command_id, _cancel)

    async def recover_abandoned(
        self,
        run_id: RunId,
        *,
        credential: str | None = None,
        unverified: str | None = None,
        command_id: str | None = None,
    ) -> None:
        """Settle calls of a dead process before their deadline, on a person's word (G9).

        A call that this very process has in hand is refused with CONFLICT.
        """
        async with self._drivers.hold(run_id) as driver:
            policy = driver.pinned.policy
            person = await verified(self._verify_human, credential, policy, unverified)

            def plan(draft: Draft, command: str) -> None:
                for name, step in draft.run.steps.items():
                    if step.status is not StepStatus.DISPATCHING or step.dispatch is None:
                        continue
                    if step.dispatch.nonce in self._process.in_flight:
                        raise conflict(f"step {name!r} is running in this very process")
                    node = driver.pinned.definition.index[name]
                    assert isinstance(node, ToolNode)
                    draft.apply(decision.abandon(node, step, command_id=command, person=person))

            await self._carry_out(driver, "recover_abandoned", (), command_id, plan)

    # --- how each of them is carried out ----------------------------------------------------

    async def _decide(
        self,
        run_id: RunId,
        node: str,
        digest: str,
        yes: bool,
        credential: str | None,
        unverified: str | None,
        reason: str,
        command_id: str | None,
    ) -> None:
        _refuse_reason(reason)
        async with self._drivers.hold(run_id) as driver:
            asked = node_of(driver, node, ToolNode)
            policy = driver.pinned.policy
            person = await verified(self._verify_human, credential, policy, unverified)
            said = values.encode(reason, "reason")

            def plan(draft: Draft, command: str) -> None:
                may_decide(person, draft.run, policy)
                approval = draft.run.step(asked.id).detail
                if not isinstance(approval, Approval) or approval.digest.hex() != digest:
                    raise conflict("the request is not open, or it is another one; read it again")
                if approval.approved is not None:
                    if approval.approved is yes and approval.decided_by == person.id:
                        return
                    raise conflict("the request was already decided")
                _in_time(draft, asked.id, "the request has expired; read the new one")
                kind = t.Approve if yes else t.Reject
                draft.apply(kind(asked.id, person, draft.now.wall_us, command))
                if reason:
                    draft.payloads[PayloadName(f"reason:{asked.id}")] = said

            about = (asked.id.encode(), digest.encode(), person.id.encode())
            await self._carry_out(driver, "approve" if yes else "reject", about, command_id, plan)

    async def _command(
        self,
        run_id: RunId,
        kind: str,
        by: str,
        command_id: str | None,
        move: Callable[[int, str, str], t.Transition],
    ) -> None:
        check_text("by", by, PERSON_CHARS_MAX)
        async with self._drivers.hold(run_id) as driver:

            def plan(draft: Draft, command: str) -> None:
                draft.apply(move(draft.now.wall_us, command, by))

            await self._carry_out(driver, kind, (), command_id, plan)

    async def _carry_out(
        self,
        driver: RunDriver,
        kind: str,
        about: Sequence[bytes],
        command_id: str | None,
        plan: Callable[[Draft, str], None],
    ) -> None:
        """Carry out a command, at most once under the id that the caller gave it."""
        if command_id is not None:
            check_text("a command id", command_id, COMMAND_ID_CHARS_MAX)
        command = str(uuid_utils.uuid7()) if command_id is None else command_id
        run_id, salt = driver.writer.run_id, driver.writer.run.salt
        digest = keyed(salt, COMMAND, kind.encode(), command.encode(), *about)
        if command_id is not None and await self._done(run_id, command, digest):
            return

        def recorded(draft: Draft) -> None:
            before = draft.run
            plan(draft, command)
            if command_id is not None or draft.run is not before:
                draft.carry_out(Command(command, digest))

        # Still: who verifies people may take a while, and after the engine was left nobody sees a
        # write to its end.
        self._process.require(Life.OPEN, Life.DRAINED)
        try:
            await driver.writer.change(recorded, fresh=True)
        except MayuraError as error:
            if error.code is not Code.CONFLICT or not await self._done(run_id, command, digest):
                raise

    async def _done(self, run_id: RunId, command: str, digest: bytes) -> bool:
        stored = await self._process.store.command(run_id, command)
        if stored is None:
            return False
        if stored == digest:
            return True
        raise conflict("this command id was used for another command on this run")

    def _checked(self, driver: RunDriver, node: Node, schema: JsonValue, value: JsonValue) -> bytes:
        """The value in its stored form; where the code is not loaded, by its schema (G12)."""
        workflow = driver.pinned.workflow
        try:
            if workflow is None:
                values.check(value)  # first: a schema is no match for something endless
                conforms(schema, value)
            elif isinstance(node, HumanNode):
                value = workflow.check_answer(node.id, value)
            else:
                value = workflow.check_signal(node.id, value)
            stored = values.encode(value)
        except (Invalid, MayuraError) as invalid:
            raise MayuraError(Code.INVALID_INPUT, f"step {node.id!r}: {invalid}") from None
        limit = driver.pinned.policy.output_bytes_max
        if len(stored) > limit:
            raise MayuraError(
                Code.LIMIT_EXCEEDED, f"step {node.id!r}: the value is over {limit} bytes"
            )
        return stored


def _refuse_reason(reason: object) -> None:
    if not isinstance(reason, str) or len(reason) > REFUSAL_REASON_CHARS_MAX:
        text = f"a reason is a text of at most {REFUSAL_REASON_CHARS_MAX} characters"
        raise MayuraError(Code.INVALID_INPUT, text)


def _cancel(at_us: int, command_id: str, by: str) -> t.Cancel:
    return t.Cancel(command_id, by)


def node_of(driver: RunDriver, name: str, kind: type[Kind]) -> Kind:
    """The node of this name and kind; NOT_FOUND says what it is, or what was meant."""
    check_name("a step's name", name)
    node = driver.pinned.definition.index.get(NodeId(name))
    if isinstance(node, kind):
        return node
    if node is not None:
        raise MayuraError(Code.NOT_FOUND, f"step {name!r} {_WAITS_FOR[type(node)]}")
    found = [n.id for n in driver.pinned.definition.nodes if isinstance(n, kind)]
    raise MayuraError(Code.NOT_FOUND, f"no such step {name!r}{did_you_mean(name, found)}")


def _signal_node(driver: RunDriver, name: str) -> SignalNode:
    check_name("a signal's name", name)
    signals = {n.name: n for n in driver.pinned.definition.nodes if isinstance(n, SignalNode)}
    if name in signals:
        return signals[name]
    named = driver.pinned.definition.index.get(NodeId(name))
    if isinstance(named, SignalNode):
        hint = f"; step {name!r} waits for the signal {named.name!r}"
    else:
        hint = did_you_mean(name, signals)
    raise MayuraError(Code.NOT_FOUND, f"no step waits for a signal {name!r}{hint}")


def _in_time(draft: Draft, node: NodeId, over: str) -> None:
    """Raises CONFLICT past the due time. While the run is paused nothing lapses (G13)."""
    due = due_us(draft.run.step(node))
    paused_us = draft.run.paused_at_us
    now_us = draft.now.wall_us if paused_us is None else paused_us
    if due is not None and now_us >= due:
        raise conflict(over)


def conflict(text: str) -> MayuraError:
    """What a command is told that comes too late, or twice in different forms."""
    return MayuraError(Code.CONFLICT, text)
