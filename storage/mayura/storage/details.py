"""What a step waits for or got, as the JSON text of its `detail` column.

`kind` names the type; digests are hexadecimal.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

import orjson

from mayura.runtime.core.state import Approval, Detail, Question, Signal, Timer
from mayura.runtime.errors import Code, MayuraError

_KINDS: Final[dict[str, type[Detail]]] = {
    "approval": Approval,
    "question": Question,
    "timer": Timer,
    "signal": Signal,
}
_KIND_OF: Final = {kind: name for name, kind in _KINDS.items()}
_FIELDS: Final = {kind: tuple(f.name for f in fields(kind)) for kind in _KIND_OF}
_DIGESTS: Final = frozenset({"digest", "answer_digest", "payload_digest"})


def detail_text(detail: Detail) -> str:
    """The stored form."""
    stored: dict[str, str | int | None] = {"kind": _KIND_OF[type(detail)]}
    for name in _FIELDS[type(detail)]:
        value: bytes | str | int | None = getattr(detail, name)
        stored[name] = value.hex() if isinstance(value, bytes) else value
    return orjson.dumps(stored).decode()


def detail_of(text: str) -> Detail:
    """The value that was stored. INTEGRITY_VIOLATION where it is none of ours."""
    try:
        stored = orjson.loads(text)
        kind = _KINDS[stored.pop("kind")]
        for name in _DIGESTS & stored.keys():
            stored[name] = None if stored[name] is None else bytes.fromhex(stored[name])
        return kind(**stored)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MayuraError(
            Code.INTEGRITY_VIOLATION, "A step's stored detail is none that this release knows."
        ) from error
