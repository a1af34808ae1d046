"""One call of one step: the place that keeps the guarantee.

    write ahead  ->  last check  ->  invoke  ->  receipt  ->  complete

*Write ahead* (G2). The commit that says `dispatching` is confirmed durable before anything else
here happens. It is made by the run's writer, alone or together with the completion that made the
step ready; everything that can wait or refuse (grants, input, guards, slots) came before it. If its
answer was lost, the writer asks with the same nonce until it knows; until then there is no
`StepCall`.

*Last check* (G3). The run is read again. The call is declined unless the step is still dispatching
under this very nonce, the run is open, its policy and the input are the same, and at most a quarter
of the margin has passed since the dispatch was sent. A check older than 100 ms is made again.

*Invoke* (G1). The body is entered. This line is reached at most once for a dispatch record, and
there is at most one dispatch record for a step.

*Receipt* (G4). What a `write` or `host` tool did is durable, its raw output withheld, before
anybody validates or guards that output. The receipt of a `none` or `read` tool may travel with its
completion: losing it loses nothing that happened.

*Complete* (G6). The step's status is written only while it is `dispatching` under this nonce. If
somebody settled it meanwhile, only the receipt is merged.

What a crash leaves behind:

    before the dispatch commit        pending: somebody else dispatches it
    after it, before the body         dispatching, no receipt: settled at its deadline
    inside the body                   the same: nobody can tell these two apart, so `unknown`
    after the receipt                 dispatching, receipt succeeded: `blocked`, effect known
    after the completion              succeeded

In none of them is the tool called again (G11): nothing in this system takes a step from
`dispatching` back to `pending`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, replace
from time import monotonic

from mayura.runtime.call import Call
from mayura.runtime.core import outcome, values
from mayura.runtime.core import transitions as t
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.deadlines import LAST_CHECK_MARGIN_SHARE, settle_wait_us
from mayura.runtime.core.decision import Ready
from mayura.runtime.core.definition import JsonValue, ToolNode
from mayura.runtime.core.outcome import Evidence, Outcome
from mayura.runtime.core.state import Acted, Deadline, Dispatch, Receipt, StepStatus
from mayura.runtime.draft import Draft
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.faultpoints import faultpoint
from mayura.runtime.guarding import guard_verdict
from mayura.runtime.ids import CallId, Nonce, PayloadName, new_nonce
from mayura.runtime.invoke import Body, Ended, enter, wait
from mayura.runtime.loaded import AnyTool
from mayura.runtime.ports import CallRef, LastCheck, OnceClaim, Store
from mayura.runtime.run_writer import RunWriter

LAST_CHECK_AGE_S_MAX = 0.1
CHECK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A call whose dispatch commit is confirmed."""

    node: ToolNode
    tool: AnyTool
    call: Call
    nonce: Nonce
    input: JsonValue
    digest: bytes
    policy: bytes
    output_bytes_max: int
    once: bytes | None  #: the subject this call holds (G16)
    sent: float  #: monotonic time before the dispatch was sent
    margin_ms: int
    context: Context


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why an output cannot be kept."""

    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What a call proved: its receipt, and its raw output or why that cannot be kept."""

    found: Evidence
    output: bytes | Unfit | None
    reason: str = ""  #: why the tool refused: the only words of a tool that are stored
    stored: bool = False


def write_ahead(
    draft: Draft, ready: Ready, call: Call, *, margin_ms: int, once: bytes | None
) -> Nonce:
    """Add the record that the call was begun; the call is made when it is durable (G2)."""
    node, now, nonce = ready.node, draft.now, new_nonce()
    wait_us = settle_wait_us(node.tool.timeout_ms, margin_ms)
    dispatch = Dispatch(
        nonce=nonce,
        at_us=now.wall_us,
        settle=Deadline(now.steady_us + wait_us, now.epoch),
        settle_wait_us=wait_us,
        timeout_ms=node.tool.timeout_ms,
        input_digest=ready.digest,
        fence=draft.run.fence,
    )
    acted = Acted.NO if node.tool.changes_nothing else Acted.UNKNOWN
    cost_micros = node.tool.cost_micros
    begin = t.Begin(node.id, dispatch, cost_micros, call.call_id, call.key, acted, once)
    draft.begin(begin, None if once is None else OnceClaim(once, node.id))
    return nonce


