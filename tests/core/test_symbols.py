"""Symbols: every way in which a workflow function may not compute, and what it is told."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
from pydantic import BaseModel

from mayura.runtime import Flow, workflow
from mayura.runtime.core.mistake import DefinitionError
from tests.core.shop import Line, Order, reserve


class Wrapper(BaseModel):
    order: Any


class Row(NamedTuple):
    order: Any


@dataclasses.dataclass
class Held:
    order: Any


def computing(compute: Callable[[Any, Any], object]) -> DefinitionError:
    """The error of a workflow that computes with its input or with a step's output."""

    def trace(flow: Flow, order: Order) -> object:
        reserved = flow.tool("reserve", reserve.on(order))
        return compute(order, reserved.output)

    with pytest.raises(DefinitionError) as caught:
        workflow("shop.computes", version="1")(trace)
    return caught.value


COMPUTED: Final[list[tuple[str, Callable[[Any, Any], object], str]]] = [
    ("bool", lambda order, _: 1 if order.amount_cents else 2, "choose with when="),
    ("not", lambda order, _: not order.amount_cents, "choose with when="),
    ("and", lambda order, _: order.amount_cents and 1, "choose with when="),
    ("==", lambda order, _: order.order_id == "x", "choose with when="),
    ("!=", lambda order, _: order.order_id != "x", "choose with when="),
    (">", lambda order, _: order.amount_cents > 5, "choose with when="),
    ("reflected <", lambda order, _: 5 < order.amount_cents, "choose with when="),  # noqa: SIM300
    ("in", lambda order, _: "x" in order.order_id, "choose with when="),
    ("in a list", lambda order, _: order.order_id in ["x"], "choose with when="),
    ("isinstance", lambda order, _: isinstance(order, Order), "choose with when="),
    ("match", lambda order, _: _matched(order), "choose with when="),
    ("f-string", lambda order, _: f"{order.order_id}", "make the text inside a tool"),
    ("str", lambda order, _: str(order.order_id), "make the text inside a tool"),
    ("format", lambda order, _: format(order.amount_cents, "d"), "make the text inside a tool"),
    ("percent", lambda order, _: "%s" % order.order_id, "make the text inside a tool"),  # noqa: UP031
    ("join", lambda order, _: ",".join(order.lines), "use flow.fan_out"),
    ("len", lambda order, _: len(order.lines), "use flow.fan_out"),
    ("for", lambda order, _: [line.sku for line in order.lines], "use flow.fan_out"),
    ("unpacking", lambda order, _: [*order.lines], "use flow.fan_out"),
    ("reversed", lambda order, _: list(reversed(order.lines)), "use flow.fan_out"),
    ("sorted", lambda order, _: sorted(order.lines), "use flow.fan_out"),
    ("+", lambda order, _: order.amount_cents + 1, "compute it inside a tool"),
    ("reflected +", lambda order, _: 1 + order.amount_cents, "compute it inside a tool"),
    ("text +", lambda _, reserved: "r" + reserved, "compute it inside a tool"),
    ("-", lambda order, _: -order.amount_cents, "compute it inside a tool"),
    ("*", lambda order, _: 2 * order.amount_cents, "compute it inside a tool"),
    ("/", lambda order, _: order.amount_cents / 100, "compute it inside a tool"),
    ("divmod", lambda order, _: divmod(order.amount_cents, 7), "compute it inside a tool"),
    ("**", lambda order, _: order.amount_cents**2, "compute it inside a tool"),
    ("|", lambda order, _: order.amount_cents | 1, "compute it inside a tool"),
    ("abs", lambda order, _: abs(order.amount_cents), "compute it inside a tool"),
    ("round", lambda order, _: round(order.amount_cents), "compute it inside a tool"),
    ("int", lambda order, _: int(order.amount_cents), "compute it inside a tool"),
    ("float", lambda order, _: float(order.amount_cents), "compute it inside a tool"),
    ("range", lambda order, _: range(order.amount_cents), "compute it inside a tool"),
    ("index", lambda order, _: [1, 2][order.amount_cents], "compute it inside a tool"),
    ("hash", lambda order, _: {order.order_id: 1}, "build them inside a tool"),
    ("set", lambda order, _: {order.order_id}, "build them inside a tool"),
    ("call", lambda order, _: order.order_id(), "compute it inside a tool"),
    ("method", lambda order, _: order.order_id.upper(), "'upper' inside a tool"),
    ("own method", lambda order, _: order.total(), "'total' of Order is computed"),
    ("property", lambda order, _: order.doubled, "'doubled' of Order is computed"),
    ("slice", lambda order, _: order.lines[1:], "compute it inside a tool"),
    ("negative index", lambda order, _: order.lines[-1], "counts from the front"),
    ("assignment", lambda order, _: setattr(order, "order_id", "x"), "changed value inside"),
    ("item assignment", lambda order, _: order.lines.__setitem__(0, 1), "changed value inside"),
    ("copy", lambda order, _: copy.copy(order), "bind the symbol itself"),
    ("deepcopy", lambda order, _: copy.deepcopy(order), "bind the symbol itself"),
    ("pickle", lambda order, _: pickle.dumps(order), "bind the symbol itself"),
    ("model", lambda order, _: Line(sku=order.order_id), "Line cannot be made of input.order_id"),
    ("copied model", lambda order, _: order.model_copy(), "'model_copy' of Order is computed"),
    ("model of anything", lambda order, _: Wrapper(order=order), "is built around input"),
    ("list", lambda order, _: [order.order_id], "is built around input.order_id"),
    ("dict", lambda _, reserved: {"a": [reserved]}, "is built around reserve.output"),
    ("dataclass", lambda order, _: Held(order=order), "is built around input"),
    ("tuple", lambda order, _: Row(order), "is built around input"),
    ("unknown field", lambda order, _: order.ordr_id, "did you mean 'order_id'"),
    ("unknown nested", lambda order, _: order.lines[0].skus, "did you mean 'sku'"),
    ("item of a model", lambda order, _: order["order_id"], "Order has no item 'order_id'"),
    ("item of text", lambda order, _: order.order_id[0], "str has no item 0"),
    ("index of a tuple", lambda order, _: order.pair[2], "has no item 2"),
    ("awaiting", lambda order, _: _awaited(order), "a workflow awaits nothing"),
    ("with", lambda order, _: _entered(order), "compute it inside a tool"),
]


def _matched(order: Order) -> int:
    match order:
        case Order(amount_cents=5):
            return 1
        case _:
            return 2


def _awaited(symbol: Any) -> object:  # noqa: ANN401
    async def wait() -> object:
        return await symbol

    return wait().send(None)


def _entered(symbol: Any) -> None:  # noqa: ANN401
    with symbol:
        pass


@pytest.mark.parametrize(
    ("compute", "said"),
    [(compute, said) for _, compute, said in COMPUTED],
    ids=[name for name, _, _ in COMPUTED],
)
def test_computing_with_a_symbol_is_an_error_that_says_what_to_do(
    compute: Callable[[Any, Any], object], said: str
) -> None:
    error = computing(compute)
    assert said in str(error)
    assert str(error).startswith("workflow 'shop.computes'")
