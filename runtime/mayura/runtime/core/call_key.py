"""The key under which a provider knows a call. It is stored nowhere but in the journal: derived."""

from __future__ import annotations

from mayura.runtime.core import values
from mayura.runtime.core.definition import JsonValue, ToolSpec
from mayura.runtime.core.digest import CALL_KEY, ONCE, digest, keyed
from mayura.runtime.ids import NodeId, RunId


def once_subject(once_key: bytes, tool: ToolSpec, value: JsonValue) -> bytes | None:
    """The subject of a `once` tool: scope, tool id and the declared fields (G16)."""
    if not tool.once:
        return None
    subject: list[JsonValue] = [_at(value, path) for path in tool.once]
    return keyed(once_key, ONCE, tool.id.encode(), values.encode(subject))


def call_key(run_id: RunId, node: NodeId, once: bytes | None) -> str:
    """32 hex characters: the same for the same call, or for the same `once` subject."""
    if once is not None:
        return digest(CALL_KEY, once)[:16].hex()
    return digest(CALL_KEY, run_id.encode(), node.encode())[:16].hex()


def _at(value: JsonValue, path: tuple[str | int, ...]) -> JsonValue:
    for key in path:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value
