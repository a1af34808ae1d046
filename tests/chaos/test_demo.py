"""`make demo` ends well, and would not if an effect had happened twice or a run got lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
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
