"""Loads the SQL of one database from its .sql files.

A file is a list of statements, each introduced by its name and at least one sentence:

    -- name: read_run
    -- The run's row with the digests its ids stand for.
    select ...

The name says what the statement does or what must hold for it to do it. Lines before the first
name are the file's own comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, Literal, TypeAlias

Dialect: TypeAlias = Literal["sqlite", "postgres"]

NAME_MARK: Final = "-- name:"


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement and the sentence that explains it."""

    name: str
    sentence: str
    sql: str


def sql_folder(dialect: Dialect) -> Traversable:
    """The folder that holds the dialect's statements, schema and migrations."""
    return files("mayura.storage") / "sql" / dialect


def parse(text: str, *, source: str) -> tuple[Statement, ...]:
    """The statements of one file, in order. Raises ValueError naming file and statement."""
    _, *sections = f"\n{text}".split(f"\n{NAME_MARK}")
    statements = tuple(_statement(section, source) for section in sections)
    names = [statement.name for statement in statements]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{source}: two statements are named {name}")
    return statements


def load(dialect: Dialect) -> Mapping[str, str]:
    """The SQL of every named statement in the dialect's folder; names are unique across files."""
    sql: dict[str, str] = {}
    for file in _sql_files(sql_folder(dialect).iterdir()):
        if file.name == "schema.sql":
            continue
        for statement in parse(file.read_text("utf-8"), source=file.name):
            if statement.name in sql:
                raise ValueError(f"{file.name}: {statement.name} is defined in another file too")
            sql[statement.name] = statement.sql
    return sql


def _sql_files(entries: Iterable[Traversable]) -> list[Traversable]:
    """The .sql files among `entries`, by name: their numbers order migrations."""
    return sorted((e for e in entries if e.name.endswith(".sql")), key=lambda e: e.name)


def _statement(section: str, source: str) -> Statement:
    name, _, rest = section.partition("\n")
    name = name.strip()
    lines = rest.strip().split("\n")
    comment = 0
    while comment < len(lines) and lines[comment].startswith("--"):
        comment += 1
    sentence = " ".join(line[2:].strip() for line in lines[:comment])
    sql = "\n".join(lines[comment:]).strip()
    if not name or not sentence or not sql:
        raise ValueError(f"{source}: {name or 'a statement'} needs a name, a sentence and SQL")
    return Statement(name, sentence, sql)
