"""Write requirements.lock: every package of the project, pinned and hashed, for all platforms.

The file has three sections, so that one lock serves three sizes of environment: what the
package needs to run (with its build backend), what development adds, what the benchmarks add.
The Makefile installs the file from its top down to the section it wants. Needs `uv`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = (
    ("run-time packages and the build backend", ()),
    ("development packages", ("dev",)),
    ("benchmark packages", ("dev", "bench")),
)
HEADER = """\
# Written by `make lock` from pyproject.toml; do not edit. Made for `pip --require-hashes`.
# `make demo` installs the first section only, `make test` the first two, `make bench` all.
"""


def build_requirements() -> list[str]:
    """What `pip install --no-build-isolation` must find installed: ours and one sdist's backend."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        requires: list[str] = tomllib.load(file)["build-system"]["requires"]
    return [*requires, "editables", "setuptools"]


def compile_pins(extras: tuple[str, ...], pinned: str, folder: Path) -> str:
    """One resolution; `pinned` holds what an earlier section has already decided."""
    constraints = folder / "constraints.txt"
    constraints.write_text(pinned)
    extra = folder / "build.in"
    extra.write_text("\n".join(build_requirements()) + "\n")
    command = [os.environ.get("UV", "uv"), "pip", "compile", "--quiet", "--universal"]
    command += ["--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--constraints", str(constraints)]
    command += [part for name in extras for part in ("--extra", name)]
    command += sys.argv[1:]
    command += [str(ROOT / "pyproject.toml"), str(extra)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def entries(text: str) -> dict[str, str]:
    """Each pinned package's lines by its name."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return {block.split("==")[0]: block.rstrip() for block in blocks if "==" in block}


def main() -> None:
    lines = [HEADER.rstrip()]
    known: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for title, extras in SECTIONS:
            found = entries(compile_pins(extras, "\n".join(known.values()) + "\n", Path(folder)))
            lines.append(f"\n# --- {title}")
            lines += [block for name, block in found.items() if name not in known]
            known |= found
    (ROOT / "requirements.lock").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
