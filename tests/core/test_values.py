"""The canonical JSON: what is refused, by name and path, and what comes back unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayura.runtime.core import values
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.values import check, decode, encode
from mayura.runtime.errors import Code, MayuraError

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))
INTEGERS = st.integers(-values.INTEGER_MAX, values.INTEGER_MAX)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
#: The same with what canonical JSON cannot hold mixed in.
NEARLY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


@given(JSON)
def test_what_is_stored_comes_back_equal_and_encodes_to_the_same_bytes(value: JsonValue) -> None:
    data = encode(value)
    assert decode(data) == value
    assert encode(decode(data)) == data


def refusal(store: Callable[[JsonValue], object], value: JsonValue) -> str | None:
    try:
        store(value)
    except MayuraError as error:
        return f"{error.code} {error}"
    return None


@given(NEARLY_JSON)
def test_encode_refuses_exactly_what_check_refuses(value: JsonValue) -> None:
    refused = refusal(check, value)
    assert refusal(encode, value) == refused
    assert refused is None or refused.startswith(Code.INVALID_JSON)


@pytest.mark.parametrize(
    ("value", "place", "what"),
    [
        (math.nan, "output", "not a finite number"),
        ({"a": [1.5, math.inf]}, "output.a[1]", "not a finite number"),
        ({"a": {"b": -math.inf}}, "output.a.b", "not a finite number"),
        ([None, {"a": [None, math.nan]}], "output[1].a[1]", "not a finite number"),
        ({"a": "x\0y"}, "output.a", "NUL"),
        ({"a\0": 1}, "output", "key that holds a NUL"),
        (["\ud800"], "output[0]", "surrogate"),
        ({"\udfff": 1}, "output", "key that holds a lone surrogate"),
        (2**53, "output", "integer beyond"),
        ({"n": -(2**53)}, "output.n", "integer beyond"),
        ([2**200], "output[0]", "integer beyond"),
        ({1: "x"}, "output", "key that is not text"),
        ((1, 2), "output", "type tuple"),
        ([b"x"], "output[0]", "type bytes"),
        ({"a": {1, 2}}, "output.a", "type set"),
        (UUID(int=1), "output", "type UUID"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name_and_path(
    value: object, place: str, what: str
) -> None:
    """Cases F4 and B8: the same refusal on every store, before any store is asked."""
    with pytest.raises(MayuraError) as caught:
        check(value, "output")
    assert caught.value.code is Code.INVALID_JSON
    assert str(caught.value).startswith(f"{place} ")
    assert what in str(caught.value)


def test_a_value_is_never_part_of_a_refusal() -> None:
    with pytest.raises(MayuraError) as caught:
        encode({"card": "4111 1111\0"}, "input")
    assert "4111" not in str(caught.value)


def test_numbers_too_large_for_a_float_are_refused_when_read() -> None:
    """Case F4."""
    with pytest.raises(MayuraError):
        decode(b"1e400")


@pytest.mark.parametrize("value", [-0.0, [-0.0, None], {"a": -0.0}, [[{"a": [-0.0]}]]])
def test_negative_zero_becomes_zero(value: JsonValue) -> None:
    assert b"-" not in encode(value)
    assert decode(encode(value)) == value


def test_text_that_only_looks_like_an_escape_comes_back_unchanged() -> None:
    """Case F2: the six characters are not the one character."""
    for text in ("\\u0000", "\\\\u0000", "-0.0", "null", "NaN", "6b1f0000-0000-4000-8000-u0000"):
        assert decode(encode({"text": text, text: None})) == {"text": text, text: None}


def test_integers_up_to_the_safe_bound_are_kept() -> None:
    for number in (values.INTEGER_MAX, -values.INTEGER_MAX):
        assert decode(encode(number)) == number


def test_nesting_is_limited() -> None:
    assert decode(encode(nested(values.VALUE_DEPTH_MAX))) == nested(values.VALUE_DEPTH_MAX)
    for depth in (values.VALUE_DEPTH_MAX + 1, 300, 5000):
        with pytest.raises(MayuraError, match="nested deeper than 32"):
            encode(nested(depth))


def test_nesting_is_limited_in_wide_values_too() -> None:
    inner = nested(values.VALUE_DEPTH_MAX - 1)
    fits: list[JsonValue] = [inner, {"a": None}, inner]
    assert decode(encode(fits)) == fits
    with pytest.raises(MayuraError, match="nested deeper than 32"):
        encode([[inner], *fits])


def test_wide_values_are_not_mistaken_for_deep_ones() -> None:
    value: JsonValue = [{"a": [i]} for i in range(100)]
    assert decode(encode(value)) == value


def test_the_number_of_values_is_limited() -> None:
    zero: list[JsonValue] = [0]
    fits: JsonValue = zero * (values.VALUE_NODES_MAX - 1)
    assert decode(encode(fits)) == fits
    with pytest.raises(MayuraError, match="more than 100,000 values"):
        encode(zero * values.VALUE_NODES_MAX)


def test_keys_are_sorted() -> None:
    assert encode({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"a":{"c":2,"d":1},"b":1}'


def test_a_key_that_is_special_elsewhere_is_an_ordinary_key() -> None:
    value: JsonValue = {"__proto__": 1, "constructor": 2, "": 3}
    assert decode(encode(value)) == value


def test_what_is_not_json_is_refused_when_read() -> None:
    for data in (b"", b"{", b"NaN", b"\xff"):
        with pytest.raises(MayuraError) as caught:
            decode(data)
        assert caught.value.code is Code.INVALID_JSON
