"""A place for each chaos test, its driver processes, and what the runs came to."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.place import Place
from tests.chaos.processes import Drivers

STORES = ("sqlite", "postgres")


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """What a shell starts in its background ignores SIGINT, and so do its children: not here."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty store that processes can share: each of the two in turn."""
    if request.param == "sqlite":
        return ready(Place(f"sqlite:///{tmp_path / 'runs.db'}", tmp_path))
    return ready(Place(request.getfixturevalue("postgres_url"), tmp_path))


@pytest.fixture
def drivers(place: Place) -> Iterator[Drivers]:
    """Starts driver processes; none of them outlives the test."""
    started = Drivers(place)
    yield started
    started.close()


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Say something that stands below the report, whatever the outcome."""
    return lambda line: record_property("chaos", line)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the chaos came to: how many rounds raced, how many kills, under which seed."""
    reports = [r for found in terminalreporter.stats.values() for r in found]
    for report in reports:
        if isinstance(report, pytest.TestReport) and report.when == "call":
            for name, line in report.user_properties:
                if name == "chaos":
                    terminalreporter.write_line(str(line))


def ready(place: Place) -> Place:
    """The place, with a store that is set up."""
    asyncio.run(_open_once(place))
    return place


async def _open_once(place: Place) -> None:
    await (await place.open()).close()
