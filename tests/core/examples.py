"""Stored values of the types in `golden_types`, and ways to spoil them."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from mayura.runtime.core.definition import JsonValue

UUID: Final = "6b1f6d0a-0000-4000-8000-000000000001"
ADDRESS: Final[JsonValue] = {"street": "High St 1", "city": None}
EVERYTHING: Final[JsonValue] = {
    "amount": "12.50",
    "price": "1.10",
    "at": "2026-01-31T12:00:00Z",
    "day": "2026-01-31",
    "hour": None,
    "lasts": "PT5M",
    "colour": "red",
    "levels": [1, 2],
    "words": ["a", "b", "c"],
    "raw": "",
    "key": UUID,
    "names": {"a": 1},
    "by_number": {"7": "seven"},
    "pair": [1, "x"],
    "many": [1, 2, 3],
    "code": "AB1",
    "ratio": 0.5,
    "multiple": 10,
}

EXAMPLES: Final[dict[str, list[JsonValue]]] = {
    "str": ["", "x"],
    "int": [0, -5],
    "bool": [True],
    "float": [0.5, -1.0],
    "none": [None],
    "any": [None, 1, {"a": [1]}],
    "object": ["x"],
    "json": [{"a": [1, None]}],
    "bytes": ["abc"],
    "short bytes": ["abc"],
    "datetime": ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456", "2026-01-31T12:00:00+02:00"],
    "date": ["2026-01-31"],
    "time": ["12:30:00", "12:30:00.500000Z"],
    "timedelta": ["PT5M", "-P1DT3.5S"],
    "uuid": [UUID],
    "decimal": ["1.10", "-0.000001"],
    "positive decimal": ["10.4"],
    "complex": ["1+2j"],
    "url": ["https://example.org/a"],
    "path": ["a/b"],
    "ip": ["10.0.0.1"],
    "enum": ["red"],
    "int enum": [2],
    "enum of one": ["one"],
    "literal": ["a", 3],
    "literal of one": ["a"],
    "literal or none": ["a", None],
    "optional": [1, None],
    "union": [1, "x", [1]],
    "union with none in the middle": [1, None, "x"],
    "list": [[], [1, 2]],
    "bare list": [[1, "x"]],
    "bare dict": [{"a": 1}],
    "set": [["a", "b"]],
    "frozenset": [[1, 2]],
    "tuple": [[1, "x"]],
    "long tuple": [[], [1, 2]],
    "empty tuple": [[]],
    "dict": [{}, {"a": 1}],
    "dict of anything": [{"a": [None]}],
    "dict by number": [{"1": "one", "-2": "minus two"}],
    "dict by colour": [{"red": 1}],
    "dict with few": [{"a": 1}],
    "bounds": [2, 9],
    "model": [ADDRESS],
    "nested models": [
        {"name": "Ada", "home": ADDRESS, "work": None, "addresses": [ADDRESS, ADDRESS]}
    ],
    "recursive": [{"value": 1, "children": [{"value": 2, "children": []}]}],
    "mutually recursive": [{"operator": "+", "left": {"inner": 1.0}, "right": {"inner": 2.5}}],
    "recursive inside": [[None, {"inner": 1.0}]],
    "discriminated": [
        {"pet": {"kind": "cat", "lives": 9}},
        {"pet": {"kind": "dog", "good": False}},
    ],
    "generic": [{"items": [ADDRESS], "following": None}],
    "closed": [{"known": 1}],
    "open": [{"known": 1, "other": {"a": [1]}}],
    "alias": [{"orderId": "o"}],
    "computed": [{"width": 2, "height": 3, "size": 6}],
    "root": [["a", "b"]],
    "dataclass": [{"x": 1.0, "y": 0.0, "labels": ["a"]}],
    "typed dict": [{"title": "t"}, {"title": "t", "year": 1999}],
    "named tuple": [[1, "x"]],
    "everything": [EVERYTHING],
}

#: What may stand in a place where something else was expected.
STRANGERS: Final[st.SearchStrategy[JsonValue]] = st.sampled_from(
    [None, True, 0, -1, 10**6, 0.5, "", "x", "12", "2026-01-31", "red", [], [1], {}, {"a": 1}]
)


@st.composite
def spoiled(draw: st.DrawFn, value: JsonValue) -> JsonValue:
    """`value` with one place of it replaced, dropped or added, or `value` itself."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        rest = {name: member for name, member in value.items() if name != key}
        fate = draw(st.sampled_from(["deeper", "dropped", "added"]))
        if fate == "deeper":
            return {**rest, key: draw(spoiled(value[key]))}
        return rest if fate == "dropped" else {**value, "surplus": draw(STRANGERS)}
    if isinstance(value, list) and value and draw(st.booleans()):
        index = draw(st.integers(0, len(value) - 1))
        fate = draw(st.sampled_from(["deeper", "dropped", "added"]))
        if fate == "deeper":
            return [*value[:index], draw(spoiled(value[index])), *value[index + 1 :]]
        return value[:index] if fate == "dropped" else [*value, draw(STRANGERS)]
    return draw(st.one_of(st.just(value), STRANGERS))
