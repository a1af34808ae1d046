"""Digests that pin runs must be the same tomorrow: stored values, and other versions of pydantic.

A difference here strands every open run at the next release. If a digest has to change, say so in
the changelog and write the new values with `python -m tests.core.golden_types`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.core import golden_types
from tests.tidy import ROOT

GOLDENS: Final = Path(__file__).parent / "goldens" / "digests.json"
OTHER_HASH_SEEDS: Final = ("1", "2", "3")


def digests_in_a_process(python: str, **environment: str) -> object:
    paths = os.pathsep.join(str(ROOT / root) for root in ("runtime", "storage", "."))
    completed = subprocess.run(
        [python, "-m", "tests.core.golden_types"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    found: object = json.loads(completed.stdout)
    return found


def test_digests_are_the_stored_ones() -> None:
    assert golden_types.digests() == json.loads(GOLDENS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("seed", OTHER_HASH_SEEDS)
def test_digests_do_not_depend_on_the_order_of_sets(seed: str) -> None:
    found = digests_in_a_process(sys.executable, PYTHONHASHSEED=seed)
    assert found == json.loads(GOLDENS.read_text(encoding="utf-8"))


@pytest.mark.skipif("OTHER_PYTHONS" not in os.environ, reason="run by `make versions`")
@pytest.mark.parametrize("python", os.environ.get("OTHER_PYTHONS", "").split())
def test_digests_do_not_depend_on_the_version_of_pydantic(python: str) -> None:
    """Each of OTHER_PYTHONS is an interpreter with another version of pydantic."""
    assert digests_in_a_process(python) == json.loads(GOLDENS.read_text(encoding="utf-8"))
