"""Ctrl-C while a tool's body runs: in a real process, as in the README."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, sys, time
from pathlib import Path

from mayura.runtime import Call, Engine, Flow, Policy, open_store, tool, workflow


def enter():
    with open("entered", "a") as file:
        file.write("x")
    print("entered", flush=True)


@tool("mail.send", version="1", effects="write", capabilities=["mail:send"])
async def send_async(call: Call, to: str) -> str:
    enter()
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return f"sent to {to}"


@tool("mail.post", version="1", effects="write", capabilities=["mail:send"])
def send_plain(call: Call, to: str) -> str:
    enter()
    while not Path("go").exists():
        time.sleep(0.01)
    return f"sent to {to}"


send = {"async": send_async, "plain": send_plain}[sys.argv[1]]


@workflow("mail.welcome", version="1")
def welcome(flow: Flow, to: str) -> str:
    return flow.tool("send", send.on(to)).output


async def main() -> None:
    policy = Policy(version="1", allow=send.grants)
    async with (
        open_store("sqlite:///mail.db") as store,
        Engine(store, workflows=[welcome], policy=policy) as engine,
    ):
        run = await engine.submit(welcome, "ada@example.com", key="welcome-ada")
        seen = await engine.run_until_settled(run.id)
        print(seen.status, seen.output)


asyncio.run(main())
"""
LOOKS = 3  #: in a row at a process that sleeps
LOOK_S = 0.002
LEAVING = "leaving the engine: 1 calls in hand"


@contextmanager
def interrupted(kind: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The script, interrupted while the body runs, once its engine is being left."""
    with subprocess.Popen(
        [sys.executable, "-W", "default", "-c", SCRIPT, kind],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as script:
        try:
            assert script.stdout is not None
            assert script.stderr is not None
            assert script.stdout.readline() == "entered\n"
            script.send_signal(signal.SIGINT)
            while LEAVING not in (line := script.stderr.readline()):
                assert line, "it ended without a word"
            until_asleep(script.pid)
            yield script
        finally:
            script.kill()


def until_asleep(pid: int) -> None:
    """Wait until the process waits: a signal may raise in the middle of anything else."""
    asleep = 0
    while asleep < LOOKS:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        asleep = asleep + 1 if state == "S" else 0
        time.sleep(LOOK_S)


def refuse_trouble(complained: str) -> None:
    """Nothing but what Python itself says of an interrupted program."""
    said = set(re.findall(r"\b\w*(?:Warning|Error|Group)\b", complained))
    assert said <= {"CancelledError"}, complained
    for words in ("Exception in thread", "never retrieved", "destroyed", "never awaited"):
        assert words not in complained, complained
    assert complained.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_one_interrupt_lets_the_body_end_and_keeps_its_receipt(kind: str, tmp_path: Path) -> None:
    with interrupted(kind, tmp_path) as script:
        (tmp_path / "go").touch()
        _, complained = script.communicate(timeout=30)
    assert script.returncode == -signal.SIGINT, complained
    refuse_trouble(complained)
    again = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert again.stdout == "succeeded sent to ada@example.com\n"
    assert (tmp_path / "entered").read_text() == "x"


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_second_interrupt_gives_up_at_once_and_names_the_call(kind: str, tmp_path: Path) -> None:
    with interrupted(kind, tmp_path) as script:
        script.send_signal(signal.SIGINT)
        _, complained = script.communicate(timeout=30)
    assert script.returncode == -signal.SIGINT, complained
    refuse_trouble(complained)
    assert len(re.findall(r"[0-9a-f]{32}/step:send\b", complained)) == 1, complained
