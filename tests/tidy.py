"""The house rules that a linter does not know, each as a function from a file to its offences."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE_ROOTS: Final = ("runtime", "storage", "fleet")
FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 60
DRIVERS: Final = frozenset({"aiosqlite", "asyncpg", "sqlite3"})
SHARED: Final = ("mayura.runtime.core", "mayura.runtime.errors", "mayura.runtime.ids")
CORE_MAY_USE: Final = (*SHARED, "mayura.runtime.call")  # `Call` is part of a tool's type
STORAGE_MAY_USE: Final = (*SHARED, "mayura.runtime.ports", "mayura.storage")
RUNTIME_PACKAGES: Final = frozenset({"anyio", "mayura", "orjson", "pydantic", "uuid_utils"})
BANNED_WORDS: Final = frozenset(
    {"attempt", "attempts", "job", "jobs", "replay", "replays", "rescue", "retries", "retry"}
)
BANNED_MODULES: Final = frozenset({"common", "helpers", "manager", "managers", "util", "utils"})
SQL: Final = re.compile(
    r"""\s*(select\s+(\d|\w+\(|.+\sfrom\s) | insert\s+(or\s+\w+\s+)?into\s | update\s+\S+\s+set\s
    | delete\s+from\s | (create|alter|drop)\s+(unique\s+)?(table|index|function|trigger|database)\s
    | with\s+\w+\s+as\b.*\( | pragma\s | (un)?listen\s+\w+$ | notify\s+\w+$ | set\s+local\s)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
MACHINE_PATH: Final = re.compile(r"(?<![\w/.])/(home|root|tmp|mnt|opt|work|Users)/\w")
REGISTRY_HOST: Final = re.compile(
    r"\b(pypi|pythonhosted|npmjs|debian|rubygems|crates|docker)\.(org|com|io)\b(?!/doc)"
)
PAGE: Final = re.compile(r"(?<![\w/.:-])[\w./-]+\.md\b")
PAGE_FOLDERS: Final = ("", "docs", "docs/reference", *SOURCE_ROOTS)


@dataclass(frozen=True)
class Source:
    """One file of the repository."""

    name: str
    text: str

    @property
    def root(self) -> str:
        """The first folder of its path."""
        return self.name.split("/")[0]

    @property
    def in_core(self) -> bool:
        """Whether it belongs to the functional core."""
        return self.name.startswith("runtime/mayura/runtime/core/")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, self.name)

    def imports(self) -> Iterator[tuple[int, str]]:
        """Every imported module with its line; `from a import b` counts as `a.b`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)

    def at(self, line: int, what: str) -> str:
        """An offence, said so that an editor can jump to it."""
        return f"{self.name}:{line}: {what}"


def repository_files(*patterns: str) -> list[Source]:
    """Tracked files, and new ones that are not ignored."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(
        [*command, "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    return [Source(name, (ROOT / name).read_text("utf-8", "replace")) for name in sorted(names)]


def long_files(source: Source) -> list[str]:
    """A file has at most 400 lines."""
    lines = source.text.count("\n")
    return [source.at(lines, f"{lines} lines")] if lines > FILE_LINES_MAX else []


def long_functions(source: Source) -> list[str]:
    """A function has at most 60 lines."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append(source.at(node.lineno, f"{node.name} has {lines} lines"))
    return found


def wrong_directions(source: Source) -> list[str]:
    """The runtime knows no store and no fleet; a store knows the core and its own port."""
    found = []
    for line, module in source.imports():
        internal = module.startswith("mayura.")
        upward = module.startswith(("mayura.storage", "mayura.fleet"))
        if (
            (source.root == "runtime" and upward)
            or (source.in_core and internal and not _within(module, CORE_MAY_USE))
            or (source.root == "storage" and internal and not _within(module, STORAGE_MAY_USE))
        ):
            found.append(source.at(line, f"may not import {module}"))
    return found


def foreign_packages(source: Source) -> list[str]:
    """Only the storage imports a database driver; the runtime imports little else at all."""
    found = []
    for line, module in source.imports():
        package = module.split(".")[0]
        if source.root != "storage" and source.root in SOURCE_ROOTS and package in DRIVERS:
            found.append(source.at(line, f"may not import the driver {package}"))
        elif source.root == "runtime" and not (
            package in RUNTIME_PACKAGES or package in sys.stdlib_module_names
        ):
            found.append(source.at(line, f"may not import {package}"))
    return found


def bare_root_imports(source: Source) -> list[str]:
    """A source root is a folder, not a package: `mayura.storage`, never `storage`."""
    return [
        source.at(line, f"import mayura.{module} instead")
        for line, module in source.imports()
        if module.split(".")[0] in SOURCE_ROOTS
    ]


def sql_in_strings(source: Source) -> list[str]:
    """Statements live in .sql files."""
    if source.root not in SOURCE_ROOTS:
        return []
    return [
        source.at(node.lineno, "SQL in a string")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant | ast.JoinedStr) and SQL.match(_text_of(node))
    ]


def banned_names(source: Source) -> list[str]:
    """The house says run, step and call; a module is named after what it is about."""
    found = []
    if Path(source.name).stem in BANNED_MODULES:
        found.append(source.at(1, "a module of everything: name what it is about"))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", node.name)
            if banned := BANNED_WORDS.intersection(word.lower() for word in words):
                found.append(source.at(node.lineno, f"{node.name} says {', '.join(banned)}"))
    return found


def machine_paths(source: Source) -> list[str]:
    """Nothing names a path of the machine that it was written on."""
    return _lines_with(MACHINE_PATH, source, "a path of a machine")


def registry_hosts(source: Source) -> list[str]:
    """Nothing names a registry: whoever installs decides where packages come from."""
    return _lines_with(REGISTRY_HOST, source, "the host of a registry")


def dangling_pages(source: Source) -> list[str]:
    """A page that a sentence sends the reader to is there."""
    lines = enumerate(source.text.splitlines(), 1)
    return [
        source.at(number, f"there is no {page}")
        for number, line in lines
        for page in PAGE.findall(line)
        if not any((ROOT / folder / page.lstrip("/")).is_file() for folder in _folders_of(source))
    ]


def _folders_of(source: Source) -> list[str]:
    """Where a page may lie that is named without its folder: beside the source, or in docs."""
    return [str(Path(source.name).parent), *PAGE_FOLDERS]


def _text_of(node: ast.expr) -> str:
    """A string's text, with a word for what an f-string inserts."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text_of, node.values))
    return str(node.value) if isinstance(node, ast.Constant) else "inserted"


def _within(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def _lines_with(pattern: re.Pattern[str], source: Source, what: str) -> list[str]:
    lines = enumerate(source.text.splitlines(), 1)
    return [source.at(number, what) for number, line in lines if pattern.search(line)]
