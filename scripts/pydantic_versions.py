"""Runs the golden digests under several versions of pydantic, each in an environment of its own.

A digest pins every open run, so it may not change when pydantic does. Needs a package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
#: The oldest whose descriptions are known to agree, and the last of each minor version since.
VERSIONS: Final = ("2.9.2", "2.10.6", "2.11.10", "2.12.5", "2.13.0")
BESIDE: Final = ("anyio", "orjson", "uuid-utils")


def environment_with(version: str, folder: Path) -> Path:
    """The interpreter of a new environment that has this version of pydantic."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"pydantic=={version}", *BESIDE], check=True)
    return python


def main() -> int:
    """The tests' exit code."""
    with tempfile.TemporaryDirectory(prefix="mayura-pydantic-") as folder:
        pythons = [environment_with(version, Path(folder) / version) for version in VERSIONS]
        return subprocess.run(
            [sys.executable, "-m", "pytest", "tests/core/test_golden_digests.py"],
            cwd=ROOT,
            env={**os.environ, "OTHER_PYTHONS": " ".join(map(str, pythons))},
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