class StepCall:
    """The one call of a dispatched step. `run` is its life as a list of named steps."""

    def __init__(
        self, dispatched: Dispatched, writer: RunWriter, store: Store, left: Callable[[], None]
    ) -> None:
        """`left` is told when the body has ended within its time."""
        self._x = dispatched
        self._writer = writer
        self._store = store
        self._left = left
        self._body: Body | None = None
        self._outlived = False
        self.proved: Receipt | None = None  #: what its end said; None: it was not entered, or runs

    @property
    def call_id(self) -> CallId:
        """Under which the tool knows this call."""
        return self._x.call.call_id

    @property
    def outlived(self) -> bool:
        """Whether the body was entered and its own end was not waited for."""
        return self._outlived

    @property
    def body_runs(self) -> bool:
        """Whether the body was entered and has not ended."""
        return self._body is not None and not self._body.ended.done()

    @property
    def may_prove(self) -> bool:
        """Whether its body's own end says something that anybody has to know."""
        return not self._x.node.tool.changes_nothing

    def cancel(self) -> None:
        """The run was cancelled: tell the tool. Its step ends as it would otherwise."""
        self._x.call.cancellation.set()

    async def run(self) -> None:
        """Take the call from its dispatch to its completion."""
        try:
            arguments = self._x.tool.arguments(self._x.input)
        except Invalid as invalid:  # a validator that says something else than before the dispatch
            await self._decline(Code.INVALID_INPUT, str(invalid))
            return
        if not await self._last_check():
            return
        ended = await self._invoke(arguments)
        receipt = self._proof(ended)
        if not self._x.node.tool.changes_nothing:
            receipt = await self._record_receipt(receipt)
        try:
            await self._complete(receipt, await self._outcome(ended, receipt))
        except MayuraError as error:
            if receipt.stored or error.code is Code.STORAGE_UNAVAILABLE:
                raise
            receipt = await self._record_receipt(receipt)
            await self._complete(receipt, await self._outcome(ended, receipt))

    async def _last_check(self) -> bool:
        """Whether the body may be entered now. Declines the call, durably, if not (G3)."""
        await faultpoint("check.before")
        while True:
            if monotonic() - self._x.sent > self._x.margin_ms / 1_000 / LAST_CHECK_MARGIN_SHARE:
                await self._decline(Code.TIMEOUT, "too long after its dispatch was sent")
                return False
            begun = monotonic()
            try:
                refs = [CallRef(self._writer.run_id, self._x.node.id)]
                found = (await self._store.last_checks(refs))[0]
            except Exception:  # noqa: BLE001 - without an answer nothing is called; time runs out
                await asyncio.sleep(CHECK_AGAIN_S)
                continue
            objection = self._objection(found)
            if objection is not None:
                await self._decline(*objection)
                return False
            await faultpoint("check.passed")
            if monotonic() - begun <= LAST_CHECK_AGE_S_MAX:
                return True

    def _objection(self, found: LastCheck | None) -> tuple[Code, str] | None:
        if found is None or found.nonce != self._x.nonce or not found.open:
            return Code.CONFLICT, "the run has ended, or the step is in this dispatch no more"
        if found.cancelled:
            return Code.CANCELLED, "the run was cancelled"
        if found.policy != self._x.policy:
            return Code.PERMISSION_DENIED, "the run has another policy than at the dispatch"
        if found.input_digest != self._x.digest:
            return Code.CONFLICT, "the stored input is not the one that was dispatched"
        return None

    async def _decline(self, code: Code, detail: str) -> None:
        decline = t.Decline(self._x.node.id, self._x.nonce, code, f"the last check: {detail}")

        def plan(draft: Draft) -> None:
            draft.apply(decline)
            self._release_once(draft)

        await self._writer.change(plan, patient=True)

    def _release_once(self, draft: Draft) -> None:
        """A call that certainly did not act gives its subject back, in the same commit (G16)."""
        step = draft.run.step(self._x.node.id)
        certain = step.receipt is Receipt.NOT_STARTED and step.acted is Acted.NO
        if self._x.once is not None and certain:
            draft.once_released.append(self._x.once)

    async def _invoke(self, arguments: Mapping[str, object]) -> Ended:
        """Enter the body, once."""
        await faultpoint("tool.entered")
        self._body = enter(self._x.tool, self._x.call, arguments, self._x.context)
        self._outlived = True
        ended = await wait(self._body, self._x.call, self._x.node.tool.timeout_ms)
        self._outlived = ended.ending == "timed_out"
        if not self._outlived:
            self._left()
        await faultpoint("tool.returned")
        return ended

    def _proof(self, ended: Ended) -> Proof:
        found = self._evidence(ended)
        self.proved = found.receipt
        reason = ended.reason if found.receipt is Receipt.NOT_STARTED else ""
        return Proof(found, self._raw_output(ended), reason)

    def _evidence(self, ended: Ended) -> Evidence:
        call, spec = self._x.call, self._x.node.tool
        if call.usage is not None:
            known, unknown = call.usage.known_micros, call.usage.unknown_micros
            return outcome.evidence(spec, ended.ending, known, unknown)
        # It did something that costs, so a refusal would be none: the most it may cost is charged.
        known_micros = spec.cost_micros if call.usage_rejected else None
        return outcome.evidence(spec, ended.ending, known_micros, 0)

    def _raw_output(self, ended: Ended) -> bytes | Unfit | None:
        """The output as it will be stored, or why it cannot be."""
        if ended.ending != "returned":
            return None
        try:
            raw = values.encode(self._x.tool.dump_output(ended.result))
        except (Invalid, MayuraError) as invalid:
            return Unfit(Code.INVALID_OUTPUT, str(invalid))
        if len(raw) <= (limit := self._x.output_bytes_max):
            return raw
        text = f"the output has {len(raw)} bytes; the limit is {limit}"
        return Unfit(Code.LIMIT_EXCEEDED, text)

    async def _record_receipt(self, receipt: Proof) -> Proof:
        """Make the evidence durable, however long the store takes (G4).

        An output that the store itself refuses is left out; the receipt is not.
        """
        try:
            await self._writer.change(lambda draft: self._merge(draft, receipt), patient=True)
        except MayuraError as error:
            if error.code is Code.STORAGE_UNAVAILABLE or not isinstance(receipt.output, bytes):
                raise
            unfit = Unfit(Code.INVALID_OUTPUT, "the store does not take the output")
            return await self._record_receipt(replace(receipt, output=unfit))
        return replace(receipt, stored=True)

    def _merge(self, draft: Draft, receipt: Proof) -> None:
        found, output = receipt.found, receipt.output
        node = self._x.node.id
        before = draft.run.step(node).receipt
        draft.apply(
            t.RecordReceipt(
                node,
                self._x.nonce,
                found.receipt,
                found.acted,
                found.cause,
                found.charge_micros,
                isinstance(output, bytes),
                self._x.call.usage_rejected,
            )
        )
        if draft.run.step(node).receipt is before:
            return
        self._release_once(draft)
        if isinstance(output, bytes):
            resolved = draft.run.step(node).resolution is not None  # and its value may be in use
            draft.payloads[PayloadName(f"{'returned' if resolved else 'output'}:{node}")] = output
        if receipt.reason:
            draft.payloads[PayloadName(f"refusal:{node}")] = values.encode(receipt.reason)

    async def _outcome(self, ended: Ended, receipt: Proof) -> Outcome:
        """What becomes of the step: the output is validated, then guarded, then released."""
        spec = self._x.node.tool
        found, output = receipt.found, receipt.output
        if found.receipt is not Receipt.SUCCEEDED or found.charge_micros is None:
            return outcome.without_output(spec, ended.ending, found)
        if isinstance(output, Unfit):
            return outcome.withheld(spec, output.code, output.detail)
        assert output is not None
        try:
            value = self._x.tool.check_output(values.decode(output))
        except Invalid as invalid:
            return outcome.withheld(spec, Code.INVALID_OUTPUT, str(invalid))
        guards = self._x.tool.output_guards
        verdict = await guard_verdict(guards, value, self._x.call, "output") if guards else None
        return outcome.succeeded(spec) if verdict is None else outcome.withheld(spec, *verdict)

    async def _complete(self, receipt: Proof, result: Outcome) -> None:
        """Write the step's end if it is still ours to write; keep the evidence in any case."""
        end = t.Complete(
            self._x.node.id,
            self._x.nonce,
            result.status,
            result.code,
            result.cause,
            result.acted,
            result.detail,
        )

        def plan(draft: Draft) -> None:
            if not receipt.stored:
                self._merge(draft, receipt)
            if draft.run.step(self._x.node.id).status is StepStatus.DISPATCHING:
                draft.apply(end)

        await self._writer.change(plan, patient=True)

    async def merge_late(self) -> None:
        """A body that ended after its step was settled: keep what it proves (G5, G6).

        A `none` or `read` tool proves nothing that anybody has to know.
        """
        assert self._body is not None, "outlived"
        ended = await asyncio.shield(self._body.ended)
        found = self._evidence(ended)
        unsure = found.receipt is Receipt.UNKNOWN or found.acted is Acted.UNKNOWN
        if unsure or self._x.node.tool.changes_nothing:
            return
        await self._record_receipt(self._proof(ended))
