"""How types are called in messages."""

from __future__ import annotations

from typing import get_args


def name_of(declared: object) -> str:
    """`Order`, `list[str]`, `Order | None`."""
    if declared is None or declared is type(None):
        return "None"
    if isinstance(declared, type) and not get_args(declared):
        return declared.__name__
    return str(declared).replace("typing.", "")
