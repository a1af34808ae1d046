"""What a person found out about a call whose outcome nobody here knows, recorded with evidence.

A resolution stands beside the receipt, calls no tool, and lets an ended run go on: steps that were
skipped because of it may begin, and the run settles again (docs: the guarantee, "Getting out of
`unknown`").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from mayura.runtime.core import deadlines, values
from mayura.runtime.core import transitions as t
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.conformance import conforms
from mayura.runtime.core.definition import JsonValue, ToolNode
from mayura.runtime.core.mistake import did_you_mean
from mayura.runtime.core.reading import iso
from mayura.runtime.core.state import Acted, Resolution, Step
from mayura.runtime.draft import Draft
from mayura.runtime.driver import RunDriver
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import PayloadName, RunId, call_id_of
from mayura.runtime.journal import read_journal, verified_events
from mayura.runtime.operate import Operations, conflict, node_of
from mayura.runtime.people import verified

EVIDENCE_CHARS_MAX: Final = 4_096
Found: TypeAlias = Literal["happened", "never"]


@dataclass(frozen=True, slots=True)
class Stored:
    """The output that was stored with the receipt, and withheld until now."""


STORED: Final = Stored()


class Reconciliation(Operations):
    """The command that resolves a step."""

    async def reconcile(
        self,
        run_id: RunId,
        node: str,
        found: Found,
        *,
        revision: int,
        evidence: str,
        output: JsonValue | Stored = STORED,
        credential: str | None = None,
        unverified: str | None = None,
        command_id: str | None = None,
    ) -> None:
        """Resolve an `unknown` step, or a `blocked` one that acted, as a person found it.

        `happened`: the step is `succeeded`, with `output` or with the one that was stored and
        withheld, and its declared cost is charged. `never`: it is `failed`, and acted `no`.
        `revision` is the one at which the run was looked at; `evidence` says what shows it, in at
        most 4,096 characters.

        CONFLICT: the run has moved on; the step is not to be resolved; `never` before its settle
        deadline, while its body still runs in this process, or against its receipt.
        INVALID_INPUT: the output does not fit, or none is there.
        PERMISSION_DENIED: nobody who may.
        """
        resolution = _resolution(found)
        _refuse_evidence(evidence)
        async with self._drivers.hold(run_id) as driver:
            asked = node_of(driver, node, ToolNode)
            policy = driver.pinned.policy
            person = await verified(self._verify_human, credential, policy, unverified)
            happened = resolution is Resolution.HAPPENED
            withheld = await self._withheld(driver, asked)
            value = self._checked_output(driver, asked, output, withheld) if happened else None
            held = None if happened else await self._subject(driver, asked)
            own = call_id_of(run_id, asked.id)

            def plan(draft: Draft, command: str) -> None:
                step = draft.run.step(asked.id)
                if draft.run.version != revision:
                    raise conflict("the run has moved on since that revision: read it again")
                _refuse(draft, asked, step, resolution)
                if not happened and own in [call.call_id for call in driver.calls.late]:
                    raise conflict(f"the body of step {asked.id!r} still runs in this process")
                charge_micros = step.reserved_micros if happened else 0
                draft.apply(
                    t.Resolve(
                        asked.id, resolution, charge_micros, value is not None, command, person
                    )
                )
                _keep(draft, asked, value, withheld, evidence)
                if held is not None:
                    draft.once_released.append(held)

            about = (asked.id.encode(), found.encode(), value or b"", evidence.encode())
            await self._carry_out(driver, "reconcile", about, command_id, plan)

    async def _withheld(self, driver: RunDriver, node: ToolNode) -> bytes | None:
        name = PayloadName(f"output:{node.id}")
        return (await self._process.store.payloads(driver.writer.run_id, [name])).get(name)

    def _checked_output(
        self,
        driver: RunDriver,
        node: ToolNode,
        output: JsonValue | Stored,
        withheld: bytes | None,
    ) -> bytes:
        """The value to go on with, in its stored form, validated."""
        if isinstance(output, Stored):
            if withheld is None:
                text = f"step {node.id!r} has no stored output: say which by output=..."
                raise MayuraError(Code.INVALID_INPUT, text)
            output = values.decode(withheld)
        workflow = driver.pinned.workflow
        try:
            if workflow is None:
                values.check(output)
                conforms(node.tool.output_schema, output)
            else:
                output = workflow.tool(node.id).check_output(output)
            stored = values.encode(output)
        except (Invalid, MayuraError) as invalid:
            raise MayuraError(Code.INVALID_INPUT, f"step {node.id!r}: {invalid}") from None
        limit = driver.pinned.policy.output_bytes_max
        if len(stored) > limit:
            text = f"step {node.id!r}: the value is over {limit} bytes"
            raise MayuraError(Code.LIMIT_EXCEEDED, text)
        return stored

    async def _subject(self, driver: RunDriver, node: ToolNode) -> bytes | None:
        """The `once` subject that the call took, as its dispatch says (G16)."""
        if not node.tool.once:
            return None
        run_id = driver.writer.run_id
        for event in verified_events(await read_journal(self._process.store, run_id)):
            if event.type == "step.dispatching" and event.data.get("node") == node.id:
                return bytes.fromhex(str(event.data["once"]))
        return None


def _resolution(found: object) -> Resolution:
    if isinstance(found, str) and found in get_args(Found):
        return Resolution(found)
    known = get_args(Found)
    raise MayuraError(
        Code.INVALID_INPUT,
        f"a resolution is one of {', '.join(known)}{did_you_mean(str(found), known)}",
    )


def _refuse_evidence(evidence: object) -> None:
    if not isinstance(evidence, str) or not 0 < len(evidence.strip()) <= EVIDENCE_CHARS_MAX:
        text = f"evidence is a text of 1 to {EVIDENCE_CHARS_MAX:,} characters: what shows it?"
        raise MayuraError(Code.INVALID_INPUT, text)


def _refuse(draft: Draft, node: ToolNode, step: Step, resolution: Resolution) -> None:
    """CONFLICT, with the reason, for a step that a person cannot resolve so now."""
    dispatch = step.dispatch
    if dispatch is None or step.acted is Acted.NO:
        raise conflict(f"step {node.id!r} is {step.status} and did not act: there is no question")
    if resolution is Resolution.NEVER and not deadlines.passed(dispatch.settle, draft.now):
        until = iso(dispatch.at_us + dispatch.settle_wait_us)
        raise conflict(f"step {node.id!r} may still act until {until}: say never after that")


def _keep(
    draft: Draft, node: ToolNode, value: bytes | None, withheld: bytes | None, evidence: str
) -> None:
    """Store what was said. What the tool returned stays, also where another value goes on."""
    draft.payloads[PayloadName(f"evidence:{node.id}")] = values.encode(evidence)
    if value is None or value == withheld:
        return
    draft.payloads[PayloadName(f"output:{node.id}")] = value
    if withheld is not None:
        draft.payloads[PayloadName(f"returned:{node.id}")] = withheld
