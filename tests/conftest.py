"""The test runner is hostile by default: two loops, debug mode, no blocking of a loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping

import hypothesis
import pytest
import uvloop
from blockbuster import BlockBuster

from mayura.storage.postgres import migrate
from tests import system_tools
from tests.postgres_server import PostgresServer

# No deadline: the machine is shared, and pytest-timeout bounds every test anyway.
hypothesis.settings.register_profile("mayura", deadline=None, print_blob=True)
hypothesis.settings.load_profile("mayura")

TEMPLATE_DATABASE = "mayura_template"


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every async test runs twice."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do not run a test whose system tools are not there."""
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            system_tools.require(name)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say last which tests were not run for want of a program."""
    for line in system_tools.not_run(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(autouse=True)
def no_blocking_of_the_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which the package makes a blocking call on the event loop's thread.

    Only calls below a frame of the package count: a test may read a file. A test whose tool
    bodies block on purpose says `@pytest.mark.may_block("why")`.
    """
    is_async = request.node.get_closest_marker("asyncio") is not None
    if not is_async or request.node.get_closest_marker("may_block") is not None:
        yield
        return
    guard = BlockBuster(["mayura.runtime", "mayura.storage", "mayura.fleet"])
    # asyncpg looks for a password file and certificates before each connection, in microseconds.
    for function in guard.functions.values():
        function.can_block_in("asyncpg/connect_utils.py", {"_parse_connect_arguments"})
    guard.activate()
    try:
        yield
    finally:
        guard.deactivate()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The PostgreSQL that this process' tests share, each with a database of its own."""
    server = PostgresServer(system_tools.require("postgresql"))
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def crashing_postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL of the test's own, which it may stop, kill and restart."""
    server = PostgresServer(system_tools.require("postgresql"))
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """The database that `postgres_url` copies, prepared once."""
    prepare_template(postgres_server.create_database(TEMPLATE_DATABASE))
    return TEMPLATE_DATABASE


def prepare_template(url: str) -> None:
    """Bring the template to the newest schema."""
    asyncio.run(migrate(url))


@pytest.fixture(scope="session")
def database_names() -> Iterator[str]:
    """A fresh name for every database."""
    return (f"test_{number}" for number in itertools.count(1))


@pytest.fixture
def postgres_url(
    postgres_server: PostgresServer, postgres_template: str, database_names: Iterator[str]
) -> Iterator[str]:
    """The URL of a fresh database with the newest schema."""
    name = next(database_names)
    yield postgres_server.create_database(name, template=postgres_template)
    postgres_server.drop_database(name)


@pytest.fixture
def empty_postgres_url(
    postgres_server: PostgresServer, database_names: Iterator[str]
) -> Iterator[str]:
    """The URL of a fresh database with nothing in it."""
    name = next(database_names)
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)
