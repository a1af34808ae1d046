"""The real engine in thousands of small worlds: whatever dies, freezes or is lost, the rules hold.

MAYURA_SIM_SEED=123 .venv/bin/python -m pytest -s tests/simulation -k one_seed
    one seed again, with a line for each event
MAYURA_SIM_SEEDS=100000 .venv/bin/python -m pytest --timeout 0 -n 2 tests/simulation -k seeds
    more of them; MAYURA_SIM_FIRST says where to begin
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.world import Story, Violation, play
from tests.tidy import ROOT

FIRST: Final = int(os.environ.get("MAYURA_SIM_FIRST", "0"))
SEEDS: Final = int(os.environ.get("MAYURA_SIM_SEEDS", "2000"))
PARTS: Final = 8
SEEDS_FOR_A_MUTANT_MAX: Final = 2_000
AGAIN: Final = "MAYURA_SIM_SEED={} .venv/bin/python -m pytest -s tests/simulation -k one_seed"
PLAY: Final = "import sys; from tests.simulation.world import play; print(play({}).trace)"


def kept(seed: int) -> Story:
    """The story of a seed; its failure is the command that plays it again."""
    try:
        return play(seed)
    except Violation as violation:
        pytest.fail(f"{violation}\n\n{AGAIN.format(seed)}", pytrace=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_seeds_keep_every_promise(part: int) -> None:
    stories = [kept(seed) for seed in range(FIRST + part, FIRST + SEEDS, PARTS)]
    ends = {end.split()[1] for story in stories for end in story.settled}
    assert SEEDS < 1_000 or ends == {
        "succeeded", "failed", "blocked", "cancelled", "outcome_unknown",
    }, "the stories come to every kind of end"  # fmt: skip


def test_one_seed() -> None:
    seed = int(os.environ.get("MAYURA_SIM_SEED", "0"))
    try:
        story = play(seed, print)
    except Violation as violation:
        pytest.fail(f"{violation}\n\n{AGAIN.format(seed)}", pytrace=False)
    said = f"{story.steps} steps, {story.seconds:.1f} virtual seconds, trace {story.trace}"
    print(said)  # noqa: T201 - for whoever asked for this seed


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_has_the_same_trace_in_every_process(seed: int) -> None:
    here = {play(seed).trace for _ in range(2)}
    there = {
        subprocess.run(
            [sys.executable, "-c", PLAY.format(seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert len(here | there) == 1


def test_seeds_differ() -> None:
    assert len({play(seed).trace for seed in range(20)}) == 20


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_deliberate_breakage_is_found(mutant: Mutant) -> None:
    with mutant():
        for seed in range(SEEDS_FOR_A_MUTANT_MAX):
            try:
                play(seed)
            except Violation:
                return
    pytest.fail(f"{SEEDS_FOR_A_MUTANT_MAX} seeds found nothing wrong")
