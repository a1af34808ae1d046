"""Definitions drawn, held against stored drawings."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from mayura.runtime import Call, Flow, tool, workflow
from mayura.runtime.core.manifest import from_manifest, to_manifest
from mayura.runtime.core.render import as_mermaid, as_text
from tests.core.golden_types import all_kinds

GOLDENS = Path(__file__).parent / "goldens"


class Note(BaseModel):
    text: str
    urgent: bool


@tool("notes.send", version="1", effects="write")
async def send(call: Call, note: Note | None) -> str:
    raise NotImplementedError


@workflow("notes.all", version="1")
def notes(flow: Flow, note: Note) -> str:
    """What a drawing must not stumble over: constants that cannot be hashed, hostile text."""
    asked = flow.human("ask", str, prompt='Say "go"\x1b[2J\n<now>?')
    sent = flow.tool("sent", send.on(Note(text='"quoted" <b>' * 9, urgent=True)), after=[asked])
    return sent.output


@pytest.mark.parametrize(
    ("golden", "drawn"),
    [
        ("all_kinds.txt", as_text(all_kinds.definition)),
        ("all_kinds.mmd", as_mermaid(all_kinds.definition)),
    ],
)
def test_a_drawing_is_the_stored_one(golden: str, drawn: str) -> None:
    assert drawn == (GOLDENS / golden).read_text(encoding="utf-8")


def test_a_stored_definition_is_drawn_like_the_one_just_traced() -> None:
    stored = from_manifest(to_manifest(all_kinds.definition))
    assert as_text(stored) == as_text(all_kinds.definition)
    assert as_mermaid(stored) == as_mermaid(all_kinds.definition)


def test_text_of_a_definition_cannot_command_a_terminal_or_break_a_page() -> None:
    text, mermaid = as_text(notes.definition), as_mermaid(notes.definition)
    assert all(line.isprintable() for line in text.splitlines())
    assert 'prompt: Say "go"?[2J <now>?' in text
    assert mermaid.count('"') % 2 == 0
    assert "<now>" not in mermaid


def test_long_constants_are_cut_short() -> None:
    assert all(len(line) < 80 for line in as_text(notes.definition).splitlines())
