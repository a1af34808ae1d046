"""The benchmarks' own SQL, by the name of each statement."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mayura.storage.statements import parse

FOLDER: Final = Path(__file__).parent / "sql"
SQL: Final = {
    statement.name: statement.sql
    for file in sorted(FOLDER.glob("*.sql"))
    for statement in parse(file.read_text("utf-8"), source=file.name)
}
