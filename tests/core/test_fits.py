"""Whether a binding can fit: a clear mismatch is found, and what might fit is never refused."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pydantic import BaseModel

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.codec import Codec
from mayura.runtime.core.conformance import conforms
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.fits import mismatch
from tests.core.examples import EXAMPLES
from tests.core.golden_types import TYPES, Address, Cat, Dog, Node, Person

CODECS: Final = {name: Codec[Any](kind, name) for name, kind in TYPES.items()}


def fits(value: JsonValue, schema: JsonValue) -> bool:
    try:
        conforms(schema, value)
    except Invalid:
        return False
    return True


@pytest.mark.parametrize("target", sorted(TYPES))
def test_where_a_value_of_the_source_fits_there_is_no_mismatch(target: str) -> None:
    """Values are bound in their stored form, so a model may be bound where its like is expected.

    That null or an empty list would fit does not count: nobody builds a workflow on it.
    """
    for source, examples in EXAMPLES.items():
        if mismatch(CODECS[source].schema, CODECS[target].schema) is not None:
            fitting = [value for value in examples if fits(value, CODECS[target].schema)]
            assert all(value in (None, []) for value in fitting), f"{source} for {target}"


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_type_fits_itself(name: str) -> None:
    assert mismatch(CODECS[name].schema, CODECS[name].schema) is None


class Like(BaseModel):
    """What an address has, and less."""

    street: str


class Stricter(BaseModel):
    street: str
    city: str
    zip_code: str


CASES: Final[list[tuple[Any, Any, str | None]]] = [
    (int, str, "the value is integer where string is expected"),
    (int, float, None),
    (float, int, None),
    (bool, int, "the value is boolean where integer is expected"),
    (str | None, str, None),
    (str | None, int, "the value is string where integer is expected"),
    (str | None, int | None, "the value is string where integer or null is expected"),
    (None, int | None, None),
    (int | str, str, None),
    (list[int], list[str], "the value[0] is integer where string is expected"),
    (list[int], tuple[int, str], None),
    (list[int], dict[str, int], "the value is array where object is expected"),
    (dict[str, int], Like, None),
    (Address, Like, None),
    (Address, Stricter, "the value.zip_code is required and missing"),
    (Like, Address, None),
    (Address, dict[str, Any], None),
    (Person, Address, "the value.street is required and missing"),
    (Cat, Dog, None),
    (Node, Node, None),
    (list[Node], Node, "the value is array where object is expected"),
    (Any, int, None),
    (int, object, None),
]


@pytest.mark.parametrize(("source", "target", "said"), CASES)
def test_only_a_clear_mismatch_is_one(
    source: Any,  # noqa: ANN401
    target: Any,  # noqa: ANN401
    said: str | None,
) -> None:
    found = mismatch(Codec[Any](source, "a").schema, Codec[Any](target, "b").schema)
    assert found == said
