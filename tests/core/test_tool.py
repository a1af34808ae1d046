"""Tools: what a declaration may say, and how values go in and come out."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_serializer

from mayura.runtime import (
    Absent,
    Call,
    Guard,
    GuardContext,
    Happened,
    Never,
    Tool,
    Unclear,
    tool,
)
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.definition import JsonValue


class Order(BaseModel):
    order_id: str
    amount_cents: int
    note: str | None = None


class Charge(BaseModel):
    charge_id: str


class FullCharge(Charge):
    fee: int = 0


def allow(value: object, about: GuardContext) -> bool:
    return True


@tool(
    "payments.charge",
    version="2",
    effects="write",
    capabilities=["payments:charge", "audit"],
    cost_micros=7,
    timeout=1.5,
    once="order.order_id",
    key_lifetime=86_400,
    absent_after=60,
    input_guards=[Guard("limits", "1", allow)],
    concurrency=4,
)
async def charge(call: Call, order: Order, reservation_id: str = "none") -> Charge:
    """Charge the customer."""
    return Charge(charge_id=f"{order.order_id}/{reservation_id}")


@charge.lookup
async def find_charge(
    call: Call, order: Order, reservation_id: str = "none"
) -> Happened[Charge] | Absent | Never | Unclear:
    return Absent()


@tool("math.half", version="1", effects="none")
def half(call: Call, number: float) -> float:
    return number / 2


def test_a_tool_says_what_it_declares() -> None:
    spec = charge.spec
    assert (charge.id, spec.version, spec.effects) == ("payments.charge", "2", "write")
    assert spec.capabilities == ("audit", "payments:charge")
    assert (spec.cost_micros, spec.timeout_ms) == (7, 1500)
    assert spec.once == (("order", "order_id"),)
    assert (spec.key_lifetime_ms, spec.absent_after_ms) == (86_400_000, 60_000)
    assert spec.lookup
    assert charge.lookup_fn is find_charge
    assert [guard.name for guard in spec.input_guards] == ["limits"]
    assert charge.concurrency == 4
    assert charge.grants == ("tool:payments.charge", "audit", "payments:charge", "effect:write")
    assert (charge.is_async, half.is_async) == (True, False)
    assert half.grants == ("tool:math.half",)


def test_the_plain_function_can_be_called_in_a_unit_test() -> None:
    call: Any = None
    assert half.fn(call, 3.0) == 1.5
    made: Any = charge.fn(call, Order(order_id="o", amount_cents=1), "r")
    assert asyncio.run(made) == Charge(charge_id="o/r")


STORED: Final[Any] = {
    "order": {"order_id": "o", "amount_cents": 1, "note": None},
    "reservation_id": "r",
}


def test_an_input_is_stored_whole_and_comes_back_as_python_values() -> None:
    given: Any = {"order": {"order_id": "o", "amount_cents": 1}, "reservation_id": "r"}
    assert charge.check_input(given) == STORED
    assert charge.check_input(STORED) == STORED
    assert charge.arguments(STORED) == {
        "order": Order(order_id="o", amount_cents=1),
        "reservation_id": "r",
    }


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({**STORED, "surplus": 1}, "input.surplus is not a field"),
        ({"order": STORED["order"]}, "input.reservation_id is required"),
        ({**STORED, "order": {"order_id": "o"}}, "input.order.amount_cents is required"),
        ({**STORED, "order": {**STORED["order"], "amount_cents": "4111"}}, ""),
        ({**STORED, "order": {**STORED["order"], "amount_cents": "4111x"}}, "an integer"),
        ({**STORED, "order": {**STORED["order"], "amount_cents": 2**53}}, "integer beyond"),
        ({**STORED, "reservation_id": "a\0b"}, "input.reservation_id holds a NUL"),
        ({**STORED, "reservation_id": "\ud800"}, "surrogate"),
        ([], "should be an object"),
        (None, "should be an object"),
    ],
)
def test_an_input_that_does_not_fit_is_refused_by_name(value: JsonValue, said: str) -> None:
    """Case F12: nothing but Invalid, so that the step can end at once."""
    if not said:
        assert charge.check_input(value)
        return
    with pytest.raises(Invalid) as caught:
        charge.check_input(value)
    assert said in str(caught.value)
    assert "4111" not in str(caught.value)


def test_an_output_goes_through_its_declared_type() -> None:
    assert charge.dump_output(Charge(charge_id="c")) == {"charge_id": "c"}
    assert charge.check_output({"charge_id": "c"}) == {"charge_id": "c"}
    assert half.dump_output(2) == 2
    with pytest.raises(Invalid, match=r"^output\.charge_id is required"):
        charge.check_output({})


class Hostile:
    """Raises whatever is done to it."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError("secret-4111")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("secret-4111")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("secret-4111")


class Exits(BaseModel):
    number: int

    @field_serializer("number")
    def leave(self, number: int) -> int:
        raise SystemExit(number)


class Incomparable(BaseModel):
    number: int

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("secret-4111")


class Circular(BaseModel):
    following: Circular | None = None


