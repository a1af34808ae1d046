"""Runs and writes as the runtime makes them, without the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from mayura.runtime.core.state import (
    Acted,
    Deadline,
    Dispatch,
    Receipt,
    Run,
    RunStatus,
    Step,
    StepStatus,
)
from mayura.runtime.ids import NodeId, PayloadName, RunId, Scope, new_nonce, run_id_of
from mayura.runtime.ports import Command, NewRun, OnceClaim, RunWrite, Store, Won
from tests.storage.places import SCOPE

DEFINITION = sha256(b"definition").digest()
POLICY = sha256(b"policy").digest()
NODE = NodeId("charge")
INPUT = PayloadName("input")
OUTPUT = PayloadName("output:charge")
SETTLE_WAIT_US = 90_000_000
SUBMITTED = b'[{"type":"run.submitted"}]'


async def prepare(store: Store) -> None:
    """Store the definition and the policy that the runs here name."""
    await store.put_definition(DEFINITION, "orders.checkout", "1", b'{"nodes":[]}')
    await store.put_policy(POLICY, b'{"version":"1"}')


def submission(key: str, scope: Scope = SCOPE, **changes: object) -> NewRun:
    """A submission under `key`; `changes` are fields of the run."""
    run = Run(
        run_id=run_id_of(scope, key),
        key=key,
        definition=DEFINITION,
        policy=POLICY,
        requested_by="ada",
        salt=b"s" * 16,
        status=RunStatus.RUNNING,
        version=1,
        event_seq=1,
        chain=sha256(SUBMITTED).digest(),
        last_at_us=0,
        created_at_us=0,
        maximum_micros=1_000,
        wake_at_us=0,
    )
    digest = sha256(key.encode()).digest()
    return NewRun(replace(run, **changes), digest, SUBMITTED, b'{"order":1}')  # type: ignore[arg-type]


async def submitted(store: Store, key: str = "o-1", **changes: object) -> Run:
    """A run that was just created."""
    return (await store.create(submission(key, store.scope, **changes))).run


def write_of(
    before: Run,
    steps: Mapping[NodeId, Step] | None = None,
    *,
    payloads: tuple[tuple[PayloadName, bytes], ...] = (),
    dispatches: tuple[NodeId, ...] = (),
    once: OnceClaim | None = None,
    once_released: tuple[bytes, ...] = (),
    command: Command | None = None,
    entries: bytes = b'[{"type":"x"}]',
    **changes: object,
) -> RunWrite:
    """A transition of `before` that changes these steps, and these fields of the run."""
    after = replace(
        before,
        version=before.version + 1,
        event_seq=before.event_seq + 1,
        chain=sha256(before.chain + entries).digest(),
        steps={**before.steps, **(steps or {})},
    )
    after = replace(after, **changes)  # type: ignore[arg-type]
    return RunWrite(
        nonce=new_nonce(),
        before=before,
        after=after,
        entries=entries,
        touched=tuple(steps or ()),
        payloads=payloads,
        dispatches=dispatches,
        once=once,
        once_released=once_released,
        command=command,
    )


def dispatching(**changes: object) -> Step:
    """A step that is about to be dispatched; the store gives it its times."""
    dispatch = Dispatch(
        nonce=new_nonce(),
        at_us=0,
        settle=Deadline(0),
        settle_wait_us=SETTLE_WAIT_US,
        timeout_ms=30_000,
        input_digest=sha256(b"input").digest(),
        fence=0,
    )
    step = Step(StepStatus.DISPATCHING, acted=Acted.UNKNOWN, dispatch=dispatch)
    return replace(step, **changes)  # type: ignore[arg-type]


def dispatch_of(
    before: Run, *nodes: NodeId, once: OnceClaim | None = None, **changes: object
) -> RunWrite:
    """The write-ahead of a call of each node."""
    chosen = nodes or (NODE,)
    steps = {node: dispatching() for node in chosen}
    return write_of(before, steps, dispatches=chosen, once=once, **changes)  # type: ignore[arg-type]


def succeeded(step: Step) -> Step:
    """The step after its call ended well."""
    return replace(
        step,
        status=StepStatus.SUCCEEDED,
        acted=Acted.YES,
        receipt=Receipt.SUCCEEDED,
        released=True,
        output=True,
    )


async def won(store: Store, write: RunWrite) -> Run:
    """The run after a write that must win."""
    answer = await store.write(write)
    assert isinstance(answer, Won)
    return await loaded(store, write.before.run_id)


async def loaded(store: Store, run_id: RunId) -> Run:
    """The run as stored."""
    found = await store.load(run_id)
    assert found is not None
    return found.run
