"""The one canonical JSON: what may be stored, and the bytes behind every digest.

Keys are sorted, numbers are finite, integers fit 53 bits, text holds neither NUL nor a lone
surrogate, nothing is nested deeper than 32 levels. What one store would take and another refuse is
refused here, by name and path, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import cast

import orjson

from mayura.runtime.core.definition import JsonValue
from mayura.runtime.errors import Code, MayuraError

VALUE_BYTES_MAX = 1024 * 1024
VALUE_DEPTH_MAX = 32  #: nested arrays and objects; a plain number has depth 0
VALUE_NODES_MAX = 100_000  #: values in one value, itself and every member included
INTEGER_MAX = 2**53 - 1  #: integers beyond it, either way, are not the same everywhere

PATH_KEY_CHARS_MAX = 64

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_SCALARS = frozenset({str, int, bool, float, type(None)})


def encode(value: JsonValue, where: str = "value") -> bytes:
    """The canonical bytes of `value`.

    Raises MayuraError INVALID_JSON, naming the place below `where`, for what cannot be stored.
    """
    try:
        raw = orjson.dumps(value, option=_OPTIONS)
    except (TypeError, RecursionError):
        check(value, where)
        raise _invalid(where, "is not plain JSON") from None
    if _fine(raw, value):
        return raw
    check(value, where)
    return orjson.dumps(_without_negative_zero(value), option=_OPTIONS)


def decode(data: bytes) -> JsonValue:
    """What `encode` stored. Raises MayuraError INVALID_JSON if `data` is not JSON at all."""
    try:
        return cast(JsonValue, orjson.loads(data))
    except orjson.JSONDecodeError:
        raise _invalid("value", "is not JSON") from None


def check(value: object, where: str = "value") -> None:
    """Refuse what canonical JSON cannot hold: MayuraError INVALID_JSON names the place."""
    nodes = 0
    stack: list[tuple[object, tuple[str | int, ...]]] = [(value, ())]
    while stack:
        current, path = stack.pop()
        nodes += 1
        if nodes > VALUE_NODES_MAX:
            raise _invalid(where, f"has more than {VALUE_NODES_MAX:,} values: split it")
        wrong = _wrong_with(current, len(path))
        if wrong is not None:
            raise _invalid(at(where, path), wrong)
        stack.extend((member, (*path, key)) for key, member in _members(current))


def at(where: str, path: tuple[str | int, ...]) -> str:
    """How a place inside a value is written: `order.items[3].price`."""
    parts = [where]
    for key in path:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        else:
            parts.append("." + key[:PATH_KEY_CHARS_MAX].encode("utf-8", "replace").decode())
    return "".join(parts)


def _invalid(where: str, what: str) -> MayuraError:
    return MayuraError(Code.INVALID_JSON, f"{where} {what}")


def _fine(raw: bytes, value: JsonValue) -> bool:
    """Whether `raw` shows that all is in order; if not, `check` looks at every value.

    Each value but the first needs a byte and a separator, so few bytes are few values, and few
    brackets are few levels. NaN and infinity are written as null: then what is read back differs.
    """
    return (
        len(raw) < VALUE_NODES_MAX
        and b"\\u0000" not in raw
        and b"-0.0" not in raw
        and (b"null" not in raw or orjson.loads(raw) == value)
        and (raw.count(b"[") + raw.count(b"{") <= VALUE_DEPTH_MAX or _is_shallow(value))
    )


def _is_shallow(value: object, levels: int = VALUE_DEPTH_MAX) -> bool:
    if type(value) is dict:
        members: Iterable[object] = value.values()
    elif type(value) is list:
        members = value
    else:
        return type(value) in _SCALARS
    for member in members:
        if type(member) not in _SCALARS and (levels <= 1 or not _is_shallow(member, levels - 1)):
            return False
    return True


def _wrong_with(value: object, depth: int) -> str | None:
    """What is wrong with one value, its members aside."""
    kind = type(value)
    if kind is str:
        return _wrong_with_text(cast(str, value))
    if kind is bool or value is None:
        return None
    if kind is int:
        fits = -INTEGER_MAX <= cast(int, value) <= INTEGER_MAX
        return None if fits else "is an integer beyond 2**53-1: send it as text"
    if kind is float:
        return None if isfinite(cast(float, value)) else "is not a finite number"
    if kind is list:
        return _wrong_with_depth(depth)
    if kind is dict:
        for key in cast("dict[object, object]", value):
            if type(key) is not str:
                return "has a key that is not text"
            wrong = _wrong_with_text(key)
            if wrong is not None:
                return f"has a key that {wrong}"
        return _wrong_with_depth(depth)
    return f"is of type {kind.__name__}, which is not JSON"


def _wrong_with_depth(depth: int) -> str | None:
    return None if depth < VALUE_DEPTH_MAX else f"is nested deeper than {VALUE_DEPTH_MAX} levels"


def _wrong_with_text(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds a lone surrogate"
    return None


def _members(value: object) -> Iterator[tuple[str | int, object]]:
    if type(value) is dict:
        yield from cast("dict[str, object]", value).items()
    elif type(value) is list:
        yield from enumerate(cast("list[object]", value))


def _without_negative_zero(value: JsonValue) -> JsonValue:
    """0.0 for -0.0: equal numbers have equal digests."""
    if isinstance(value, dict):
        return {key: _without_negative_zero(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_without_negative_zero(member) for member in value]
    return 0.0 if isinstance(value, float) and value == 0 else value
