"""What the engine writes about a run, by hand: the same rows, events and payloads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, Protocol

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
from mayura.runtime.ids import NodeId, PayloadName, Scope, call_id_of, new_nonce, run_id_of
from mayura.runtime.ports import CallRef, LastCheck, NewRun, RunWrite, Store, Won, WriteAnswer

DIGEST: Final = sha256(b"any").digest()
OUTPUT: Final = b'{"charge_id":"ch_0123456789","ok":true}'
INPUT: Final = b'{"email":"ada@example.com","order_id":"o-1001"}'
CREATED: Final = b'[{"type":"run.created","version":"1","workflow":"bench.chain"}]'
FAR_US: Final = 1 << 52
CHECK: Final = LastCheck(None, None, DIGEST, cancelled=False, open=True)


class Writable(Protocol):
    """What carrying out a run asks of a store."""

    async def write(self, write: RunWrite) -> WriteAnswer: ...

    async def last_checks(self, calls: Sequence[CallRef]) -> Sequence[LastCheck | None]: ...


async def prepare(store: Store) -> None:
    """Store the definition and the policy that the runs here name."""
    await store.put_definition(DIGEST, "bench.chain", "1", b"{}")
    await store.put_policy(DIGEST, b"{}")


def submission(key: str) -> NewRun:
    """A submission under `key`."""
    run = Run(
        run_id=run_id_of(Scope(), key),
        key=key,
        definition=DIGEST,
        policy=DIGEST,
        requested_by="ada",
        salt=DIGEST[:16],
        status=RunStatus.RUNNING,
        version=1,
        event_seq=1,
        chain=DIGEST,
        last_at_us=0,
        created_at_us=0,
        maximum_micros=1_000_000,
        wake_at_us=FAR_US,
    )
    return NewRun(run, DIGEST, CREATED, INPUT)


class _Work:
    """A run and its transitions."""

    def __init__(self, run: Run, steps: int) -> None:
        self.run = run
        self.nodes = [NodeId(f"step_{number}") for number in range(steps)]
        self._steps: dict[NodeId, Step] = {}
        self._events: list[str] = []
        self._payloads: list[tuple[PayloadName, bytes]] = []
        self._begun: list[NodeId] = []

    def begin(self, node: NodeId) -> None:
        nonce = new_nonce()
        dispatch = Dispatch(nonce, 0, Deadline(0), 90_000_000, 30_000, DIGEST, 0)
        self._steps[node] = Step(StepStatus.DISPATCHING, acted=Acted.UNKNOWN, dispatch=dispatch)
        self._begun.append(node)
        self._events.append(
            f'{{"call":"{call_id_of(self.run.run_id, node)}","node":"{node}",'
            f'"nonce":"{nonce.hex()}","type":"step.dispatching"}}'
        )

    def receive(self, node: NodeId) -> None:
        self._steps[node] = replace(
            self.run.steps[node], acted=Acted.YES, receipt=Receipt.SUCCEEDED, output=True
        )
        self._payloads.append((PayloadName(f"output:{node}"), OUTPUT))
        self._events.append(f'{{"node":"{node}","receipt":"succeeded","type":"step.receipt"}}')

    def complete(self, node: NodeId) -> None:
        self._steps[node] = replace(
            self.run.steps[node], status=StepStatus.SUCCEEDED, released=True
        )
        self._events.append(f'{{"node":"{node}","type":"step.succeeded"}}')

    async def commit(self, store: Writable, *, settles: bool = False) -> None:
        """Write what was done since the last commit."""
        before = self.run
        if settles:
            self._events.append('{"settlement":1,"status":"succeeded","type":"run.settled"}')
        entries = f"[{','.join(self._events)}]".encode()
        after = replace(
            before,
            status=RunStatus.SUCCEEDED if settles else RunStatus.RUNNING,
            settled_at_us=before.created_at_us if settles else None,
            settlement=int(settles),
            wake_at_us=None if settles else before.wake_at_us,
            version=before.version + 1,
            event_seq=before.event_seq + len(self._events),
            chain=sha256(before.chain + entries).digest(),
            steps={**before.steps, **self._steps},
        )
        write = RunWrite(
            new_nonce(),
            before,
            after,
            entries,
            touched=tuple(self._steps),
            payloads=tuple(self._payloads),
            dispatches=tuple(self._begun),
        )
        answer = await store.write(write)
        if not isinstance(answer, Won):
            raise SystemExit(f"A write that nobody contests was {answer}")
        self.run = after
        self._steps, self._events, self._payloads, self._begun = {}, [], [], []


class Chain(_Work):
    """Steps one after the other; a completion carries the next dispatch."""

    async def carry_out(self, store: Writable) -> None:
        self.begin(self.nodes[0])
        await self.commit(store)
        for node, following in zip(self.nodes, [*self.nodes[1:], None], strict=True):
            await store.last_checks([CallRef(self.run.run_id, node)])
            self.receive(node)
            await self.commit(store)
            self.complete(node)
            if following is not None:
                self.begin(following)
            await self.commit(store, settles=following is None)


class Fan(_Work):
    """Parallel steps that are dispatched together and end together."""

    async def carry_out(self, store: Writable) -> None:
        for node in self.nodes:
            self.begin(node)
        await self.commit(store)
        calls = [[CallRef(self.run.run_id, node)] for node in self.nodes]
        await asyncio.gather(*map(store.last_checks, calls))
        for node in self.nodes:
            self.receive(node)
        await self.commit(store)
        for node in self.nodes:
            self.complete(node)
        await self.commit(store, settles=True)
