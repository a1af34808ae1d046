"""The style of the house is a test; each rule also finds the offence that is planted for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pytest

from mayura.runtime.errors import Code
from tests import tidy
from tests.tidy import ROOT, Source, repository_files

Rule = Callable[[Source], list[str]]

LONG_FUNCTION: Final = "def f() -> None:\n" + "    pass\n" * tidy.FUNCTION_LINES_MAX
PYTHON_RULES: Final[list[tuple[Rule, str, str]]] = [
    (tidy.long_files, "tests/a.py", "pass\n" * (tidy.FILE_LINES_MAX + 1)),
    (tidy.long_functions, "tests/a.py", LONG_FUNCTION),
    (tidy.wrong_directions, "runtime/mayura/runtime/a.py", "import mayura.storage.sqlite"),
    (tidy.wrong_directions, "runtime/mayura/runtime/a.py", "from mayura import fleet"),
    (tidy.wrong_directions, "runtime/mayura/runtime/core/a.py", "import mayura.runtime.ports"),
    (tidy.wrong_directions, "storage/mayura/storage/a.py", "from mayura.runtime import submit"),
    (tidy.foreign_packages, "runtime/mayura/runtime/a.py", "import asyncpg"),
    (tidy.foreign_packages, "fleet/mayura/fleet/a.py", "from sqlite3 import connect"),
    (tidy.foreign_packages, "runtime/mayura/runtime/a.py", "import httpx2"),
    (tidy.bare_root_imports, "tests/a.py", "from storage.mayura import storage"),
    (tidy.sql_in_strings, "storage/mayura/storage/a.py", "S = 'select id from runs'"),
    (tidy.sql_in_strings, "storage/mayura/storage/a.py", "S = f'UPDATE {t} SET a = 1'"),
    (tidy.sql_in_strings, "storage/mayura/storage/a.py", "S = 'pragma synchronous'"),
    (tidy.banned_names, "fleet/mayura/fleet/a.py", "class RetryPolicy: ..."),
    (tidy.banned_names, "fleet/mayura/fleet/a.py", "async def run_jobs(): ..."),
    (tidy.banned_names, "fleet/mayura/fleet/utils.py", ""),
]
TEXT_RULES: Final[list[tuple[Rule, str, str]]] = [
    (tidy.dangling_pages, "runtime/mayura/runtime/a.py", "# see the-law" + ".md, point 1"),
    (tidy.machine_paths, "docs/a.txt", "see /" + "home/ada/notes"),
    (tidy.registry_hosts, "docs/a.txt", "from files.python" + "hosted.org"),
]


def rules(table: list[tuple[Rule, str, str]]) -> dict[str, Rule]:
    return {rule.__name__: rule for rule, _, _ in table}


@pytest.mark.parametrize("rule", rules(PYTHON_RULES).values(), ids=rules(PYTHON_RULES))
def test_no_python_file_breaks_the_rule(rule: Rule) -> None:
    offences = [offence for source in repository_files("*.py") for offence in rule(source)]
    assert not offences, f"{rule.__doc__}\n" + "\n".join(offences)


@pytest.mark.parametrize("rule", rules(TEXT_RULES).values(), ids=rules(TEXT_RULES))
def test_no_file_breaks_the_rule(rule: Rule) -> None:
    offences = [offence for source in repository_files() for offence in rule(source)]
    assert not offences, f"{rule.__doc__}\n" + "\n".join(offences)


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [*PYTHON_RULES, *TEXT_RULES],
    ids=[rule.__name__ for rule, _, _ in (*PYTHON_RULES, *TEXT_RULES)],
)
def test_the_rule_finds_a_planted_offence(rule: Rule, name: str, text: str) -> None:
    assert rule(Source(name, text))


def test_no_source_root_claims_the_namespace() -> None:
    assert not repository_files("*/mayura/__init__.py"), "mayura is a namespace of three roots"


def test_every_package_ships_its_types() -> None:
    for root in tidy.SOURCE_ROOTS:
        assert (ROOT / root / "mayura" / root / "py.typed").is_file()


def test_every_error_code_has_its_section_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## ([A-Z_]+)$", page, re.MULTILINE)) == sorted(Code)