class Hidden(BaseModel):
    number: int = 0
    _secret: int = PrivateAttr(default=0)


def circle() -> Circular:
    one = Circular()
    one.following = one
    return one


def hidden() -> Hidden:
    one = Hidden()
    one._secret = 1
    return one


def deep() -> Circular:
    one = Circular()
    for _ in range(50):
        one = Circular(following=one)
    return one


@tool("out.any", version="1", effects="none")
def gives_anything(call: Call, number: int) -> object: ...


@tool("out.exits", version="1", effects="none")
def gives_exits(call: Call, number: int) -> Exits: ...  # type: ignore[empty-body]


@tool("out.incomparable", version="1", effects="none")
def gives_incomparable(call: Call, number: int) -> Incomparable: ...  # type: ignore[empty-body]


@tool("out.circular", version="1", effects="none")
def gives_circular(call: Call, number: int) -> Circular: ...  # type: ignore[empty-body]


@tool("out.hidden", version="1", effects="none")
def gives_hidden(call: Call, number: int) -> Hidden: ...  # type: ignore[empty-body]


@tool("out.text", version="1", effects="none")
def gives_text(call: Call, number: int) -> str: ...  # type: ignore[empty-body]


@tool("out.charges", version="1", effects="none")
def gives_charges(call: Call, number: int) -> list[Charge]: ...  # type: ignore[empty-body]


@tool("out.nothing", version="1", effects="none")
def gives_nothing(call: Call, number: int) -> None: ...


@pytest.mark.parametrize(
    ("made_by", "result", "said"),
    [
        (charge, None, "output should be an object"),
        (charge, {"charge_id": "c"}, "output"),
        (charge, Order(order_id="o", amount_cents=1), "output"),
        (charge, FullCharge(charge_id="c", fee=3), "output does not come back equal"),
        (charge, Charge.model_construct(charge_id=5), "output.charge_id"),
        (charge, Charge.model_construct(), "output"),
        (gives_charges, [Charge(charge_id="a"), FullCharge(charge_id="b")], "output[1] "),
        (gives_text, 5, "output should be text"),
        (gives_text, "a\0b", "output holds a NUL"),
        (gives_text, "\ud800", "output holds a lone surrogate"),
        (gives_anything, object(), "output"),
        (gives_anything, lambda: None, "output"),
        (gives_anything, (i for i in range(3)), "output"),
        (gives_anything, float("nan"), "output is not a finite number"),
        (gives_anything, {"a": float("inf")}, "output.a is not a finite number"),
        (gives_anything, 2**53, "output is an integer beyond"),
        (gives_anything, {1: "x"}, "output"),
        (gives_anything, {1, 2}, "output"),
        (gives_anything, b"\xff", "output"),
        (gives_exits, Exits(number=3), "output"),
        (gives_circular, circle(), "output"),
        (gives_circular, deep(), "nested deeper"),
        (gives_hidden, hidden(), "does not come back equal"),
        (gives_nothing, 5, "output should be null"),
    ],
)
def test_an_output_that_cannot_be_stored_is_invalid_and_nothing_else(
    made_by: Tool[..., object], result: object, said: str
) -> None:
    """Cases B8 and F8: the receipt is kept, and no text of the tool's gets out."""
    with pytest.raises(Invalid) as caught:
        made_by.dump_output(result)
    assert said in str(caught.value)
    assert "4111" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("made_by", [gives_text, gives_anything, charge, gives_nothing])
def test_an_object_that_raises_at_every_touch_is_invalid(made_by: Tool[..., object]) -> None:
    with pytest.raises(Invalid) as caught:
        made_by.dump_output(Hostile())
    assert "4111" not in str(caught.value)


@pytest.mark.parametrize(
    ("made_by", "result"),
    [
        (gives_anything, []),
        (gives_anything, None),
        (gives_anything, "bare"),
        (gives_anything, {"a": [1, None]}),
        (gives_nothing, None),
        (gives_charges, []),
        (gives_hidden, Hidden()),
        (gives_incomparable, Incomparable(number=3)),
    ],
)
def test_outputs_of_every_shape_are_stored(made_by: Tool[..., object], result: object) -> None:
    """Case B8."""
    stored = made_by.dump_output(result)
    assert made_by.check_output(stored) == stored


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    number: int = Field(alias="Number")


def test_a_parameter_may_have_any_name() -> None:
    @tool("named.tool", version="1", effects="none")
    def named(call: Call, model_config: int, _hidden: int, copy: int, self: int) -> int:
        return model_config + _hidden + copy + self

    value: Any = {"model_config": 1, "_hidden": 2, "copy": 3, "self": 4}
    assert named.check_input(value) == value
    assert named.arguments(value) == value


def test_aliases_are_the_names_in_json() -> None:
    @tool("aliased.tool", version="1", effects="write", once="value.number")
    def aliased(call: Call, value: Aliased) -> Aliased:
        return value

    assert aliased.spec.once == (("value", "Number"),)
    assert aliased.dump_output(Aliased(Number=1)) == {"Number": 1}
    assert aliased.arguments({"value": {"Number": 1}}) == {"value": Aliased(Number=1)}
