"""How a new receipt meets the one that is there: forward only, contradictions kept (G5)."""

from __future__ import annotations

from typing import Literal

from mayura.runtime.core.state import Receipt

Merge = Literal["first", "forward", "same", "ignored", "contradiction"]


def merge(existing: Receipt | None, incoming: Receipt) -> Merge:
    """What `incoming` means beside `existing`. A known receipt is never replaced."""
    if existing is None:
        return "first"
    if existing is incoming:
        return "same"
    if existing is Receipt.UNKNOWN:
        return "forward"
    if incoming is Receipt.UNKNOWN:
        return "ignored"
    return "contradiction"
