"""A small shop: the types and tools that tests of definitions share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mayura.runtime import Call, tool

NOON: Final = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Line(BaseModel):
    sku: str
    count: int = 1


class Extras(BaseModel):
    gift: str | None = None
    codes: dict[str, int] = {}


class Order(BaseModel):
    order_id: str
    amount_cents: int
    lines: list[Line] = []
    extras: Extras | None = None
    pay_by: datetime | None = None
    ship_at: datetime = NOON
    pair: tuple[int, str] = (0, "")
    digest: str = Field(default="0" * 64, alias="sha256")

    def total(self) -> int:
        return self.amount_cents

    @property
    def doubled(self) -> int:
        return 2 * self.amount_cents


class Charge(BaseModel):
    charge_id: str
    at: datetime


class Answer(BaseModel):
    publish: bool
    note: str | None = None


class Plain(TypedDict):
    key: str


@tool("stock.reserve", version="1", effects="write")
async def reserve(call: Call, order: Order) -> str:
    raise NotImplementedError


@tool("stock.pick", version="1", effects="read")
async def pick(call: Call, line: Line) -> int:
    raise NotImplementedError


@tool("payments.charge", version="1", effects="write", once="order.order_id")
async def charge(call: Call, order: Order, reservation_id: str) -> Charge:
    raise NotImplementedError


@tool("text.show", version="1", effects="none")
async def show(call: Call, text: str | None) -> dict[str, list[int]]:
    raise NotImplementedError


@tool("number.add", version="1", effects="none")
async def add(call: Call, left: int, right: int = 5) -> int:
    raise NotImplementedError


@tool("anything.take", version="1", effects="none")
async def take(call: Call, value: object) -> object:
    raise NotImplementedError
