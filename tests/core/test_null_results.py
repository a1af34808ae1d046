"""A null that the result of a workflow cannot hold is refused where the workflow is defined."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from mayura.runtime import Call, Flow, tool, workflow
from mayura.runtime.core.mistake import DefinitionError
from tests.core.shop import Order, pick, reserve, show


class Parcel(BaseModel):
    weight: int | None = None
    inside: Parcel | None = None
    beside: list[Parcel] = []


class Sealed(BaseModel):
    weight: int
    inside: Sealed | None = None
    beside: list[Sealed] = []


@tool("parcels.pack", version="1", effects="none")
async def pack(call: Call, order: Order) -> Parcel:
    raise NotImplementedError


def slots(flow: Flow, order: Order) -> Any:  # noqa: ANN401 - each test says what it returns
    return flow.fan_out("p", pick, order.lines, max=2).output


def bypassed(flow: Flow, order: Order) -> Any:  # noqa: ANN401
    return flow.tool("a", reserve.on(order), when=order.extras).output


def joined(flow: Flow, order: Order) -> Any:  # noqa: ANN401
    always = flow.tool("a", reserve.on(order))
    return flow.join("j", [always, flow.tool("b", reserve.on(order), when=order.extras)]).output


def packed(flow: Flow, order: Order) -> Any:  # noqa: ANN401
    return flow.tool("a", pack.on(order)).output


def defined(body: Any, returns: object) -> None:  # noqa: ANN401
    """A workflow of `body` that says it returns this type."""

    def function(flow: Flow, order: Order) -> Any:  # noqa: ANN401
        return body(flow, order)

    function.__annotations__["return"] = returns
    workflow("shop.nulls", version="1")(function)


@pytest.mark.parametrize(
    ("body", "returns", "place"),
    [
        (slots, list[int], "the value[0] may be null"),
        (bypassed, str, "the value may be null"),
        (joined, list[str], "the value[0] may be null"),
        (packed, Sealed, "the value.weight may be null"),
    ],
)
def test_a_null_that_the_result_cannot_hold_is_refused(
    body: object, returns: object, place: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        defined(body, returns)
    assert caught.value.where == "workflow 'shop.nulls' result"
    assert place in caught.value.what
    assert "| None" in caught.value.what


@pytest.mark.parametrize(
    ("body", "returns"),
    [
        (slots, list[int | None]),
        (slots, object),
        (slots, list[Any]),
        (slots, list[int] | list[int | None]),
        (bypassed, str | None),
        (joined, list[str | None]),
        (packed, Parcel),
        (packed, Sealed | Parcel),
    ],
)
def test_a_result_that_can_hold_the_nulls_is_fine(body: object, returns: object) -> None:
    defined(body, returns)


def test_a_null_for_a_step_is_looked_at_when_it_is_there() -> None:
    @workflow("shop.may", version="1")
    def may(flow: Flow, order: Order) -> dict[str, list[int]]:
        maybe = flow.tool("a", reserve.on(order), when=order.extras)
        return flow.tool("b", show.on(maybe.output)).output

    assert len(may.definition.nodes) == 2
