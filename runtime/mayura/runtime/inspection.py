"""What can be read of runs: where one stands, what happened to it, and what it asks of people."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar, cast

from mayura.runtime.core import values
from mayura.runtime.core.binding import Unresolved
from mayura.runtime.core.call_key import call_key, once_subject
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.deadlines import due_us
from mayura.runtime.core.definition import Definition, HumanNode, JsonValue, ToolNode
from mayura.runtime.core.mistake import did_you_mean
from mayura.runtime.core.reading import Reading, payload_of, read_by, sources
from mayura.runtime.core.requests import approval_digest, input_digest
from mayura.runtime.core.state import Approval, Cause, Instant, Question, Run, RunStatus, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import (
    RUN_ID,
    NodeId,
    PayloadName,
    RunId,
    check_name,
    check_run_id,
    detail_of,
)
from mayura.runtime.journal import EventRecord, read_journal, verified_events
from mayura.runtime.loaded import Pinned
from mayura.runtime.ports import Loaded, Store
from mayura.runtime.registry import Registry
from mayura.runtime.snapshot import Snapshot, snapshot

Asked = TypeVar("Asked", Approval, Question)


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What a person is asked to approve: the exact call, bound by `digest`."""

    run_id: RunId
    node: NodeId
    tool: str
    version: str
    input: JsonValue
    key: str | None  #: of the call, for the provider; None: only where the code is, it can be said
    digest: str
    expires_at_us: int


@dataclass(frozen=True, slots=True)
class HumanRequest:
    """What a person is asked: the question bound by `digest`, with its stored context."""

    run_id: RunId
    node: NodeId
    kind: str
    prompt: str
    schema_id: str
    schema: JsonValue
    context: JsonValue
    subject_digest: str | None  #: SHA-256 of what a correction is about
    digest: str
    deadline_us: int | None


class Inspection:
    """The readings. None of them changes anything."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    async def inspect(self, run_id: RunId, *, outputs: bool = False) -> Snapshot:
        """The run as stored now. `outputs`: with every released step output. NOT_FOUND.

        Every step that calls a tool has the key of its call. That of a `once` tool follows from
        the call's input: None before its dispatch, and where that input cannot be made again here;
        the journal's `step.dispatching` has it, too.
        """
        run, _, pinned = await self._look(run_id)
        return await self._seen(run, pinned, {}, outputs=outputs)

    async def _seen(
        self,
        run: Run,
        pinned: Pinned,
        known: Mapping[PayloadName, JsonValue],
        *,
        outputs: bool = False,
    ) -> Snapshot:
        """The run as it was read; `known` are values that need no reading."""
        definition = pinned.definition
        succeeded = run.status is RunStatus.SUCCEEDED
        shown = [
            node
            for node in definition.nodes
            if outputs and run.step(node.id).status is StepStatus.SUCCEEDED
        ]
        refusals = {
            node: PayloadName(f"{'reason' if step.code is Code.REJECTED else 'refusal'}:{node}")
            for node, step in run.steps.items()
            if step.cause is Cause.REFUSED or step.code is Code.REJECTED
        }
        reasons = {
            node: detail_of(node)
            for node, step in run.steps.items()
            if step.status in (StepStatus.FAILED, StepStatus.BLOCKED)
        }
        wanted = set(sources(definition, run, (definition.result,))) if succeeded else set()
        wanted.update(name for node in shown if (name := payload_of(node)) is not None)
        once = [n for n in definition.nodes if isinstance(n, ToolNode) and _subject_held(n, run)]
        helpful = {name for node in once for name in sources(definition, run, read_by(node))}
        helpful.update(refusals.values(), reasons.values())
        if run.result_code is not None:
            helpful.add(detail_of(None))
        stored = await self._values(run.run_id, wanted - known.keys(), helpful - known.keys())
        said = {**known, **stored}
        reading = Reading(definition, run, said)
        return snapshot(
            definition,
            run,
            accepted=pinned.workflow is not None,
            output=reading.resolve(definition.result) if succeeded else None,
            outputs={node.id: reading.output(node.id) for node in shown},
            refusals={n: str(said[name]) for n, name in refusals.items() if name in said},
            reasons={n: str(said[name]) for n, name in reasons.items() if name in said},
            reason=cast("str | None", said.get(detail_of(None))),
            keys=self._keys(run, pinned, reading),
        )

    def _keys(self, run: Run, pinned: Pinned, reading: Reading) -> dict[NodeId, str]:
        """The keys of the calls of a run's steps."""
        keys: dict[NodeId, str] = {}
        for node in pinned.definition.nodes:
            if not isinstance(node, ToolNode):
                continue
            if not node.tool.once:
                keys[node.id] = call_key(run.run_id, node.id, None)
            elif _subject_held(node, run):
                exact = _input_again(run, node, pinned, reading)
                if exact is not None:
                    subject = once_subject(self._store.once_key, node.tool, exact)
                    keys[node.id] = call_key(run.run_id, node.id, subject)
        return keys

    async def events(self, run_id: RunId) -> list[EventRecord]:
        """Everything that happened to the run, in order; the chain of digests is checked.

        NOT_FOUND: no such run. INTEGRITY_VIOLATION: an entry was changed, removed or put in.
        """
        run = (await load_run(self._store, run_id)).run
        return verified_events(await read_journal(self._store, run_id), run)

    async def approval_request(self, run_id: RunId, node: str) -> ApprovalRequest:
        """What a person is asked to approve, rebuilt from what is stored.

        NOT_FOUND: nothing now; an expired request is asked anew by the next advance.
        """
        run, now, pinned = await self._look(run_id)
        found = _open_request(pinned.definition, run, now, node, Approval)
        asked = pinned.definition.index[NodeId(node)]
        assert isinstance(asked, ToolNode)
        names = set(sources(pinned.definition, run, read_by(asked)))
        reading = Reading(pinned.definition, run, await self._values(run_id, names))
        exact = _exact_input(asked, pinned, reading)
        call_input = input_digest(run, values.encode(exact))
        rebuilt = approval_digest(run, asked, call_input, found.expires_at_us)
        if pinned.workflow is not None and rebuilt != found.digest:
            text = f"step {node!r}: the stored request is not the one its input makes"
            raise MayuraError(Code.INTEGRITY_VIOLATION, text)
        subject = once_subject(self._store.once_key, asked.tool, exact)
        certain = subject is None or rebuilt == found.digest
        return ApprovalRequest(
            run_id=run_id,
            node=asked.id,
            tool=asked.tool.id,
            version=asked.tool.version,
            input=exact,
            key=call_key(run_id, asked.id, subject) if certain else None,
            digest=found.digest.hex(),
            expires_at_us=found.expires_at_us + found.allowance_us,
        )

    async def human_request(self, run_id: RunId, node: str) -> HumanRequest:
        """The open question of a step. NOT_FOUND: it asks nothing now."""
        run, now, pinned = await self._look(run_id)
        found = _open_request(pinned.definition, run, now, node, Question)
        asked = pinned.definition.index[NodeId(node)]
        assert isinstance(asked, HumanNode)
        names = set(sources(pinned.definition, run, read_by(asked)))
        reading = Reading(pinned.definition, run, await self._values(run_id, names))
        subject = asked.subject_digest
        due = found.deadline_us
        return HumanRequest(
            run_id=run_id,
            node=asked.id,
            kind=asked.kind,
            prompt=asked.prompt,
            schema_id=asked.schema_id,
            schema=asked.schema,
            context=None if asked.context is None else reading.resolve(asked.context),
            subject_digest=None if subject is None else str(reading.resolve(subject)),
            digest=found.digest.hex(),
            deadline_us=None if due is None else due + found.allowance_us,
        )

    async def _look(self, run_id: RunId) -> tuple[Run, Instant, Pinned]:
        loaded = await load_run(self._store, run_id)
        return loaded.run, loaded.now, await self._registry.pinned(self._store, loaded.run)

    async def _values(
        self,
        run_id: RunId,
        names: AbstractSet[PayloadName],
        helpful: AbstractSet[PayloadName] = frozenset(),
    ) -> dict[PayloadName, JsonValue]:
        """These stored values; of those that are only `helpful`, what there is."""
        wanted = names | helpful
        stored = await self._store.payloads(run_id, wanted) if wanted else {}
        if absent := sorted(names - stored.keys()):
            text = f"run {run_id} lacks the stored value {absent[0]!r}"
            raise MayuraError(Code.INTEGRITY_VIOLATION, text)
        return {name: values.decode(body) for name, body in stored.items()}


