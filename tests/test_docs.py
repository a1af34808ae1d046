"""The code in the docs runs, and says what the docs say it says."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mayura.runtime import Code, Engine, Flow, Policy, tool, workflow
from mayura.runtime.reconcile import STORED
from mayura.storage import postgres_limits as limits
from mayura.storage.limits import METHOD_TIME_MAX_MS

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


def rows(page: str, section: str) -> dict[str, str]:
    """The first two columns of a section's table."""
    _, found, text = (ROOT / page).read_text().partition(f"\n## {section}\n")
    assert found, f"{page} has no section {section}"
    cells = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", text.partition("\n## ")[0], re.MULTILINE)
    return {first: second for first, second in cells if "`" in first or second.isdecimal()}


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


def test_the_readme_says_what_a_second_start_prints_after_a_kill(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    (code,) = BLOCK.findall(text)
    killer = re.search(r"`(import os; os._exit\(9\))`", text)
    assert killer is not None
    sending = '    return f"sent to {to}"\n'
    killed = code.replace(sending, f"    {killer[1]}\n{sending}")
    assert _run(killed, tmp_path).returncode == 9
    promised = re.search(r"prints\s+`(running None)`", text)
    assert promised is not None
    for _ in range(2):  # nobody settles it before its time, and nobody sends
        assert _run(code, tmp_path).stdout.strip() == promised[1]


@pytest.mark.parametrize("made", [Flow, Engine], ids=lambda made: made.__name__)
def test_every_method_is_in_the_reference_as_it_is_called(made: type) -> None:
    page = (ROOT / "docs" / "reference" / f"{made.__name__.lower()}.md").read_text()
    said = re.findall(r"^\| `(\w+)\((.*?)\)` \|", page, re.MULTILINE)
    methods = {
        name: _arguments(method)
        for name, method in inspect.getmembers(made, inspect.isfunction)
        if not name.startswith("_")
    }
    assert len(said) == len(methods)
    assert {name: arguments.replace("tool.on(...)", "bound") for name, arguments in said} == methods


@pytest.mark.parametrize("made", [Engine, tool, workflow, Policy], ids=lambda made: made.__name__)
def test_every_option_is_in_the_reference_with_its_default(made: Callable[..., object]) -> None:
    options = {
        f"`{name}`": _written(option.default)
        for name, option in inspect.signature(made).parameters.items()
        if name != "in_flight"  # what tests hand over to be several processes
    }
    assert rows("docs/reference/options.md", made.__name__) == options


def test_every_error_code_of_the_reference_is_one_that_can_be_met() -> None:
    sources = [*(ROOT / "runtime").rglob("*.py"), *(ROOT / "storage").rglob("*.py")]
    text = "".join(source.read_text() for source in sources)
    assert not [code for code in Code if f"Code.{code}" not in text]


def test_the_reference_of_errors_promises_no_feature_of_later() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text().lower()
    for later in ("prune", "continue-as-new", "child run", "worker"):
        assert not re.search(rf"\b{later}", page), later


def test_the_limits_of_postgresql_are_those_of_the_code() -> None:
    said = rows("storage/README.md", "PostgreSQL")
    held = [
        limits.WRITERS,
        limits.LONE_WRITERS,
        limits.READERS,
        METHOD_TIME_MAX_MS / 1000,
        limits.CONNECT_S_MAX,
        limits.SEND_S_MAX,
        limits.STATEMENT_S_MAX,
        limits.LOCK_WAIT_S_MAX,
        limits.IDLE_IN_TRANSACTION_S_MAX,
        limits.CLOSE_S_MAX,
    ]
    assert [float(number) for number in said.values()] == held


def _written(default: object) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default!r}`"


def _arguments(method: Callable[..., object]) -> str:
    """The parameters as the reference writes them: no types, and not what it says once for all."""
    written: list[str] = []
    for option in inspect.signature(method).parameters.values():
        if option.name in ("self", "when", "after"):
            continue
        if option.kind is option.KEYWORD_ONLY and "*" not in written:
            written.append("*")
        default = option.default
        if default is option.empty:
            written.append(option.name)
        else:
            shown = "STORED" if default is STORED else f"{default!r}".replace("'", '"')
            written.append(f"{option.name}={shown}")
    return ", ".join(written)


def _run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
