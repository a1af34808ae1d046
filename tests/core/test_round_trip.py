"""Values of every type come back equal from their stored form, or are refused (case F8).

`python -m tests.core.test_round_trip` prints, in a process of its own, what stored values are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction
from typing import Any, Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from mayura.runtime import Call, tool
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.codec import Codec, difference
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.values import INTEGER_MAX, decode, encode
from tests.tidy import ROOT


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Kind(StrEnum):
    SMALL = "small"


class Shape(Enum):
    SQUARE = (1, 2)


class Leaf(BaseModel):
    colour: Colour | None
    seen: list[Colour]


class Pair(NamedTuple):
    left: int
    right: str


@dataclass(frozen=True)
class Point:
    x: float
    colours: frozenset[Colour] = frozenset()


class FloatLike(float):
    """As numpy's scalars are: a float that is not one."""


class TextLike(str):
    __slots__ = ()


NOON: Final = datetime(2026, 1, 31, 12, 30, 1, 5)  # noqa: DTZ001 - naive on purpose
AMBIGUOUS: Final = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
CASES: Final[list[tuple[Any, Any]]] = [
    (Colour, Colour.BLUE),
    (Kind, Kind.SMALL),
    (Leaf, Leaf(colour=Colour.RED, seen=[Colour.RED, Colour.BLUE])),
    (dict[Colour, Leaf], {Colour.RED: Leaf(colour=None, seen=[])}),
    (Decimal, Decimal("1.10")),
    (Decimal, Decimal("1E-30")),
    (Decimal, Decimal(2**200)),
    (bytes, b"abc"),
    (datetime, NOON),
    (datetime, NOON.replace(tzinfo=UTC)),
    (datetime, NOON.replace(tzinfo=timezone(timedelta(hours=-3, minutes=-30)))),
    (date, date(2026, 1, 31)),
    (timedelta, timedelta(days=-1, microseconds=7)),
    (UUID, UUID(int=2**127)),
    (tuple[int, Colour], (1, Colour.RED)),
    (tuple[int, ...], ()),
    (Pair, Pair(1, "x")),
    (set[str], {"b", "a", "c"}),
    (frozenset[tuple[int, str]], frozenset({(2, "b"), (1, "a")})),
    (dict[int, str], {1: "one", -2: "minus two"}),
    (dict[str, set[int]], {"a": {3, 1, 2}}),
    (int, INTEGER_MAX),
    (complex, 1 + 2j),
    (Point, Point(0.5, frozenset({Colour.RED, Colour.BLUE}))),
    (Sequence[int], (1, 2)),
    (object, [1, {"a": None}]),
    (datetime | str, NOON),
    (float, FloatLike(0.5)),
    (str, TextLike("x")),
    (Fraction, Fraction(1, 3)),
    (datetime, AMBIGUOUS),
    (str | None, None),
    (int | str, "1"),
    (float, 1),
]
REFUSED_VALUES: Final[list[tuple[Any, Any]]] = [
    (int, 2**63),
    (int, 2**200),
    (float, float("nan")),
    (float, float("inf")),
    (Decimal, Decimal("NaN")),
    (bytes, b"\xff\x00"),
    (str, "a\0b"),
    (object, NOON),
    (object, Colour.RED),
]
REFUSED_TYPES: Final[list[Any]] = [Shape, FloatLike, type[int], Exception]


@pytest.mark.parametrize(("kind", "value"), CASES)
def test_a_value_comes_back_equal(kind: Any, value: object) -> None:  # noqa: ANN401
    codec = Codec[Any](kind, "type")
    stored = encode(codec.dump(value))
    assert difference(value, codec.load(decode(stored))) is None
    assert encode(codec.check(decode(stored))) == stored


@pytest.mark.parametrize(("kind", "value"), REFUSED_VALUES)
def test_a_value_that_would_change_is_refused_when_it_isstored_form(
    kind: Any,  # noqa: ANN401
    value: object,
) -> None:
    with pytest.raises(Invalid):
        Codec[Any](kind, "type").dump(value)


@pytest.mark.parametrize("kind", REFUSED_TYPES)
def test_a_type_whose_values_would_change_is_refused_where_it_is_declared(
    kind: Any,  # noqa: ANN401
) -> None:
    with pytest.raises(DefinitionError):
        Codec[Any](kind, "type")


def stored_form(kind: Any, value: object) -> str:  # noqa: ANN401
    return encode(Codec[Any](kind, "type").dump(value)).decode()


def read_back(stored: list[str]) -> list[str]:
    """Each stored value as Python sees it, and stored again."""
    found = []
    for (kind, value), text in zip(CASES, stored, strict=True):
        codec = Codec[Any](kind, "type")
        back = codec.load(decode(text.encode()))
        same = difference(value, back) is None
        found.append(encode(codec.dump(back)).decode() if same else f"{back!r} is not {value!r}")
    return found


@pytest.mark.parametrize("seed", ["1", "2"])
def test_stored_values_are_equal_in_another_process(seed: str) -> None:
    """Not even the order of a set differs: an input's digest is the same everywhere."""
    stored = [stored_form(kind, value) for kind, value in CASES]
    completed = subprocess.run(
        [sys.executable, "-m", "tests.core.test_round_trip"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        input=json.dumps(stored),
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(completed.stdout) == stored


class Parts(BaseModel):
    tags: set[str]
    points: list[Point]
    by_colour: dict[Colour, Decimal]
    at: datetime | None


@tool("parts.take", version="1", effects="none")
def take(call: Call, parts: Parts, numbers: tuple[int, ...]) -> Parts:
    return parts


SAFE_TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timedelta(minutes=minutes))
PARTS = st.builds(
    Parts,
    tags=st.sets(SAFE_TEXT, max_size=4),
    points=st.lists(st.builds(Point, FINITE, st.frozensets(st.sampled_from(Colour))), max_size=3),
    by_colour=st.dictionaries(
        st.sampled_from(Colour), st.decimals(allow_nan=False, allow_infinity=False)
    ),
    at=st.none() | st.datetimes(timezones=st.none() | st.builds(timezone, OFFSETS)),
)


@given(PARTS, st.lists(st.integers(-INTEGER_MAX, INTEGER_MAX), max_size=3))
def test_whatever_a_tool_takes_and_gives_comes_back_equal(parts: Parts, numbers: list[int]) -> None:
    stored = take.dump_output(parts)
    assert take.check_output(stored) == stored
    call_input = take.check_input({"parts": stored, "numbers": [*numbers]})
    assert take.check_input(call_input) == call_input
    assert take.arguments(call_input) == {"parts": parts, "numbers": tuple(numbers)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read_back(json.loads(sys.stdin.read()))))
