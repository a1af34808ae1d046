"""The test runner is as hostile as it says it is."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop
from blockbuster import BlockingError

import mayura.runtime
from tests import system_tools

PLANTED = """\
from time import sleep
from asyncpg import connect
async def block(): sleep(0.001)
async def use(url):
    connection = await connect(url)
    await connection.execute("select 1")
    await connection.close()
"""


def planted_in_the_package(name: str) -> Callable[..., Awaitable[None]]:
    """A coroutine function whose frame lies in a file of the package."""
    file = Path(mayura.runtime.__path__[0]) / "planted.py"
    names: dict[str, Callable[..., Awaitable[None]]] = {}
    exec(compile(PLANTED, file, "exec"), names)
    return names[name]


async def test_an_async_test_runs_on_the_loop_that_its_name_says(
    request: pytest.FixtureRequest,
) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, uvloop.Loop) == ("[uvloop]" in request.node.name)
    assert loop.get_debug()


async def test_a_blocking_call_of_the_package_on_the_loop_is_an_error() -> None:
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        await planted_in_the_package("block")()


@pytest.mark.may_block("shows that the mark works")
async def test_a_test_may_say_that_it_blocks() -> None:
    await planted_in_the_package("block")()


async def test_the_package_may_talk_to_a_database(postgres_url: str) -> None:
    await planted_in_the_package("use")(postgres_url)


async def test_a_test_itself_may_read_a_file() -> None:
    assert Path(__file__).read_text()


@pytest.mark.xfail(raises=pytest.PytestUnraisableExceptionWarning)
async def test_a_coroutine_that_nobody_awaits_is_an_error() -> None:
    asyncio.sleep(0)  # type: ignore[unused-coroutine]
    gc.collect()


@pytest.fixture
def no_program(monkeypatch: pytest.MonkeyPatch) -> str:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(system_tools, "find", nothing)
    return "pgbouncer"


def test_a_missing_program_is_said_with_what_to_do(
    no_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAYURA_TEST_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"NOT RUN: needs pgbouncer \(apt install"):
        system_tools.require(no_program)


def test_a_missing_program_fails_where_all_are_required(
    no_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYURA_TEST_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="NOT RUN: needs pgbouncer"):
        system_tools.require(no_program)


def test_the_closing_lines_count_the_tests_that_were_not_run() -> None:
    reports = [
        skipped("Skipped: NOT RUN: needs strace (apt install strace)"),
        skipped("Skipped: NOT RUN: needs strace (apt install strace)"),
        skipped("Skipped: some other reason"),
    ]
    assert system_tools.not_run(reports) == ["NOT RUN: needs strace (apt install strace): 2 tests"]


def skipped(reason: str) -> pytest.TestReport:
    return pytest.TestReport(
        "tests/a.py::test", ("tests/a.py", 1, "test"), {}, "skipped", (__file__, 1, reason), "setup"
    )
