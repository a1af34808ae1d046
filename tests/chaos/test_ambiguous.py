"""Connections cut around a commit, under a whole engine: resolved, and nobody notices (case D2).

What the store makes of a single write is tried at every message in `tests/storage`; here are the
runs that such writes belong to, side by side with others in the same batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from mayura.runtime import Engine, Snapshot
from mayura.runtime.core.transitions import Person
from mayura.runtime.faultpoints import arm
from mayura.storage.postgres import open_store
from mayura.storage.postgres_limits import Limits
from tests.chaos import roles
from tests.chaos.faults import Fault, Faults
from tests.chaos.history import History, complaints, read_all, times_said
from tests.chaos.ledger import count
from tests.chaos.place import Place, run_of
from tests.chaos.processes import Drivers
from tests.chaos.shop import POLICY, WORKFLOWS, Message, Order, here, racing, waiting_chain
from tests.postgres_server import PostgresServer
from tests.storage.fault_proxy import AFTER_COMMIT, BEFORE_SENT, Cut, FaultProxy, How
from tests.storage.fault_proxy import Place as Where

pytestmark = pytest.mark.may_block("the tools write the ledger on the loop")

IMPATIENT: Final = Limits(
    method_s=20.0, connect_s=2.0, send_s=0.5, lock_wait_s=0.4, statement_s=0.6
)
BESIDE: Final = 4  #: runs whose writes travel together
WHERES: Final = {"before it is sent": BEFORE_SENT, "before its answer": AFTER_COMMIT}
KINDS: Final = {
    "create": "run.created",
    "dispatch": "step.dispatching",
    "receipt": "step.receipt",
    "completion": "step.succeeded",
    "approval": "approval.approved",
    "signal": "signal.received",
    "command": "run.pause_requested",
    "end": "run.settled",
}
"""Each kind of commit, by an event that it carries."""
HOWS: Final[dict[How, list[str]]] = {"rst": list(KINDS), "black_hole": ["dispatch", "receipt"]}
"""How, and at which kinds: a network that swallows everything takes its time."""
ONCE: Final = {"run.created", "approval.approved", "signal.received", "run.pause_requested"}


@pytest.fixture
def place(postgres_url: str, tmp_path: Path) -> Place:
    found = Place(postgres_url, tmp_path)
    here.be(found, Faults())
    return found


@pytest.fixture
async def proxy(postgres_server: PostgresServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
async def direct(place: Place) -> AsyncIterator[Engine]:
    """An engine whose connections nobody cuts."""
    async with roles.engine(place) as engine:
        yield engine


@pytest.fixture
async def cut_off(direct: Engine, place: Place, proxy: FaultProxy) -> AsyncIterator[Engine]:
    """An engine whose connections are cut."""
    store = await open_store(proxy.url(place.url), limits=IMPATIENT)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        engine = Engine(
            store,
            workflows=WORKFLOWS,
            policy=POLICY,
            verify_human=lambda name: Person(id=name),
        )
        yield await stack.enter_async_context(engine)


async def whole_run(engine: Engine, key: str) -> Snapshot:
    """A run with each kind of commit in it."""
    run = (await engine.submit(waiting_chain, Order(order_id=key), key=key)).id
    await engine.pause(run, by="ada", command_id="pause")
    await engine.resume(run, by="ada", command_id="resume")
    return await roles.finish(engine, run)


async def histories(place: Place, *keys: str) -> list[History]:
    """The evidence about the runs of these keys, read past the proxy."""
    return list((await read_all(place, {key: run_of(key) for key in keys})).values())


def cut_at(kind: str, where: Where, how: How) -> Cut:
    return Cut(f'"{KINDS[kind]}"'.encode(), where, how)


@pytest.mark.parametrize("where", WHERES.values(), ids=WHERES)
@pytest.mark.parametrize("how", HOWS)
async def test_runs_go_on_whichever_commit_is_cut_off(
    place: Place, proxy: FaultProxy, cut_off: Engine, where: Where, how: How
) -> None:
    for kind in HOWS[how]:
        cut = proxy.arm(cut_at(kind, where, how))
        keys = [f"{kind}-{n}" for n in range(BESIDE)]
        seen = await asyncio.gather(*(whole_run(cut_off, key) for key in keys))
        assert cut.happened.is_set(), kind
        assert [each.status for each in seen] == ["succeeded"] * BESIDE, kind
        for found in await histories(place, *keys):
            assert complaints(found) == []
            assert count(found.done, "effect").total() == 3
            assert {said: len(times_said(found, said)) for said in ONCE} == dict.fromkeys(ONCE, 1)


@pytest.mark.parametrize("where", WHERES.values(), ids=WHERES)
async def test_a_signal_that_is_committed_meanwhile_confuses_nobody(
    place: Place, proxy: FaultProxy, cut_off: Engine, direct: Engine, where: Where
) -> None:
    """The version moved on before the dispatch could be asked about."""
    cut = proxy.arm(cut_at("dispatch", where, "black_hole"))
    run = (await cut_off.submit(racing, Order(order_id="o-1"), key="o-1")).id
    driving = asyncio.create_task(roles.finish(cut_off, run))
    await cut.happened.wait()
    message = Message(sender=1, text="meanwhile")
    await direct.signal(run, roles.MESSAGE, "from-elsewhere", message.model_dump())
    assert (await driving).status == "succeeded"
    (found,) = await histories(place, "o-1")
    assert complaints(found) == []
    assert len(times_said(found, "signal.received")) == 1
    assert set(count(found.done, "effect").values()) == {1}
    seen = await direct.inspect(run, outputs=True)
    assert seen.steps[roles.MESSAGE].output == message.model_dump()


@pytest.mark.parametrize("point", ["check.before", "tool.entered", "effect.before"])
async def test_no_connection_at_all_for_a_moment_repeats_nothing(
    place: Place, proxy: FaultProxy, cut_off: Engine, point: str
) -> None:
    """Every connection is reset while a call is in hand; its check and its receipt come through."""
    here.be(place, CutAll(point, lambda: proxy.cut_all("rst")))
    arm(here.faults)
    try:
        assert (await whole_run(cut_off, "o-1")).status == "succeeded"
    finally:
        arm(None)
    (found,) = await histories(place, "o-1")
    assert complaints(found) == []
    assert count(found.done, "effect").total() == 3


class CutAll(Faults):
    """Cuts whenever one point is passed."""

    def __init__(self, point: str, cut: Callable[[], None]) -> None:
        super().__init__()
        self._point = point
        self._cut = cut

    def at(self, point: str) -> None:
        super().at(point)
        if point == self._point:
            self._cut()


@pytest.mark.parametrize("where", WHERES.values(), ids=WHERES)
async def test_an_abandoned_step_is_settled_once_when_that_commit_is_cut_off(
    place: Place, drivers: Drivers, proxy: FaultProxy, cut_off: Engine, where: Where
) -> None:
    death = Faults(Fault("effect.after"))
    drivers.start(death, roles.submit_and_drive, "chaos.pay", ["o-1"]).until_killed()
    await roles.until_abandoned(place, run_of("o-1"))
    cut = proxy.arm(Cut(b'"step.abandoned"', where, "rst"))
    seen = await cut_off.run_until_settled(run_of("o-1"))
    assert cut.happened.is_set()
    assert seen.status == "outcome_unknown"
    (found,) = await histories(place, "o-1")
    assert complaints(found) == []
    assert len(times_said(found, "step.abandoned")) == 1
