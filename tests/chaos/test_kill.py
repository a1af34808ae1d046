"""SIGKILL on both sides of everything a call does: the end is the one in the table.

Each place is killed at by a process of its own, all of them side by side in one store, so that
one wait for the settle deadline serves them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from mayura.runtime.faultpoints import NAMES
from tests.chaos import roles
from tests.chaos.conftest import STORES, ready
from tests.chaos.faults import BODY_POINTS, Fault, Faults
from tests.chaos.history import History, complaints, read_all, times_said
from tests.chaos.ledger import count
from tests.chaos.place import Place, run_of
from tests.chaos.processes import Drivers
from tests.chaos.shop import TIMEOUT_S
from tests.postgres_server import PostgresServer

VICTIMS_AT_ONCE: Final = 8
WAIT_US: Final = round((TIMEOUT_S + roles.MARGIN_S) * 1_000_000)
WRITES: Final = ("chaos.pay", "chaos.pay-in-a-thread")
READS: Final = ("chaos.look",)
CLOCKS_APART_US: Final = 50_000


@dataclass(frozen=True, slots=True)
class End:
    """How a run of one call ends: its status, what it says of its call, what the call did."""

    run: str
    step: str
    acted: str
    entered: int
    effects: int


WENT: Final = ((0, 0), (1, 0), (1, 1))
UNKNOWN: Final = {went: End("outcome_unknown", "unknown", "unknown", *went) for went in WENT}
PAID: Final = End("succeeded", "succeeded", "yes", 1, 1)
EFFECT_KNOWN: Final = End("blocked", "blocked", "yes", 1, 1)
LOOKED: Final = End("succeeded", "succeeded", "no", 1, 1)
FAILED: Final = {went: End("failed", "failed", "no", *went) for went in WENT}

TABLE: Final[list[tuple[str, End, End | None]]] = [
    # killed at                 a write tool     a read tool
    ("dispatch.before_commit", PAID, LOOKED),  # nobody knows of the dispatch: it is made later
    ("dispatch.committed", UNKNOWN[0, 0], FAILED[0, 0]),
    ("check.before", UNKNOWN[0, 0], FAILED[0, 0]),
    ("check.passed", UNKNOWN[0, 0], FAILED[0, 0]),
    ("tool.entered", UNKNOWN[0, 0], FAILED[0, 0]),
    ("effect.before", UNKNOWN[1, 0], FAILED[1, 0]),
    ("effect.after", UNKNOWN[1, 1], FAILED[1, 1]),
    ("tool.returned", UNKNOWN[1, 1], FAILED[1, 1]),
    ("receipt.before_commit", UNKNOWN[1, 1], None),  # a read's receipt is part of its completion
    ("receipt.committed", EFFECT_KNOWN, None),
    ("completion.before_commit", EFFECT_KNOWN, FAILED[1, 1]),
    ("completion.committed", PAID, LOOKED),
]
CASES: Final = [
    (workflow, point, end)
    for workflows, column in ((WRITES, 1), (READS, 2))
    for workflow in workflows
    for point, *ends in TABLE
    if (end := ends[column - 1]) is not None
]


@dataclass(frozen=True, slots=True)
class Killed:
    """What became of the run under each key, after a second process had driven it."""

    ends: dict[str, History]
    records: int  #: dispatch records in the database
    passes_by: list[str]  #: victims that were not killed


@pytest.fixture(scope="module", params=STORES)
def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Killed]:
    """One victim for each case, all in one store, and what a second process makes of them."""
    folder = tmp_path_factory.mktemp("killed")
    url = f"sqlite:///{folder / 'runs.db'}"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.create_database("killed")
    place = ready(Place(url, folder))
    drivers = Drivers(place)
    try:
        yield kill_everywhere(place, drivers)
    finally:
        drivers.close()


def kill_everywhere(place: Place, drivers: Drivers) -> Killed:
    passes_by = []
    for first in range(0, len(CASES), VICTIMS_AT_ONCE):
        victims = {
            (workflow, point): drivers.start(
                Faults(Fault(point)), roles.submit_and_drive, workflow, [key_of(workflow, point)]
            )
            for workflow, point, _ in CASES[first : first + VICTIMS_AT_ONCE]
        }
        for (workflow, point), victim in victims.items():
            victim.until_ended()
            if not victim.killed:
                passes_by.append(key_of(workflow, point))
    keys = [key_of(workflow, point) for workflow, point, _ in CASES]
    second = drivers.start(Faults(), roles.drive, [run_of(key) for key in keys])
    second.until_ended()
    ends = asyncio.run(read_all(place, {key: run_of(key) for key in keys}))
    return Killed(ends, place.dispatch_records(), passes_by)


def key_of(workflow: str, point: str) -> str:
    return f"{workflow} killed at {point}"


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("workflow", "point", "expected"), CASES, ids=[key_of(case[0], case[1]) for case in CASES]
)
def test_a_run_ends_as_the_table_says(
    killed: Killed, workflow: str, point: str, expected: End
) -> None:
    key = key_of(workflow, point)
    assert key not in killed.passes_by, "the victim never came to the place"
    found = killed.ends[key]
    step = found.run.step(found.definition.nodes[0].id)
    seen = End(
        found.run.status,
        step.status,
        step.acted,
        count(found.done, "entered").total(),
        count(found.done, "effect").total(),
    )
    assert seen == expected
    assert complaints(found) == []


@pytest.mark.timeout(120)
def test_no_step_is_settled_before_its_deadline(killed: Killed) -> None:
    """Whoever looks sooner leaves it alone (G9)."""
    for key, found in killed.ends.items():
        for settled_us in times_said(found, "step.abandoned"):
            (dispatched_us,) = times_said(found, "step.dispatching")
            # Deadlines are on the steady clock, and the journal has wall time.
            assert settled_us - dispatched_us > WAIT_US - CLOCKS_APART_US, key


@pytest.mark.timeout(120)
def test_each_step_has_one_dispatch_record(killed: Killed) -> None:
    assert killed.records == len(CASES)


def test_every_fault_point_has_its_row_in_the_table() -> None:
    settling = {point for point in NAMES if point.startswith("settle.")}  # see test_settle.py
    assert {row[0] for row in TABLE} | settling == {*NAMES, *BODY_POINTS}
