"""The journal: whole, in order, without a payload, and nobody changes it unseen."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any

import asyncpg
import pytest
from pydantic import AfterValidator, BaseModel, Field

from mayura.runtime import Call, Code, Engine, Flow, Guard, Person, RunId, tool, workflow
from mayura.runtime.core import values
from mayura.runtime.core.digest import chain
from mayura.runtime.journal import verified_events
from mayura.runtime.ports import JournalEntry, Store
from tests.runtime.oracle import whole_journal
from tests.runtime.shop import (
    LEDGER,
    Body,
    acting,
    one_step,
    raising,
    refusing,
    two_steps,
)
from tests.runtime.trouble import Between
from tests.runtime.world import (
    InPostgres,
    InSqlite,
    World,
    everywhere,
    refused,
    steps_of,
)

ACT = acting()
ONE = one_step(ACT)
TWO = two_steps(ACT)
VERSIONS = 6  #: commits of a run of `TWO`, with its submission
GENESIS = bytes(32)


async def run_of_two(world: World, store: Store | None = None) -> tuple[Engine, RunId]:
    """A run that went through its whole life."""
    engine = await world.engine(TWO, store=store)
    run = await engine.submit(TWO, "o-1", key="o-1")
    assert (await engine.run_until_settled(run.id)).revision == VERSIONS
    return engine, run.id


# --- in order -------------------------------------------------------------------------------------


@everywhere
async def test_events_are_numbered_without_gaps_and_in_the_order_of_their_commits(
    world: World,
) -> None:
    engine, run_id = await run_of_two(world)
    events = await engine.events(run_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    versions = [event.version for event in events]
    assert sorted(set(versions)) == list(range(1, VERSIONS + 1))
    assert all(two - one in (0, 1) for one, two in pairwise(versions))
    assert all(one.at_us <= two.at_us for one, two in pairwise(events))
    assert [event.type for event in events] == [
        "run.created",
        "step.dispatching",
        "step.receipt",
        "step.succeeded",
        "step.dispatching",
        "step.receipt",
        "step.succeeded",
        "run.settled",
    ]
    journal = await whole_journal(world.stores[0], run_id)
    assert events == verified_events(journal), "a journal can be verified by itself"


async def test_a_long_journal_is_read_a_page_at_a_time(world: World) -> None:
    store = Between(await world.store())
    engine, run_id = await run_of_two(world, store)
    whole = await engine.events(run_id)
    store.pages = lambda page: page[:1]
    assert await engine.events(run_id) == whole


async def test_a_run_that_moved_on_while_its_journal_was_read_is_in_order(world: World) -> None:
    store = await world.store()
    engine = await world.engine(TWO, store=store)
    run = await engine.submit(TWO, "o-1", key="o-1")
    before = await store.load(run.id)
    assert before is not None
    await engine.run_until_settled(run.id)
    assert len(verified_events(await whole_journal(store, run.id), before.run)) == 8


async def test_there_is_no_journal_of_a_run_that_is_not_there(world: World) -> None:
    engine = await world.engine(ONE)
    for run_id in ("0" * 32, "nonsense", ""):
        with refused(Code.NOT_FOUND):
            await engine.events(RunId(run_id))


# --- changed behind the runtime's back ------------------------------------------------------------


def changed(number: int, alter: Callable[[JournalEntry], JournalEntry]) -> Damage:
    """The entry of one version is another."""
    return lambda page: [alter(e) if e.version == number else e for e in page]


def other_events(entry: JournalEntry) -> JournalEntry:
    return replace(entry, entries=entry.entries.replace(b"first", b"forst"))


def rewritten(page: list[JournalEntry]) -> list[JournalEntry]:
    """Somebody changed an entry and computed all digests anew."""
    previous, at_us, whole = GENESIS, 0, []
    for old in page:
        entry = other_events(old) if old.version == 3 else old
        digest = chain(previous, at_us, entry.version, entry.entries)
        whole.append(replace(entry, chain=digest))
        previous, at_us = digest, entry.at_us
    return whole


def swapped(page: list[JournalEntry]) -> list[JournalEntry]:
    return [page[0], page[1], page[3], page[2], *page[4:]]


def extended(page: list[JournalEntry]) -> list[JournalEntry]:
    last = page[-1]
    count = len(_events(last))
    seq = last.first_seq + count
    return [*page, replace(last, version=last.version + 1, first_seq=seq)]


def _events(entry: JournalEntry) -> list[object]:
    found = values.decode(entry.entries)
    assert isinstance(found, list)
    return list(found)


Damage = Callable[[list[JournalEntry]], Sequence[JournalEntry]]
DAMAGE: dict[str, tuple[Damage, int]] = {
    "an event": (changed(3, other_events), 3),
    "a digest": (changed(3, lambda e: replace(e, chain=bytes(32))), 3),
    "a time": (changed(3, lambda e: replace(e, at_us=e.at_us + 1)), 4),
    "the last time": (changed(6, lambda e: replace(e, at_us=e.at_us + 1)), 6),
    "a number": (changed(3, lambda e: replace(e, first_seq=e.first_seq + 1)), 3),
    "a version": (changed(3, lambda e: replace(e, version=7)), 3),
    "the order": (swapped, 3),
    "one removed": (lambda page: [e for e in page if e.version != 3], 3),
    "the first removed": (lambda page: page[1:], 1),
    "the last removed": (lambda page: [e for e in page if e.version != 6], 6),
    "all removed": (lambda page: [], 1),
    "one doubled": (lambda page: [*page[:3], *page[2:]], 4),
    "one added": (extended, 7),
    "all rewritten": (rewritten, 6),
}


@pytest.mark.parametrize("empty_world", ["memory"], indirect=True)
@pytest.mark.parametrize("damage", DAMAGE)
async def test_whoever_changes_the_journal_is_found_out(world: World, damage: str) -> None:
    """And the version is named, from which on nothing follows any more."""
    alter, version = DAMAGE[damage]
    store = Between(await world.store())
    engine, run_id = await run_of_two(world, store)
    store.pages = lambda page: alter(page) if len(page) == VERSIONS else []
    with refused(Code.INTEGRITY_VIOLATION) as caught:
        await engine.events(run_id)
    assert f"version {version} " in str(caught.value)


@pytest.mark.parametrize("empty_world", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize(
    ("statement", "version"),
    [
        ("update journal set at_us = at_us - 1000000 where version = 2", 3),
        ("delete from journal where version = 4", 4),
        ("delete from journal where version = 6", 6),
    ],
    ids=["time", "deleted", "cut off"],
)
async def test_whoever_gets_past_the_stores_own_guard_is_found_out(
    world: World, statement: str, version: int
) -> None:
    """The tables refuse to be changed; whoever owns them can have them stop refusing."""
    engine, run_id = await run_of_two(world)
    assert await carried_out(world, statement) is False
    assert len(await engine.events(run_id)) == 8
    drop = "drop trigger journal_never_changes{0}; drop trigger journal_stays{0};"
    on = " on journal" if isinstance(world.place, InPostgres) else ""
    assert await carried_out(world, drop.format(on) + statement)
    with refused(Code.INTEGRITY_VIOLATION) as caught:
        await engine.events(run_id)
    assert f"version {version} " in str(caught.value)
    await world.close()
    world.stores.clear()  # what is in them is not in order any more, and that was the point


async def carried_out(world: World, script: str) -> bool:
    """Whether the database did it."""
    place = world.place
    if isinstance(place, InSqlite):
        with closing(sqlite3.connect(place.path)) as file:
            try:
                file.executescript(f"begin immediate; {script}; commit")
            except sqlite3.IntegrityError:
                return False
            return True
    assert isinstance(place, InPostgres)
    connection = await asyncpg.connect(place.url)
    try:
        await connection.execute(script)
    except asyncpg.PostgresError:
        return False
    finally:
        await connection.close()
    return True


# --- no payload -----------------------------------------------------------------------------------


def _refuse(value: str) -> str:
    if value.startswith("bad"):
        raise ValueError(f"SECRET validator {value}")
    return value


Picky = Annotated[str, AfterValidator(_refuse)]


class Order(BaseModel):
    """What somebody asks for."""

    text: str = "SECRET input"
    bad: str = "bad SECRET bound"
    named: dict[str, int] = {"SECRET place": 11}


def _guard(value: object, about: object) -> bool:
    raise RuntimeError("SECRET guard")


@tool("shop.picky", version="1", effects="write")
async def picky(call: Call, text: Picky) -> str:
    """Takes what its validator lets through."""
    return text


@tool("shop.small", version="1", effects="write")
async def small(call: Call, amounts: dict[str, Annotated[int, Field(le=10)]]) -> str:
    """Takes small amounts, each under a name that somebody gave it."""
    return "small"


GUARDED = acting("shop.guarded", input_guards=[Guard("g", "1", _guard)])
WITHHELD = acting("shop.withheld", output_guards=[Guard("g", "1", _guard)])


@workflow("shop.secrets", version="1")
def secrets(flow: Flow, order: Order) -> str:
    """Everything that a run can hear or say."""
    flow.tool("returns", ACT.on(order.text))
    flow.tool("raises", ACT.on(order.text))
    flow.tool("refuses", ACT.on(order.text))
    flow.tool("nonsense", ACT.on(order.text))
    flow.tool("misfit", picky.on(order.bad))
    flow.tool("misplaced", small.on(order.named))
    flow.tool("guarded", GUARDED.on(order.text))
    flow.tool("withheld", WITHHELD.on(order.text))
    flow.tool("approved", ACT.on(order.text), approval=True)
    flow.tool("rejected", ACT.on(order.text), approval=True)
    choosy: Any = Picky  # an annotated type, which only one of the two type checkers takes
    flow.signal("paid", choosy)
    flow.human("corrected", choosy, prompt="SECRET prompt", context=order.text)
    return flow.human("asked", str, prompt="Is it right?").output


def says(text: str) -> Body:
    return lambda call: text


STORED = ("input", "output", "refusal", "withheld", "yes", "no", "paid", "answer", "place")
"""What is kept as a payload; nothing of it, and nothing else that was said, is in the journal."""


@everywhere
async def test_no_event_holds_anything_that_somebody_said(world: World) -> None:
    """Inputs, outputs, answers, signals, reasons, refusals, texts of errors, and credentials."""
    LEDGER.does("returns", says("SECRET output"))
    LEDGER.does("raises", raising(ValueError("SECRET exception")))
    LEDGER.does("refuses", refusing("SECRET refusal"))
    LEDGER.does("nonsense", lambda call: {"SECRET": "nonsense"})
    LEDGER.does("withheld", says("SECRET withheld"))
    engine = await world.engine(secrets, verify_human=_anybody)
    run = await engine.submit(secrets, Order(), key="o-1", requested_by="ada")
    await engine.run_until_settled(run.id)
    for node, decide, why in (
        ("approved", engine.approve, "SECRET yes"),
        ("rejected", engine.reject, "SECRET no"),
    ):
        request = await engine.approval_request(run.id, node)
        await decide(run.id, node, request.digest, credential="SECRET key", reason=why)
    for payload, code in (("bad SECRET signal", Code.INVALID_INPUT), ("SECRET paid", None)):
        with refused(code) if code is not None else nullcontext():
            await engine.signal(run.id, "paid", "p-1", payload)
    question = await engine.human_request(run.id, "asked")
    answer = (run.id, "asked", question.digest, "SECRET answer")
    await engine.respond(*answer, credential="SECRET key")
    await bad_answer_without_the_code(world, run.id)
    seen = await engine.run_until_settled(run.id)
    assert seen.settled
    assert steps_of(seen) == {
        "returns": "succeeded",
        "raises": "unknown",
        "refuses": "failed",
        "nonsense": "blocked",
        "misfit": "failed",
        "misplaced": "failed",
        "guarded": "blocked",
        "withheld": "blocked",
        "approved": "succeeded",
        "rejected": "blocked",
        "paid": "succeeded",
        "corrected": "failed",
        "asked": "succeeded",
    }
    for entry in await whole_journal(world.stores[0], run.id):
        assert b"SECRET" not in entry.entries
    assert not any("SECRET" in repr(event) for event in await engine.events(run.id))
    kept = await world.place.dump()
    assert [word for word in STORED if f"SECRET {word}" not in kept] == []
    assert [w for w in ("exception", "validator", "guard", "key") if f"SECRET {w}" in kept] == []


async def bad_answer_without_the_code(world: World, run_id: RunId) -> None:
    """Recorded where only the stored schema judges, and refused by the code later."""
    stranger = await world.elsewhere(ONE, verify_human=_anybody)
    question = await stranger.human_request(run_id, "corrected")
    answer = (run_id, "corrected", question.digest, "bad SECRET correction")
    await stranger.respond(*answer, credential="SECRET key")


def _anybody(credential: str) -> Person:
    return Person(id="bea", issuer="shop", method="key")
