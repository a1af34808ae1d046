"""`make demo` ends well, and would not if an effect had happened twice or a run got lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from demo import never_twice
from mayura.runtime import RunId, Snapshot
from tests.tidy import ROOT

SCRIPT = ROOT / "demo" / "never_twice.py"


@pytest.fixture
def settled(tmp_path: Path) -> tuple[list[Snapshot], Counter[str]]:
    """Two orders that nothing happened to, and their charges."""
    place = never_twice.Place(tmp_path)

    async def carry() -> list[Snapshot]:
        runs: list[RunId] = await never_twice.submit(place, 2)
        await never_twice.drive(place, runs, None)
        return await never_twice.read_back(place, runs)

    return asyncio.run(carry()), place.charges.count()


@pytest.mark.timeout(90)
def test_the_demonstration_ends_well() -> None:
    command = [sys.executable, str(SCRIPT), "--seed", "1", "--runs", "20", "--kills", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=80)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No effect happened twice." in done.stdout
    assert "--seed 1 --runs 20 --kills 5" in done.stdout


@pytest.mark.timeout(90)
def test_ctrl_c_ends_the_demonstration_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A terminal sends it to the drivers, too."""
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), "--seed", "1", "--runs", "1000", "--kills", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    ) as demo:
        try:
            until_charging(demo, tmp_path)
            os.killpg(demo.pid, signal.SIGINT)
            said, complained = demo.communicate(timeout=30)
        finally:
            demo.kill()
    assert demo.returncode == never_twice.INTERRUPTED
    assert "Interrupted" in said
    assert "run" not in said.partition("Interrupted")[2]
    assert "Traceback" not in complained
    assert not list(tmp_path.iterdir())


def until_charging(demo: subprocess.Popen[str], folder: Path) -> None:
    give_up_at = time.monotonic() + 30
    while not list(folder.glob("*/charges.txt")):
        assert demo.poll() is None
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("option", "text"),
    [("--runs", "0"), ("--runs", "1001"), ("--kills", "-1"), ("--kills", "1.5"), ("--seed", "x")],
)
def test_a_wrong_option_is_refused_with_what_is_right(
    option: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["never_twice.py", f"{option}={text}"])
    with pytest.raises(SystemExit) as ended:
        never_twice.main()
    assert ended.value.code == 2
    assert f"argument {option}: {text!r} is not a whole number from" in capsys.readouterr().err


def test_help_says_what_each_option_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["never_twice.py", "--help"])
    with pytest.raises(SystemExit):
        never_twice.main()
    said = " ".join(capsys.readouterr().out.split())
    for words in ("moments of the kills", "orders are charged, 1 to 1000", "drivers are killed"):
        assert words in said


def test_the_promise_is_kept_where_nothing_went_wrong(
    settled: tuple[list[Snapshot], Counter[str]],
) -> None:
    found, charges = settled
    assert never_twice.report(found, charges, Counter())


def test_a_second_charge_breaks_the_promise(settled: tuple[list[Snapshot], Counter[str]]) -> None:
    found, charges = settled
    charges[next(iter(charges))] += 1
    assert not never_twice.report(found, charges, Counter())


def test_a_charge_that_a_run_denies_breaks_the_promise(
    settled: tuple[list[Snapshot], Counter[str]],
) -> None:
    found, charges = settled
    del charges[next(iter(charges))]
    assert not never_twice.report(found, charges, Counter())


def test_a_run_without_an_end_breaks_the_promise(tmp_path: Path) -> None:
    place = never_twice.Place(tmp_path)

    async def leave() -> list[Snapshot]:
        return await never_twice.read_back(place, await never_twice.submit(place, 1))

    assert not never_twice.report(asyncio.run(leave()), Counter(), Counter())
