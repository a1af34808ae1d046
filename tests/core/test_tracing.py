"""Tracing: what a workflow function becomes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from mayura.runtime import Flow, Workflow, workflow
from mayura.runtime.core.definition import (
    Constant,
    FanOut,
    FromInput,
    FromStep,
    HumanNode,
    JoinNode,
    SignalNode,
    TimerNode,
    ToolNode,
)
from mayura.runtime.ids import NodeId
from tests.core.shop import (
    Answer,
    Charge,
    Line,
    Order,
    Plain,
    add,
    charge,
    pick,
    reserve,
    show,
    take,
)

Traced = Workflow[Any, Any]


def node(traced: Traced, name: str) -> Any:  # noqa: ANN401 - any kind of node
    return traced.definition.index[NodeId(name)]


@workflow("shop.checkout", version="3")
def checkout(flow: Flow, order: Order) -> Charge:
    """Reserve, then charge once a person approved the exact call."""
    reserved = flow.tool("reserve", reserve.on(order))
    charged = flow.tool("charge", charge.on(order, reserved.output), approval=True)
    return charged.output


def test_a_function_becomes_a_graph() -> None:
    definition = checkout.definition
    assert (checkout.id, checkout.version) == ("shop.checkout", "3")
    assert checkout.description == "Reserve, then charge once a person approved the exact call."
    assert [n.id for n in definition.nodes] == ["reserve", "charge"]
    assert node(checkout, "reserve") == ToolNode(
        id=NodeId("reserve"),
        depends_on=(),
        tool=reserve.spec,
        inputs=(("order", FromInput()),),
    )
    assert node(checkout, "charge") == ToolNode(
        id=NodeId("charge"),
        depends_on=(NodeId("reserve"),),
        tool=charge.spec,
        inputs=(("order", FromInput()), ("reservation_id", FromStep(NodeId("reserve")))),
        approval=True,
    )
    assert definition.result == FromStep(NodeId("charge"))
    assert definition.dependents == {"reserve": ("charge",), "charge": ()}
    assert checkout.tool(NodeId("charge")) is charge
    assert checkout.tools == {"stock.reserve": reserve, "payments.charge": charge}


@workflow("shop.all", version="1")
def every(flow: Flow, order: Order) -> list[int | None] | None:
    paid = flow.signal("paid", Charge, name="payment", deadline=order.ship_at)
    fired = flow.timer("later", paid.output.at)
    asked = flow.human(
        "ask",
        Answer,
        prompt="Publish?",
        kind="correction",
        schema_id="posts.review",
        context=paid.output.charge_id,
        subject_digest=order.digest,
        deadline=datetime(2030, 1, 1, tzinfo=UTC),
        after=[fired],
    )
    picked = flow.fan_out(
        "pick",
        pick,
        order.lines,
        max=2,
        surplus="ignore",
        approval=True,
        when=asked.output.publish,
        after=[fired],
    )
    flow.join("both", [asked, fired], when=asked.output.note, after=[paid])
    return picked.output


def test_steps_that_wait_are_traced() -> None:
    assert node(every, "paid") == SignalNode(
        id=NodeId("paid"),
        depends_on=(),
        name="payment",
        schema=node(every, "paid").schema,
        deadline=FromInput(("ship_at",)),
    )
    assert node(every, "later") == TimerNode(
        NodeId("later"), (NodeId("paid"),), FromStep(NodeId("paid"), ("at",))
    )
    assert node(every, "ask") == HumanNode(
        id=NodeId("ask"),
        depends_on=(NodeId("later"), NodeId("paid")),
        kind="correction",
        schema_id="posts.review",
        schema=node(every, "ask").schema,
        prompt="Publish?",
        context=FromStep(NodeId("paid"), ("charge_id",)),
        subject_digest=FromInput(("sha256",)),
        deadline=Constant("2030-01-01T00:00:00Z"),
    )


def test_fan_outs_and_joins_are_traced() -> None:
    condition = FromStep(NodeId("ask"), ("publish",))
    assert node(every, "pick.2") == ToolNode(
        id=NodeId("pick.2"),
        depends_on=(NodeId("ask"), NodeId("later")),
        tool=pick.spec,
        inputs=(("line", FromInput(("lines", 1))),),
        approval=True,
        when=condition,
        fan_out=FanOut(FromInput(("lines",)), 2, "ignore"),
    )
    assert node(every, "pick") == JoinNode(
        id=NodeId("pick"),
        depends_on=(NodeId("ask"), NodeId("pick.1"), NodeId("pick.2")),
        slots=(NodeId("pick.1"), NodeId("pick.2")),
        when=condition,
    )
    assert node(every, "both") == JoinNode(
        id=NodeId("both"),
        depends_on=(NodeId("ask"), NodeId("later"), NodeId("paid")),
        slots=(NodeId("ask"), NodeId("later")),
        when=FromStep(NodeId("ask"), ("note",)),
    )


def traced_bindings(bind: Callable[[Order], object]) -> object:
    """What one parameter is bound to."""

    @workflow("shop.bind", version="1")
    def binds(flow: Flow, order: Order) -> object:
        return flow.tool("take", take.on(bind(order))).output

    return dict(node(binds, "take").inputs)["value"]


@pytest.mark.parametrize(
    ("bind", "binding"),
    [
        (lambda order: order, FromInput()),
        (lambda order: order.order_id, FromInput(("order_id",))),
        (lambda order: order.digest, FromInput(("sha256",))),
        (lambda order: order.lines[3].sku, FromInput(("lines", 3, "sku"))),
        (lambda order: order.extras.gift, FromInput(("extras", "gift"))),
        (lambda order: order.extras.codes["a"], FromInput(("extras", "codes", "a"))),
        (lambda order: order.pair[1], FromInput(("pair", 1))),
        (lambda order: "text", Constant("text")),
        (lambda order: None, Constant(None)),
        (lambda order: [1, {"a": None}], Constant([1, {"a": None}])),
    ],
)
def test_parts_of_a_value_are_bindings(bind: Callable[[Order], object], binding: object) -> None:
    assert traced_bindings(bind) == binding


def test_a_value_is_bound_in_its_stored_form() -> None:
    @workflow("shop.constant", version="1")
    def constant(flow: Flow, order: Order) -> int:
        line = Line(sku="s")
        picked = flow.tool("pick", pick.on(line))
        return flow.tool("add", add.on(picked.output)).output

    assert node(constant, "pick").inputs == (("line", Constant({"sku": "s", "count": 1})),)
    assert dict(node(constant, "add").inputs)["right"] == Constant(5)


def test_the_order_of_writing_does_not_matter() -> None:
    """Case K8: nodes, parameters and dependencies have an order of their own."""

    @workflow("shop.order", version="1")
    def one(flow: Flow, number: int) -> int:
        b = flow.tool("b", add.on(left=number, right=1))
        a10 = flow.tool("a.10", add.on(number, 2))
        a2 = flow.tool("a.2", add.on(number, 3))
        return flow.tool("c", add.on(a10.output, b.output), after=[a2, b]).output

    @workflow("shop.order", version="1")
    def other(flow: Flow, value: int) -> int:
        a2 = flow.tool("a.2", add.on(right=3, left=value))
        a10 = flow.tool("a.10", add.on(value, 2))
        b = flow.tool("b", add.on(right=1, left=value))
        return flow.tool("c", add.on(a10.output, b.output), after=[b, a2]).output

    assert [n.id for n in one.definition.nodes] == ["a.2", "a.10", "b", "c"]
    assert one.definition == other.definition


def test_a_join_reads_as_the_list_of_what_it_joins() -> None:
    @workflow("shop.join", version="1")
    def joins(flow: Flow, order: Order) -> object:
        one = flow.tool("one", reserve.on(order))
        other = flow.tool("other", reserve.on(order))
        both = flow.join("both", [other, one])
        return flow.tool("show", show.on(both.output[1])).output

    assert node(joins, "both").slots == ("other", "one")
    assert node(joins, "show").inputs == (("text", FromStep(NodeId("both"), (1,))),)


def test_keys_of_a_typed_dict_are_items() -> None:
    @workflow("shop.plain", version="1")
    def plain(flow: Flow, value: Plain) -> object:
        return flow.tool("take", take.on(value["key"])).output

    assert dict(node(plain, "take").inputs)["value"] == FromInput(("key",))
