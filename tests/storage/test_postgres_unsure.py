"""Cut connections: a write whose answer is lost is found out about, applied once, and answered.

Case D2; reliability of the ambiguous commit. Every kind of write, cut before it is sent and between
its commit and the answer, by FIN, by RST and by a network that swallows everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from mayura.runtime.core.state import Acted, Receipt, Run
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId
from mayura.runtime.ports import Command, OnceClaim, Refused, RunWrite, Won
from mayura.storage.postgres import PostgresStore
from mayura.storage.postgres_limits import Limits
from tests.postgres_server import PostgresServer
from tests.storage.fault_proxy import (
    AFTER_COMMIT,
    BEFORE_SENT,
    Cut,
    FaultProxy,
    How,
    Place,
    Side,
    When,
)
from tests.storage.runs import (
    NODE,
    dispatch_of,
    dispatching,
    loaded,
    submission,
    submitted,
    succeeded,
    won,
    write_of,
)
from tests.storage.sessions import carry_out, opened

IMPATIENT = Limits(method_s=20.0, connect_s=2.0, send_s=0.5, lock_wait_s=0.4, statement_s=0.6)
SUBJECT = b"s" * 32
HOWS: tuple[How, ...] = ("fin", "rst", "black_hole")
PLACES = {"before it is sent": BEFORE_SENT, "before its answer": AFTER_COMMIT}
SENT: tuple[tuple[Side, bytes], ...] = (
    ("client", b"B"), ("client", b"E"), ("client", b"S"),
    ("server", b"2"), ("server", b"D"), ("server", b"C"), ("server", b"Z"),
)  # fmt: skip
WHENS: tuple[When, ...] = ("before", "after")
MESSAGES = {
    f"{when} the {side}'s {message.decode()}": Place(side, message, when)
    for side, message in SENT
    for when in WHENS
}


@pytest.fixture
async def proxy(postgres_server: PostgresServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
async def direct(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """The store as another process has it, whose connections nobody cuts."""
    async with opened(postgres_url) as store:
        yield store


@pytest.fixture
async def cut_off(
    proxy: FaultProxy, direct: PostgresStore, postgres_url: str
) -> AsyncIterator[PostgresStore]:
    """The store whose connections are cut."""
    async with opened(proxy.url(postgres_url), IMPATIENT) as store:
        yield store


Kind: TypeAlias = Callable[[PostgresStore, str], Awaitable[RunWrite]]


async def dispatch(store: PostgresStore, key: str) -> RunWrite:
    return dispatch_of(await submitted(store, key))


async def receipt(store: PostgresStore, key: str) -> RunWrite:
    run = await won(store, await dispatch(store, key))
    step = replace(run.step(NODE), receipt=Receipt.SUCCEEDED, acted=Acted.YES, output=True)
    return write_of(run, {NODE: step}, payloads=((f"output:{NODE}", b"1"),))


async def completion(store: PostgresStore, key: str) -> RunWrite:
    """A completion that carries the next dispatch."""
    run = await won(store, await receipt(store, key))
    following = NodeId("next")
    steps = {NODE: succeeded(run.step(NODE)), following: dispatching()}
    return write_of(run, steps, dispatches=(following,))


async def command(store: PostgresStore, key: str) -> RunWrite:
    run = await submitted(store, key)
    return write_of(run, cancelled=True, command=Command("c-1", b"d" * 32))


KINDS: dict[str, Kind] = {
    "dispatch": dispatch, "receipt": receipt, "completion": completion, "command": command,
}  # fmt: skip


async def assert_stored_once(store: PostgresStore, write: RunWrite, answer: Won) -> Run:
    """The write stands in the journal, once, and in the run."""
    entries = await store.journal(write.before.run_id, write.before.version - 1)
    assert [entry.nonce for entry in entries].count(write.nonce) == 1
    assert entries[-1].nonce == write.nonce
    assert entries[-1].at_us == answer.at.wall_us
    run = await loaded(store, write.before.run_id)
    assert run.version == write.after.version
    return run


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_a_write_that_is_cut_off_applies_once_and_wins(
    proxy: FaultProxy,
    direct: PostgresStore,
    cut_off: PostgresStore,
    kind: Kind,
    place: Place,
    how: How,
) -> None:
    write = await kind(direct, "o-1")
    cut = proxy.arm(Cut(write.nonce, place, how))
    answer = await cut_off.write(write)
    assert cut.happened.is_set()
    assert isinstance(answer, Won)
    await assert_stored_once(direct, write, answer)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_a_write_that_is_cut_off_again_and_again_applies_once_and_wins(
    proxy: FaultProxy, direct: PostgresStore, cut_off: PostgresStore, place: Place, how: How
) -> None:
    write = await dispatch(direct, "o-1")
    cuts = [proxy.arm(Cut(write.nonce, where, how)) for where in (BEFORE_SENT, place, place)]
    answer = await cut_off.write(write)
    assert all(cut.happened.is_set() for cut in cuts)
    assert isinstance(answer, Won)
    await assert_stored_once(direct, write, answer)


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("place", MESSAGES.values(), ids=MESSAGES)
async def test_a_dispatch_cut_off_at_any_message_applies_once_and_wins(
    proxy: FaultProxy, direct: PostgresStore, cut_off: PostgresStore, place: Place, how: How
) -> None:
    write = await dispatch(direct, "o-1")
    cut = proxy.arm(Cut(write.nonce, place, how))
    answer = await cut_off.write(write)
    assert cut.happened.is_set()
    assert isinstance(answer, Won)
    run = await assert_stored_once(direct, write, answer)
    stored = run.step(NODE).dispatch
    assert stored is not None
    assert stored.at_us == answer.at.wall_us


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_a_submission_that_is_cut_off_makes_one_run_and_says_so(
    proxy: FaultProxy, direct: PostgresStore, cut_off: PostgresStore, place: Place, how: How
) -> None:
    new = submission("o-1")
    cut = proxy.arm(Cut(bytes.fromhex(new.run.run_id), place, how))
    created = await cut_off.create(new)
    assert cut.happened.is_set()
    assert created.created
    assert created.run == await loaded(direct, new.run.run_id)
    assert len(await direct.journal(new.run.run_id)) == 1


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_a_batch_that_is_cut_off_applies_once_and_wins(
    proxy: FaultProxy, direct: PostgresStore, cut_off: PostgresStore, place: Place, how: How
) -> None:
    writes = [await dispatch(direct, f"o-{number}") for number in range(12)]
    lost = writes[3]
    await won(direct, write_of(lost.before))
    cut = proxy.arm(Cut(writes[7].nonce, place, how))
    answers = await asyncio.gather(*map(cut_off.write, writes))
    assert cut.happened.is_set()
    for write, answer in zip(writes, answers, strict=True):
        if write is lost:
            assert answer == Refused("lost")
        else:
            assert isinstance(answer, Won)
            await assert_stored_once(direct, write, answer)


async def test_a_write_that_was_committed_wins_also_when_the_run_has_moved_on(
    proxy: FaultProxy, direct: PostgresStore, cut_off: PostgresStore
) -> None:
    write = await dispatch(direct, "o-1")
    proxy.hold_back()
    cut = proxy.arm(Cut(write.nonce, AFTER_COMMIT, "rst"))
    answering = asyncio.create_task(cut_off.write(write))
    proxy.admit()
    await cut.happened.wait()
    proxy.hold_back()
    run = await loaded(direct, write.before.run_id)
    await won(direct, write_of(run, {NODE: succeeded(run.step(NODE))}))
    proxy.admit()
    answer = await answering
    assert isinstance(answer, Won)
    entries = await direct.journal(write.before.run_id, 1)
    assert [(entry.nonce, entry.at_us) for entry in entries[:1]] == [
        (write.nonce, answer.at.wall_us)
    ]
    assert len(entries) == 2


async def test_a_write_that_was_not_committed_loses_to_one_that_was(
    proxy: FaultProxy, direct: PostgresStore, cut_off: PostgresStore
) -> None:
    write = await dispatch(direct, "o-1")
    cut = proxy.arm(Cut(write.nonce, BEFORE_SENT, "rst"))
    answering = asyncio.create_task(cut_off.write(write))
    await cut.happened.wait()
    proxy.hold_back()
    await won(direct, write_of(write.before))
    proxy.admit()
    assert await answering == Refused("lost")
    assert await loaded(direct, write.before.run_id) == replace(
        write.before, version=2, event_seq=2,
        **{name: getattr(await loaded(direct, write.before.run_id), name)
           for name in ("chain", "last_at_us")},
    )  # fmt: skip


async def test_a_dispatch_that_was_not_committed_is_fenced_by_a_takeover(
    proxy: FaultProxy, direct: PostgresStore, cut_off: PostgresStore, postgres_url: str
) -> None:
    """G8."""
    write = await dispatch(direct, "o-1")
    cut = proxy.arm(Cut(write.nonce, BEFORE_SENT, "rst"))
    answering = asyncio.create_task(cut_off.write(write))
    await cut.happened.wait()
    proxy.hold_back()
    await carry_out(postgres_url, "update runs set claim_fence = claim_fence + 1")
    proxy.admit()
    assert await answering == Refused("fenced")


async def test_what_was_given_up_may_be_sent_again_and_applies_once(
    proxy: FaultProxy, direct: PostgresStore, postgres_url: str
) -> None:
    write = await dispatch(direct, "o-1")
    async with opened(proxy.url(postgres_url), replace(IMPATIENT, method_s=1.0)) as store:
        cut = proxy.arm(Cut(write.nonce, AFTER_COMMIT, "black_hole"))
        answering = asyncio.create_task(store.write(write))
        await cut.happened.wait()
        proxy.hold_back()
        with pytest.raises(MayuraError) as given_up:
            await answering
        assert given_up.value.code is Code.STORAGE_UNAVAILABLE
        proxy.admit()
        answer = await store.write(write)
        assert isinstance(answer, Won)
        await assert_stored_once(direct, write, answer)


async def test_a_refusal_that_may_change_stays_unsure_when_a_given_up_write_is_sent_again(
    proxy: FaultProxy, direct: PostgresStore, postgres_url: str
) -> None:
    """G2, G16: its first sending might still arrive, after the subject was released."""
    holder = await submitted(direct, "o-1")
    held = await won(direct, dispatch_of(holder, once=OnceClaim(SUBJECT, NODE)))
    write = dispatch_of(await submitted(direct, "o-2"), once=OnceClaim(SUBJECT, NODE))
    limits = replace(IMPATIENT, method_s=0.7, statement_s=30.0)
    async with opened(proxy.url(postgres_url), limits) as store:
        cut = proxy.arm(Cut(write.nonce, BEFORE_SENT, "rst"))
        for _ in range(2):
            with pytest.raises(MayuraError) as given_up:
                await store.write(write)
            assert given_up.value.code is Code.STORAGE_UNAVAILABLE
        assert cut.happened.is_set()
        await won(direct, write_of(held, once_released=(SUBJECT,)))
        answer = await store.write(write)
        assert isinstance(answer, Won)
        await assert_stored_once(direct, write, answer)


async def test_while_one_write_is_unsure_others_are_not_held_up(
    proxy: FaultProxy, direct: PostgresStore, cut_off: PostgresStore
) -> None:
    write, other = await dispatch(direct, "o-1"), await dispatch(direct, "o-2")
    cut = proxy.arm(Cut(write.nonce, AFTER_COMMIT, "black_hole"))
    answering = asyncio.create_task(cut_off.write(write))
    await cut.happened.wait()
    assert isinstance(await cut_off.write(other), Won)
    assert isinstance(await answering, Won)


async def test_a_caller_that_is_cancelled_takes_nothing_back(
    direct: PostgresStore, cut_off: PostgresStore
) -> None:
    writes = [await dispatch(direct, f"o-{number}") for number in range(8)]
    callers = [asyncio.create_task(cut_off.write(write)) for write in writes]
    await asyncio.sleep(0)
    for caller in callers[::2]:
        caller.cancel()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert all(isinstance(answer, Won) for answer in answers[1::2])
    for write in writes:
        answer = await direct.write(write)
        assert isinstance(answer, Won)
        await assert_stored_once(direct, write, answer)