async def load_run(store: Store, run_id: RunId) -> Loaded:
    """The run as stored. NOT_FOUND for no such run, and for an id that cannot be one.

    INVALID_INPUT for what is no text.
    """
    check_run_id(run_id)
    loaded = await store.load(run_id) if RUN_ID.fullmatch(run_id) else None
    if loaded is None:
        raise MayuraError(Code.NOT_FOUND, f"there is no run {run_id!r} in this scope")
    return loaded


def _subject_held(node: ToolNode, run: Run) -> bool:
    """Whether it acts once for a subject, and was dispatched."""
    return bool(node.tool.once) and run.step(node.id).dispatch is not None


def _exact_input(node: ToolNode, pinned: Pinned, reading: Reading) -> JsonValue:
    """What the call takes; without the code, before defaults and the like were filled in."""
    bound: dict[str, JsonValue] = {name: reading.resolve(b) for name, b in node.inputs}
    return bound if pinned.workflow is None else pinned.workflow.check_tool_input(node.id, bound)


def _input_again(run: Run, node: ToolNode, pinned: Pinned, reading: Reading) -> JsonValue:
    """The input with which a step was dispatched; None where it cannot be made again here."""
    dispatch = run.step(node.id).dispatch
    assert dispatch is not None
    try:
        exact = _exact_input(node, pinned, reading)
        same = input_digest(run, values.encode(exact)) == dispatch.input_digest
    except (KeyError, Unresolved, Invalid, MayuraError):  # erased values, or a validator that moved
        return None
    return exact if same else None


def _open_request(
    definition: Definition, run: Run, now: Instant, node: str, kind: type[Asked]
) -> Asked:
    """The request of a step that somebody can still answer (case J8)."""
    check_name("a step's name", node)
    if node not in definition.index:
        hint = did_you_mean(node, definition.index)
        raise MayuraError(Code.NOT_FOUND, f"no such step {node!r}{hint}")
    step = run.step(NodeId(node))
    detail, due = step.detail, due_us(step)
    now_us = now.wall_us if run.paused_at_us is None else run.paused_at_us
    waits = run.open and step.status is StepStatus.WAITING and isinstance(detail, kind)
    answered = isinstance(detail, Question) and detail.answer_digest is not None
    if not waits or answered or (due is not None and now_us >= due):
        raise MayuraError(Code.NOT_FOUND, f"step {node!r} asks nobody anything now")
    assert isinstance(detail, kind)
    return detail
