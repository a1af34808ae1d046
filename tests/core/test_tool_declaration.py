"""What may be declared as a tool, and how a mistake is named."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from mayura.runtime import Absent, Call, Code, Guard, Tool, tool
from mayura.runtime.core.definition import Effects
from mayura.runtime.core.mistake import DefinitionError
from tests.core.test_tool import Charge, FullCharge, Order, allow, charge, half


class Priced(Order):
    price: Decimal
    colours: set[str]


def declare(options: dict[str, Any]) -> object:
    """A tool with these options, and none of them wrong but by them."""
    settings = {"id": "a.tool", "version": "1", "effects": "write", **options}

    async def body(call: Call, order: Priced) -> str:
        return ""

    return tool(settings.pop("id"), **settings)(body)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"id": "1a"}, Code.INVALID_CONFIG, "an id is a letter"),
        ({"id": "a b"}, Code.INVALID_CONFIG, "an id is a letter"),
        ({"id": "a" * 129}, Code.INVALID_CONFIG, "an id is a letter"),
        ({"version": ""}, Code.INVALID_CONFIG, "version"),
        ({"version": 1}, Code.INVALID_CONFIG, "version"),
        ({"version": "v" * 129}, Code.LIMIT_EXCEEDED, "128 characters"),
        ({"effects": "wirte"}, Code.INVALID_CONFIG, "did you mean 'write'"),
        ({"effects": None}, Code.INVALID_CONFIG, "none of"),
        ({"capabilities": "stock:write"}, Code.INVALID_CONFIG, "is a list"),
        ({"capabilities": [""]}, Code.INVALID_CONFIG, "capabilities"),
        ({"capabilities": ["a", "a"]}, Code.INVALID_CONFIG, "twice"),
        ({"capabilities": ["c" * 257]}, Code.LIMIT_EXCEEDED, "256"),
        ({"capabilities": [f"c{i}" for i in range(129)]}, Code.LIMIT_EXCEEDED, "128"),
        ({"cost_micros": -1}, Code.INVALID_CONFIG, "cost_micros"),
        ({"cost_micros": 1.5}, Code.INVALID_CONFIG, "cost_micros"),
        ({"cost_micros": True}, Code.INVALID_CONFIG, "cost_micros"),
        ({"timeout": 0}, Code.INVALID_CONFIG, "timeout"),
        ({"timeout": float("nan")}, Code.INVALID_CONFIG, "timeout"),
        ({"timeout": "30"}, Code.INVALID_CONFIG, "timeout"),
        ({"timeout": 2**31 / 1000}, Code.LIMIT_EXCEEDED, "timeout"),
        ({"concurrency": 0}, Code.INVALID_CONFIG, "concurrency"),
        ({"once": []}, Code.INVALID_CONFIG, "once"),
        ({"once": "order.order_id", "effects": "read"}, Code.INVALID_CONFIG, "tools that act"),
        ({"once": "order.order_id", "effects": "none"}, Code.INVALID_CONFIG, "tools that act"),
        ({"once": "ordr.order_id"}, Code.INVALID_CONFIG, "did you mean 'order'"),
        ({"once": "order.order_ids"}, Code.INVALID_CONFIG, "did you mean 'order_id'"),
        ({"once": "order.price"}, Code.INVALID_CONFIG, "may be written in several ways"),
        ({"once": "order"}, Code.INVALID_CONFIG, "may be written in several ways"),
        ({"once": "order.note"}, Code.INVALID_CONFIG, "may be null"),
        ({"once": ["order.order_id", "order.order_id"]}, Code.INVALID_CONFIG, "twice"),
        ({"absent_after": 60}, Code.INVALID_CONFIG, "needs key_lifetime"),
        ({"absent_after": 60, "key_lifetime": 60}, Code.INVALID_CONFIG, "no time in which"),
        ({"absent_after": 60, "key_lifetime": 90}, Code.INVALID_CONFIG, "no time in which"),
        ({"input_guards": [allow]}, Code.INVALID_CONFIG, "list of Guard"),
        ({"input_guards": [Guard("a", "1", allow)] * 2}, Code.INVALID_CONFIG, "one name"),
        (
            {"output_guards": [Guard(f"g{i}", "1", allow) for i in range(33)]},
            Code.LIMIT_EXCEEDED,
            "guards is at most 32",
        ),
        ({"output_guards": [Guard("", "1", allow)]}, Code.INVALID_CONFIG, "guard's name"),
        ({"output_guards": [Guard("a", "", allow)]}, Code.INVALID_CONFIG, "'a' version"),
    ],
)
def test_an_option_that_does_not_hold_is_refused_by_name(
    options: dict[str, Any], code: Code, said: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        declare(options)
    assert caught.value.code is code
    assert said in str(caught.value)
    assert str(caught.value).startswith("tool ")


def test_what_the_limits_allow_is_accepted() -> None:
    assert declare(
        {
            "id": "a" * 128,
            "version": "v" * 128,
            "capabilities": ["c" * 256, *(f"c{i}" for i in range(127))],
            "timeout": (2**31 - 1) / 1000,
            "input_guards": [Guard(f"g{i}", "1", allow) for i in range(32)],
            "once": ["order.order_id", "order.amount_cents", "order.colours"],
        }
    )
    assert declare({"absent_after": 60, "key_lifetime": 90.1})


class Hides(BaseModel):
    password: SecretStr


class Drops(BaseModel):
    kept: int
    dropped: int = Field(default=0, exclude=True)


class Inner(BaseModel):
    drops: list[Drops]


class Lopsided(BaseModel):
    number: int = Field(validation_alias="in", serialization_alias="out")


class Loses(BaseModel):
    charge: Charge = FullCharge(charge_id="c", fee=1)


@dataclass(eq=False)
class Unequal:
    number: int


class Custom:
    """Not a type that pydantic knows."""


def _secret(call: Call, hides: Hides) -> None: ...
def _dropped(call: Call, inner: Inner) -> None: ...
def _lopsided(call: Call, value: Lopsided) -> None: ...
def _loses(call: Call, value: Loses) -> None: ...
def _unequal(call: Call, value: Unequal) -> None: ...
def _custom(call: Call, value: Custom) -> None: ...
def _stream(call: Call, value: Iterator[int]) -> None: ...
def _function(call: Call, value: Callable[[], int]) -> None: ...
def _secret_output(call: Call, value: int) -> SecretStr: ...  # type: ignore[empty-body]
def _no_annotation(call: Call, value) -> None: ...  # type: ignore[no-untyped-def]
def _no_return(call: Call, value: int): ...  # type: ignore[no-untyped-def]
def _keyword_only(*, call: Call, value: int) -> None: ...
def _no_parameters() -> None: ...
def _nothing_but_call(call: Call) -> None: ...
@functools.wraps(charge.fn)
def _wrapper(*args: Any, **kwargs: Any) -> object:  # noqa: ANN401
    return charge.fn(*args, **kwargs)


def _not_call(order: Order, value: int) -> None: ...
def _variadic(call: Call, *values: int) -> None: ...
def _keywords(call: Call, **values: int) -> None: ...
def _positional(call: Call, value: int, /) -> None: ...
def _unknown(call: Call, value: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (_secret, "parameter 'hides' field password: is a secret"),
        (_dropped, "parameter 'inner' field drops.dropped: is excluded"),
        (_lopsided, "parameter 'value' field number: is read under one alias"),
        (_loses, "parameter 'value' field charge: has a default of type FullCharge"),
        (_unequal, "parameter 'value': is Unequal, a dataclass with eq=False"),
        (_custom, "parameter 'value': is of type Custom"),
        (_stream, "parameter 'value': is a stream"),
        (_function, "parameter 'value'"),
        (_secret_output, "return type: is a secret"),
        (_no_annotation, "parameter 'value': has no annotation"),
        (_no_return, "has no return annotation"),
        (_keyword_only, "keyword only"),
        (_wrapper, "wraps an async function"),
        (functools.partial(_secret), "is not a function"),
        (_no_parameters, "takes no parameters"),
        (_nothing_but_call, "takes nothing but `call`"),
        (_not_call, "make it `call: Call`"),
        (_variadic, "cannot be bound"),
        (_keywords, "cannot be bound"),
        (_positional, "positional only"),
        (_unknown, "annotation 'Missing' is not known"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_by_name(
    fn: Callable[..., object], said: str
) -> None:
    """Case F8: refused where it is defined, by tool, parameter and field."""
    with pytest.raises(DefinitionError) as caught:
        tool("a.tool", version="1", effects="none")(fn)
    assert str(caught.value).startswith("tool 'a.tool'")
    assert said in str(caught.value)


def test_a_tool_is_described_by_its_docstring() -> None:
    assert charge.description == "Charge the customer."
    assert half.description == ""


def test_types_declared_beside_the_tool_are_found() -> None:
    class Local(BaseModel):
        number: int

    @tool("local.tool", version="1", effects="none")
    def local(call: Call, value: Local) -> Local:
        return value

    assert local.arguments({"value": {"number": 1}}) == {"value": Local(number=1)}


@pytest.mark.parametrize(
    ("bind", "said"),
    [
        (half.on, "missing a required argument: 'number'"),
        (lambda: half.on(1, 2), "too many"),  # type: ignore[call-arg]
        (lambda: half.on(1, nummer=2), "nummer"),  # type: ignore[call-arg]
        (lambda: half.on(1, number=2), "multiple values"),  # type: ignore[misc]
    ],
)
def test_parameters_are_bound_once_each(bind: Callable[[], object], said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        bind()
    assert said in str(caught.value)
    assert str(caught.value).startswith("tool 'math.half'")


def test_a_parameter_left_out_is_bound_to_its_default() -> None:
    assert charge.on(Order(order_id="o", amount_cents=1)).arguments[1] == ("reservation_id", "none")


def fresh(
    effects: Effects = "write",
    absent_after: float | None = None,
    key_lifetime: float | None = None,
) -> Tool[[Order], Charge]:
    @tool(
        "fresh.tool",
        version="1",
        effects=effects,
        absent_after=absent_after,
        key_lifetime=key_lifetime,
    )
    async def made(call: Call, order: Order) -> Charge:
        raise NotImplementedError

    return made


async def _finds(call: Call, order: Order) -> Absent:
    return Absent()


async def _finds_something_else(call: Call, order_id: str) -> Absent:
    return Absent()


def test_a_lookup_takes_what_its_tool_takes() -> None:
    made = fresh()
    with pytest.raises(DefinitionError, match=r"takes \(call, order\)"):
        made.lookup(_finds_something_else)  # type: ignore[arg-type]
    assert not made.spec.lookup
    made.lookup(_finds)
    assert made.spec.lookup
    with pytest.raises(DefinitionError, match="twice"):
        made.lookup(_finds)


def test_a_tool_that_changes_nothing_needs_no_lookup() -> None:
    with pytest.raises(DefinitionError, match="needs none"):
        fresh("read").lookup(_finds)


def test_a_lookup_comes_before_the_workflows_that_use_its_tool() -> None:
    made = fresh()
    assert not made.pinned().lookup
    with pytest.raises(DefinitionError, match="move it up"):
        made.lookup(_finds)


def test_absent_after_needs_a_lookup_that_could_say_absent() -> None:
    with pytest.raises(DefinitionError, match="no lookup"):
        fresh(absent_after=60, key_lifetime=3600).pinned()
