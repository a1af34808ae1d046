"""Schemas in normal form: equal for equal meanings, and never stricter than the type."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Final, Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from mayura.runtime.core.code import Invalid
from mayura.runtime.core.codec import Codec
from mayura.runtime.core.conformance import Schema, conforms
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.core.schema import schema_of
from mayura.runtime.core.values import encode
from tests.core.examples import EXAMPLES, STRANGERS, spoiled
from tests.core.golden_types import TYPES

CODECS: Final = {name: Codec[Any](kind, name) for name, kind in TYPES.items()}


def of(kind: object) -> Schema:
    return schema_of(TypeAdapter(kind), "type")  # type: ignore[arg-type]


class Plain(BaseModel):
    number: int
    text: str | None = None


class Documented(BaseModel):
    """The same, with everything that a reader might want to know."""

    text: Optional[str] = Field(  # noqa: UP045 - an old spelling of the same
        default=None, title="Text", description="what it says", examples=["x"], deprecated=True
    )
    number: Annotated[int, Field(title="A number", json_schema_extra={"x-unit": "pieces"})]


class Tree(BaseModel):
    branches: list[Tree] = []


class Baum(BaseModel):
    """The same shape under another name."""

    branches: list[Baum] = []


class Leafy(BaseModel):
    """A tree that a class of another name begins."""

    branches: list[Tree] = []


class Small(Enum):
    A = "a"
    B = "b"


COSMETIC: Final[list[tuple[object, object]]] = [
    (Plain, Documented),
    (Tree, Baum),
    (list[Tree], list[Baum]),
    (int | None, Optional[int]),  # noqa: UP045
    (int | str, Union[str, int]),  # noqa: UP007
    (int | (str | None), (int | None) | str),
    (Literal["a", "b"], Literal["b", "a"]),
    (Literal["a", "b"], Small),
    (Literal["a"] | Literal["b"], Literal["a", "b"]),
    (Literal["a"] | None, Literal["a", None]),
    (dict[str, Any], dict),
    (list[Any], list),
]


@pytest.mark.parametrize(("one", "other"), COSMETIC)
def test_two_spellings_of_one_meaning_have_one_schema(one: object, other: object) -> None:
    """Case K8: what only a reader sees is cosmetic."""
    assert encode(of(one)) == encode(of(other))


def model(
    kind: object, default: object = ..., *, base: type[BaseModel] = BaseModel, name: str = "a"
) -> type[BaseModel]:
    """A model with one field."""
    fields: dict[str, Any] = {name: (kind, default)}
    return create_model("Model", __base__=base, **fields)


class Forbids(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Allows(BaseModel):
    model_config = ConfigDict(extra="allow")


REAL: Final[list[tuple[object, object]]] = [
    (int, float),
    (int, int | None),
    (str, bytes),
    (list[int], set[int]),
    (list[int], list[str]),
    (dict[str, int], dict[int, int]),
    (Literal["a"], Literal["b"]),
    (Annotated[int, Field(ge=1)], Annotated[int, Field(gt=1)]),
    (Annotated[str, Field(max_length=3)], Annotated[str, Field(max_length=4)]),
    (Annotated[str, Field(pattern="a")], Annotated[str, Field(pattern="b")]),
    (model(int), model(int, 1)),
    (model(int, 1), model(int, 2)),
    (model(int), model(int, name="b")),
    (model(int), model(int, base=Forbids)),
    (model(int), model(int, base=Allows)),
    (model(int), model(int, Field(alias="A"))),
    (Tree, Leafy),
]


@pytest.mark.parametrize(("one", "other"), REAL)
def test_two_meanings_have_two_schemas(one: object, other: object) -> None:
    """Case K8: what changes which values fit, or what a missing one becomes, is real."""
    assert encode(of(one)) != encode(of(other))


def test_a_schema_names_nothing_a_reader_gave() -> None:
    text = encode(of(Documented)).decode()
    for word in ("Documented", "title", "what it says", "examples", "deprecated", "x-unit"):
        assert word not in text


def test_recursive_definitions_have_names_that_no_class_gives() -> None:
    schema = of(Tree)
    assert set(schema) == {"$ref", "$defs"}
    assert schema["$defs"] == {
        "r1": {
            "type": "object",
            "properties": {"branches": {"type": "array", "items": {"$ref": "r1"}, "default": []}},
        }
    }


def deep_type(levels: int) -> Any:  # noqa: ANN401 - a model inside a model inside a model
    inner: Any = int
    for level in range(levels):
        fields: dict[str, Any] = {"a": (list.__class_getitem__(inner), ...)}
        inner = create_model(f"Level{level}", **fields)
    return inner


def test_a_deep_type_has_a_shallow_schema() -> None:
    """A manifest is a value, too, and no value is nested deeper than 32 levels."""
    inner: JsonValue = 1
    for _ in range(15):
        inner = {"a": [inner]}
    codec = Codec[Any](deep_type(15), "type")
    assert codec.check(inner) == inner
    conforms(codec.schema, inner)
    with pytest.raises(Invalid):
        conforms(codec.schema, {"a": [{"a": [{"a": [1]}]}]})
    assert encode([[[[[[[[[[codec.schema]]]]]]]]]])
    assert codec.schema == Codec[Any](deep_type(15), "another").schema
    assert codec.schema != Codec[Any](deep_type(14), "type").schema


class One(BaseModel):
    inner: One | Other | None = None
    leaf: int = 0


class Other(BaseModel):
    inner: One | Other | None = None
    leaf: int = 0
    more: int = 0


def test_alternatives_inside_alternatives_are_decided_in_no_time() -> None:
    """Without remembering its answers, this would take a hundred billion steps."""
    value: JsonValue = {"leaf": "wrong"}
    for _ in range(31):
        value = {"inner": value}
    with pytest.raises(Invalid):
        conforms(of(One), value)


def test_a_type_without_a_json_form_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match=r"^workflow 'w' input"):
        Codec(type[int], "workflow 'w' input")


@pytest.mark.parametrize("name", sorted(TYPES))
def test_stored_examples_come_back_from_their_types(name: str) -> None:
    for value in EXAMPLES[name]:
        assert encode(CODECS[name].check(value)) == encode(value)
        conforms(CODECS[name].schema, value)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_what_a_type_stores_fits_its_schema(name: str) -> None:
    """G12: a process without the code refuses nothing that the code would have stored."""

    @given(st.sampled_from(EXAMPLES[name]).flatmap(spoiled))
    def holds(value: JsonValue) -> None:
        try:
            stored = CODECS[name].check(value)
        except Invalid:
            return
        conforms(CODECS[name].schema, stored)
        assert CODECS[name].check(stored) == stored

    holds()


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (int, "12", "value "),
        (int, 1.5, "value "),
        (int, True, "value "),
        (str, 1, "value "),
        (bool, 1, "value "),
        (list[int], [1, "x"], "value[1] "),
        (Plain, {"number": "x"}, "value.number "),
        (Plain, {"text": "x"}, "value.number is required"),
        (Plain, [], "value "),
        (dict[int, str], {"x": "y"}, "value.x "),
        (dict[Small, int], {"c": 1}, "value.c "),
        (Tree, {"branches": [{"branches": [1]}]}, "value.branches[0].branches[0] "),
        (Literal["a", "b"], "c", "value "),
        (Annotated[int, Field(ge=3)], 2, "value should be at least 3"),
        (Annotated[float, Field(lt=3)], 3, "value should be less than 3"),
        (Annotated[int, Field(multiple_of=5)], 7, "value "),
        (Annotated[str, Field(max_length=2)], "abc", "value should have at most 2"),
        (Annotated[str, Field(pattern="^a")], "b", "value should match"),
        (Annotated[list[int], Field(min_length=1)], [], "value should have at least 1"),
        (model(int, base=Forbids), {"a": 1, "b": 2}, "value.b is not a field"),
        (int | None, "x", "value should be of type integer"),
        (int | list[int], "x", "value fits none"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(
    kind: object, value: JsonValue, place: str
) -> None:
    with pytest.raises(Invalid) as caught:
        conforms(of(kind), value)
    assert str(caught.value).startswith(place)


@given(STRANGERS)
def test_everything_fits_no_schema_at_all(value: JsonValue) -> None:
    conforms({}, value)


def test_a_refusal_never_holds_the_value() -> None:
    with pytest.raises(Invalid) as caught:
        conforms(of(Literal["public"]), "secret-4111")
    assert "4111" not in str(caught.value)
