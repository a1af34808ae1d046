"""The code in the docs runs, and says what the docs say it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """Every python block of every page, with where it stands."""
    return [
        (f"{page.relative_to(ROOT)}#{i}", code)
        for page in PAGES
        for i, code in enumerate(BLOCK.findall(page.read_text()), 1)
    ]


@pytest.mark.parametrize(("where", "code"), blocks(), ids=[where for where, _ in blocks()])
def test_code_in_the_docs_runs(where: str, code: str, tmp_path: Path) -> None:
    ran = _run(code, tmp_path)
    assert ran.returncode == 0, f"{where}\n{ran.stderr}"


def test_the_readme_says_what_its_workflow_prints(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    (code,) = BLOCK.findall(text)
    promised = re.search(r"It prints `([^`]+)`", text)
    assert promised is not None
    for _ in range(2):  # the same key is the same run
        assert _run(code, tmp_path).stdout.strip() == promised[1]


def _run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
