"""What every store answers when it is asked, and how it is opened and closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import sha256

import pytest

from mayura.runtime.core.state import (
    Approval,
    Detail,
    Question,
    Receipt,
    RunStatus,
    Signal,
    Step,
    StepStatus,
    Timer,
)
from mayura.runtime.errors import Code, MayuraError
from mayura.runtime.ids import NodeId, PayloadName, RunId, Scope
from mayura.runtime.ports import CallRef, DueRun, LastCheck, Store
from tests.storage.places import MemoryPlace, Place
from tests.storage.runs import (
    DEFINITION,
    INPUT,
    NODE,
    OUTPUT,
    POLICY,
    dispatch_of,
    dispatching,
    loaded,
    prepare,
    submission,
    submitted,
    succeeded,
    won,
    write_of,
)

OTHER_OUTPUT = PayloadName("output:b")
NOBODY = RunId("0" * 32)
DETAILS: list[Detail] = [
    Approval(b"a" * 32, 5),
    Approval(b"a" * 32, 5, 6, True, "ada", 7),
    Question(b"q" * 32, None),
    Question(b"q" * 32, 5, 6, b"r" * 32, "bob"),
    Timer(5),
    Timer(5, 6),
    Signal(),
    Signal(5, 6, "s-1", b"p" * 32, 7),
]


async def test_every_field_of_run_and_steps_comes_back(store: Store, other: Store) -> None:
    run = await submitted(store)
    begun = await won(store, dispatch_of(run, NodeId("a"), NodeId("b")))
    ended = succeeded(begun.step(NodeId("a")))
    steps = {
        NodeId("a"): replace(ended, contradiction=Receipt.NOT_STARTED, charged_micros=7),
        NodeId("b"): replace(begun.step(NodeId("b")), receipt=Receipt.UNKNOWN, reserved_micros=3),
        **{
            NodeId(f"waits-{number}"): Step(StepStatus.WAITING, detail=detail)
            for number, detail in enumerate(DETAILS)
        },
    }
    changes = {
        "status": RunStatus.PAUSED,
        "paused_at_us": 5,
        "cancelled": True,
        "result_code": Code.CANCELLED,
        "settlement": 2,
        "spent_micros": 7,
        "reserved_micros": 3,
        "overrun_micros": 4,
        "wake_at_us": 2**62,
    }
    after = await won(store, write_of(begun, steps, **changes))  # type: ignore[arg-type]
    assert dict(after.steps) == steps
    assert {name: getattr(after, name) for name in changes} == changes
    assert await loaded(other, run.run_id) == after


async def test_what_is_not_there_is_none_or_empty(store: Store) -> None:
    assert await store.load(NOBODY) is None
    assert await store.payloads(NOBODY, [INPUT]) == {}
    assert await store.journal(NOBODY) == []
    assert await store.command(NOBODY, "c") is None
    assert await store.once_holder(b"d" * 32) is None
    assert await store.last_checks([CallRef(NOBODY, NODE)]) == [None]
    assert not await store.cancelled([NOBODY])
    assert await store.due(10) == []


async def test_another_scope_sees_nothing_of_a_run(place: Place, store: Store) -> None:
    run = await submitted(store)
    elsewhere = await place.open(Scope("acme", "other shop"))
    assert await elsewhere.load(run.run_id) is None
    assert await elsewhere.payloads(run.run_id, [INPUT]) == {}
    assert await elsewhere.journal(run.run_id) == []
    assert await elsewhere.last_checks([CallRef(run.run_id, NODE)]) == [None]
    assert await elsewhere.due(10) == []
    assert (await elsewhere.create(submission("o-1", elsewhere.scope))).created
    await elsewhere.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'"\\u0000"',
        b'"\\\\u0000"',
        b'"__mayura_4f1c8d2e-0000-4000-8000-000000000000__"',
        "\u00e9\u6f22\U0001f600'\"; --".encode(),
        bytes(range(256)),
        b"x" * (1 << 20),
    ],
    ids=["empty", "escape", "double", "sentinel", "unicode", "binary", "a mebibyte"],
)
async def test_a_payload_comes_back_byte_for_byte(store: Store, other: Store, body: bytes) -> None:
    """Case F2."""
    run = await submitted(store)
    run = await won(store, write_of(run, payloads=((OUTPUT, body), (OTHER_OUTPUT, b"1"))))
    assert await other.payloads(run.run_id, [OUTPUT]) == {OUTPUT: body}
    await won(store, write_of(run, payloads=((OUTPUT, body[::-1]),)))
    both = await other.payloads(run.run_id, [OUTPUT, OTHER_OUTPUT])
    assert both == {OUTPUT: body[::-1], OTHER_OUTPUT: b"1"}


async def test_a_journal_is_read_in_pages_of_bytes(store: Store) -> None:
    """Case F10: a page is as large as was asked for, however large its entries are."""
    run = await submitted(store)
    sizes = [100, 100, 100, 5_000, 100, 100]
    for size in sizes:
        run = await won(store, write_of(run, entries=b"[" + b" " * (size - 2) + b"]"))
    pages: list[list[int]] = []
    after = 1
    while page := await store.journal(run.run_id, after, bytes_max=250):
        pages.append([len(entry.entries) for entry in page])
        after = page[-1].version
    assert pages == [[100, 100], [100], [5_000], [100, 100]]
    whole = await store.journal(run.run_id)
    assert [entry.version for entry in whole] == list(range(1, 8))
    assert [entry.first_seq for entry in whole] == list(range(1, 8))


async def test_due_runs_come_in_order_and_in_pages(store: Store) -> None:
    runs = [await submitted(store, f"o-{number}") for number in range(6)]
    now_us = (await store.now()).wall_us
    for run, wake_at_us in zip(
        runs, [now_us - 3, now_us - 5, now_us - 5, now_us + 10**12, None, now_us - 1], strict=True
    ):
        await won(store, write_of(run, wake_at_us=wake_at_us))
    expected = sorted(
        [
            DueRun(runs[number].run_id, DEFINITION, POLICY, now_us - early)
            for number, early in ((0, 3), (1, 5), (2, 5), (5, 1))
        ],
        key=lambda due: (due.wake_at_us, due.run_id),
    )
    assert await store.due(10) == expected
    pages: list[DueRun] = []
    after = None
    while page := await store.due(1, after=after):
        pages.extend(page)
        after = (page[-1].wake_at_us, page[-1].run_id)
    assert pages == expected


async def test_a_run_that_ends_is_not_due(store: Store) -> None:
    run = await submitted(store)
    assert [due.run_id for due in await store.due(10)] == [run.run_id]
    ended = {"status": RunStatus.SUCCEEDED, "settled_at_us": 1, "wake_at_us": None}
    await won(store, write_of(run, **ended))  # type: ignore[arg-type]
    assert await store.due(10) == []


async def test_last_checks_say_what_is_so_now(store: Store, other: Store) -> None:
    """G3."""
    runs = [await submitted(store, f"o-{number}") for number in range(3)]
    begun = [await won(store, dispatch_of(run)) for run in runs[:2]]
    ended = {"status": RunStatus.CANCELLED, "settled_at_us": 1, "wake_at_us": None}
    ended_step = {NODE: succeeded(begun[1].step(NODE))}
    await won(store, write_of(begun[1], ended_step, cancelled=True, **ended))  # type: ignore[arg-type]
    checks = await other.last_checks([CallRef(run.run_id, NODE) for run in (*runs, runs[0])])
    dispatch = begun[0].step(NODE).dispatch
    assert dispatch is not None
    dispatched = LastCheck(dispatch.nonce, dispatch.input_digest, POLICY, False, True)
    assert checks == [
        dispatched,
        LastCheck(None, None, POLICY, True, False),
        LastCheck(None, None, POLICY, False, True),
        dispatched,
    ]


async def test_cancelled_runs_are_named(store: Store, other: Store) -> None:
    runs = [await submitted(store, f"o-{number}") for number in range(3)]
    await won(store, write_of(runs[1], cancelled=True))
    assert set(await other.cancelled([run.run_id for run in runs])) == {runs[1].run_id}


async def test_the_estimate_is_the_stores_time(store: Store) -> None:
    before = await store.now()
    estimate = store.estimate()
    after = await store.now()
    slack_us = 1_000_000
    assert before.wall_us - slack_us <= estimate.wall_us <= after.wall_us + slack_us
    assert before.steady_us - slack_us <= estimate.steady_us <= after.steady_us + slack_us
    assert estimate.epoch == before.epoch


async def test_a_store_keeps_its_secret_and_its_runs(place: Place, store: Store) -> None:
    run, secret = await submitted(store), store.once_key
    await store.close()
    again = await place.open()
    assert again.once_key == secret
    assert len(secret) == 32
    assert await loaded(again, run.run_id) == run
    await again.close()


async def test_a_store_of_another_environment_is_refused(place: Place, store: Store) -> None:
    if isinstance(place, MemoryPlace):
        pytest.skip("a store in memory belongs to nobody else")
    with pytest.raises(MayuraError, match=r"'test'.*'production'") as refused:
        await place.open(environment="production")
    assert refused.value.code is Code.INVALID_CONFIG
    await (await place.open()).close()


async def test_many_open_one_new_place_at_once(place: Place) -> None:
    """Case D18."""
    stores = await asyncio.gather(*(place.open() for _ in range(20)))
    assert len({store.once_key for store in stores}) == 1
    await prepare(stores[0])
    await submitted(stores[1])
    await asyncio.gather(*(store.close() for store in stores))


USES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "put_definition": lambda store: store.put_definition(DEFINITION, "w", "1", b"{}"),
    "definition": lambda store: store.definition(DEFINITION),
    "put_policy": lambda store: store.put_policy(POLICY, b"{}"),
    "policy": lambda store: store.policy(POLICY),
    "create": lambda store: store.create(submission("o-1")),
    "load": lambda store: store.load(NOBODY),
    "payloads": lambda store: store.payloads(NOBODY, [INPUT]),
    "write": lambda store: store.write(write_of(submission("o-1").run, {NODE: dispatching()})),
    "last_checks": lambda store: store.last_checks([CallRef(NOBODY, NODE)]),
    "journal": lambda store: store.journal(NOBODY),
    "command": lambda store: store.command(NOBODY, "c"),
    "once_holder": lambda store: store.once_holder(sha256(b"").digest()),
    "due": lambda store: store.due(1),
    "cancelled": lambda store: store.cancelled([NOBODY]),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_a_closed_store_says_so_at_once(
    store: Store, use: Callable[[Store], Awaitable[object]]
) -> None:
    await asyncio.gather(store.close(), store.close())
    await store.close()
    async with asyncio.timeout(1):
        with pytest.raises(MayuraError, match="closed") as refused:
            await use(store)
    assert refused.value.code is Code.STORAGE_UNAVAILABLE


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
async def test_a_second_event_loop_is_told_to_open_a_store_of_its_own(store: Store) -> None:
    async def elsewhere(use: Callable[[Store], Awaitable[object]]) -> None:
        with pytest.raises(MayuraError, match="another event loop: open it") as refused:
            await use(store)
        assert refused.value.code is Code.INVALID_CONFIG

    for use in (*USES.values(), lambda store: store.close()):
        await asyncio.to_thread(asyncio.run, elsewhere(use))
    assert await store.due(1) == [], "on its own loop it goes on"
