# pyright: reportUnnecessaryTypeIgnoreComment=error
"""What type checkers make of definitions. Nothing here runs: `make check` reads it.

Each `assert_type` is what a user's editor shows; each ignored error must be an error, for mypy
(which reports ignores it did not need) and for pyright alike.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, assert_type

from pydantic import BaseModel

from mayura.runtime import (
    Absent,
    Call,
    Flow,
    Happened,
    Never,
    Step,
    TimerFired,
    Tool,
    Unclear,
    Workflow,
    tool,
    workflow,
)
from mayura.runtime.core.tool import Bound


class Line(BaseModel):
    sku: str


class Order(BaseModel):
    order_id: str
    amount_cents: int
    lines: list[Line]
    by: datetime


class Charge(BaseModel):
    charge_id: str


@tool("reserve", version="1", effects="write")
async def reserve(call: Call, order: Order) -> str:
    raise NotImplementedError


@tool("charge", version="1", effects="write")
async def charge(call: Call, order: Order, reservation_id: str, *, note: str = "") -> Charge:
    raise NotImplementedError


@tool("pick", version="1", effects="read")
def pick(call: Call, line: Line) -> int:
    raise NotImplementedError


@charge.lookup
async def find(
    call: Call, order: Order, reservation_id: str, *, note: str = ""
) -> Happened[Charge] | Absent | Never | Unclear:
    return Absent()


def tools_are_typed_as_their_functions() -> None:
    one: Tool[[Order], str] = reserve
    other: Tool[[Line], int] = pick
    assert_type((one.id, other.grants), tuple[str, tuple[str, ...]])
    order = Order(order_id="", amount_cents=1, lines=[], by=datetime(2030, 1, 1, tzinfo=UTC))
    assert_type(charge.on(order, "r", note="n"), Bound[Charge])
    assert_type(charge.on(order, reservation_id="r"), Bound[Charge])
    charge.on(order)  # type: ignore[call-arg]
    charge.on(order, 5)  # type: ignore[arg-type]
    charge.on(order, "r", "n")  # type: ignore[call-arg]
    charge.on(order, reservation="r")  # type: ignore[call-arg]
    tool("x", version="1", effects="wirte")  # type: ignore[arg-type]
    tool("x", version="1", effects="write", time_out=3)  # type: ignore[call-arg]
    tool("x", version="1")  # type: ignore[call-arg]


@charge.lookup  # type: ignore[arg-type]
async def finds_another(
    call: Call, order: Order, reservation_id: str, *, note: str = ""
) -> Happened[int]:
    return Happened(5)


@charge.lookup  # type: ignore[arg-type]
async def asks_for_another(call: Call, order_id: str) -> Absent:
    return Absent()


@tool("bad", version="1", effects="none")  # type: ignore[arg-type]
def takes_no_call(order: Order) -> str:
    raise NotImplementedError


@workflow("checkout", version="1")
def checkout(flow: Flow, order: Order) -> Charge | None:
    reserved = flow.tool("reserve", reserve.on(order))
    assert_type(reserved, Step[str])
    assert_type(reserved.output, str)
    charged = flow.tool("charge", charge.on(order, reserved.output), approval=True)
    assert_type(charged.output, Charge)
    assert_type(charged.output.charge_id, str)
    maybe = flow.tool("maybe", charge.on(order, reserved.output), when=order.amount_cents)
    assert_type(maybe.output, Charge | None)
    picked = flow.fan_out("pick", pick, order.lines, max=3)
    assert_type(picked.output, list[int | None])
    perhaps = flow.fan_out("perhaps", pick, order.lines, max=3, when=order.amount_cents)
    assert_type(perhaps.output, list[int | None] | None)
    asked = flow.human("ask", Charge, prompt="?")
    assert_type(asked.output, Charge)
    assert_type(flow.human("asks", bool, prompt="?", when=order.lines).output, bool | None)
    assert_type(flow.timer("wait", order.by).output, TimerFired)
    assert_type(flow.timer("waits", order.by, when=order.by).output, TimerFired | None)
    assert_type(flow.signal("paid", Line).output, Line)
    assert_type(flow.signal("pays", Line, when=order.by).output, Line | None)
    assert_type(flow.join("both", [charged, asked], after=[picked, reserved]).output, list[Charge])
    flow.join("all", [charged, reserved])
    flow.tool("e1", charge.on(order, charged.output))  # type: ignore[arg-type]
    flow.tool("e2", charge.on(order, maybe.output))  # type: ignore[arg-type]
    flow.tool("e3", pick.on(order.lines))  # type: ignore[arg-type]
    flow.tool("e4", reserve.on(reserved.output))  # type: ignore[arg-type]
    flow.tool("e5", reserve)  # type: ignore[call-overload]
    flow.tool("e6", reserve.on(order.oder_id))  # type: ignore[attr-defined]
    flow.fan_out("e7", pick, order.order_id, max=3)  # type: ignore[arg-type]
    flow.fan_out("e8", charge, order.lines, max=3)  # type: ignore[arg-type]
    flow.timer("e9", order.amount_cents)  # type: ignore[call-overload]
    flow.human("e10", bool, prompt="?", kind="informaton")  # type: ignore[call-overload]
    flow.tool("e11", reserve.on(order), after=[reserved.output])  # type: ignore[list-item]
    _ = maybe.output.charge_id  # type: ignore[union-attr]
    return charged.output


@workflow("wrong", version="1")
def wrong(flow: Flow, order: Order) -> Charge:
    return flow.tool("reserve", reserve.on(order)).output  # type: ignore[return-value]


@workflow("wrong", version="1")  # type: ignore[arg-type]
def takes_no_flow(order: Order) -> None: ...


def workflows_are_typed_as_their_functions(stored: dict[str, Any], order: Order) -> None:
    assert_type(checkout, Workflow[Order, Charge | None])
    assert_type(checkout.output_value(stored), Charge | None)
    checkout.input_json(order)
    checkout.input_json(stored)  # type: ignore[arg-type]
