"""What can be read of runs: where one stands, what happened to it, and what it asks of people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from mayura.runtime.core import values
from mayura.runtime.core.deadlines import due_us
from mayura.runtime.core.definition import HumanNode, JsonValue, ToolNode
from mayura.runtime.core.reading import Reading, payload_of, read_by, sources
from mayura.runtime.core.requests import approval_digest, input_digest
from mayura.runtime.core.state import Approval, Cause, Instant, Question, Run, RunStatus, StepStatus
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import RUN_ID, NodeId, PayloadName, RunId
from mayura.runtime.journal import EventRecord, verified_events
from mayura.runtime.loaded import Pinned
from mayura.runtime.ports import JournalEntry, Loaded, Store
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
        """The run as stored now. `outputs`: with every released step output. NOT_FOUND."""
        run, now, pinned = await self._look(run_id)
        return await self._seen(run, now, pinned, {}, outputs=outputs)

    async def _seen(
        self,
        run: Run,
        now: Instant,
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
            node: PayloadName(f"refusal:{node}")
            for node, step in run.steps.items()
            if step.cause is Cause.REFUSED
        }
        wanted = set(sources(definition, run, (definition.result,))) if succeeded else set()
        wanted.update(name for node in shown if (name := payload_of(node)) is not None)
        stored = await self._values(run.run_id, wanted - known.keys())
        reading = Reading(definition, run, {**known, **stored})
        said = await self._values(run.run_id, set(refusals.values()), all_of_them=False)
        return snapshot(
            definition,
            run,
            now,
            accepted=pinned.workflow is not None,
            output=reading.resolve(definition.result) if succeeded else None,
            outputs={node.id: reading.output(node.id) for node in shown},
            refusals={n: str(said[name]) for n, name in refusals.items() if name in said},
        )

    async def events(self, run_id: RunId) -> list[EventRecord]:
        """Everything that happened to the run, in order; the chain of digests is checked.

        NOT_FOUND: no such run. INTEGRITY_VIOLATION: an entry was changed, removed or put in.
        """
        run = (await load_run(self._store, run_id)).run
        entries: list[JournalEntry] = []
        while page := await self._store.journal(run_id, entries[-1].version if entries else 0):
            entries.extend(page)
        return verified_events(entries, run)

    async def approval_request(self, run_id: RunId, node: str) -> ApprovalRequest:
        """What a person is asked to approve, rebuilt from what is stored.

        NOT_FOUND: nothing now; an expired request is asked anew by the next advance.
        """
        run, now, pinned = await self._look(run_id)
        found = _open_request(run, now, node, Approval)
        asked = pinned.definition.index[NodeId(node)]
        assert isinstance(asked, ToolNode)
        names = set(sources(pinned.definition, run, read_by(asked)))
        reading = Reading(pinned.definition, run, await self._values(run_id, names))
        bound: dict[str, JsonValue] = {k: reading.resolve(b) for k, b in asked.inputs}
        workflow = pinned.workflow
        exact = bound if workflow is None else workflow.check_tool_input(asked.id, bound)
        call_input = input_digest(run, values.encode(exact))
        rebuilt = approval_digest(run, asked, call_input, found.expires_at_us)
        if workflow is not None and rebuilt != found.digest:
            text = f"step {node!r}: the stored request is not the one its input makes"
            raise MayuraError(Code.INTEGRITY_VIOLATION, text)
        return ApprovalRequest(
            run_id=run_id,
            node=asked.id,
            tool=asked.tool.id,
            version=asked.tool.version,
            input=exact,
            digest=found.digest.hex(),
            expires_at_us=found.expires_at_us + found.allowance_us,
        )

    async def human_request(self, run_id: RunId, node: str) -> HumanRequest:
        """The open question of a step. NOT_FOUND: it asks nothing now."""
        run, now, pinned = await self._look(run_id)
        found = _open_request(run, now, node, Question)
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
        self, run_id: RunId, names: set[PayloadName], *, all_of_them: bool = True
    ) -> dict[PayloadName, JsonValue]:
        stored = await self._store.payloads(run_id, names) if names else {}
        if all_of_them and (absent := sorted(names - stored.keys())):
            text = f"run {run_id} lacks the stored value {absent[0]!r}"
            raise MayuraError(Code.INTEGRITY_VIOLATION, text)
        return {name: values.decode(body) for name, body in stored.items()}


async def load_run(store: Store, run_id: RunId) -> Loaded:
    """The run as stored. NOT_FOUND for no such run, and for an id that cannot be one."""
    loaded = await store.load(run_id) if RUN_ID.fullmatch(run_id) else None
    if loaded is None:
        raise MayuraError(Code.NOT_FOUND, f"there is no run {run_id!r} in this scope")
    return loaded


def _open_request(run: Run, now: Instant, node: str, kind: type[Asked]) -> Asked:
    """The request of a step that somebody can still answer (case J8)."""
    step = run.step(NodeId(node))
    detail, due = step.detail, due_us(step)
    now_us = now.wall_us if run.paused_at_us is None else run.paused_at_us
    waits = run.open and step.status is StepStatus.WAITING and isinstance(detail, kind)
    answered = isinstance(detail, Question) and detail.answer_digest is not None
    if not waits or answered or (due is not None and now_us >= due):
        raise MayuraError(Code.NOT_FOUND, f"step {node!r} asks nobody anything now")
    assert isinstance(detail, kind)
    return detail
