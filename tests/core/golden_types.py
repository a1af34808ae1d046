"""Types of every kind, and workflows of them; `python -m tests.core.golden_types` digests them.

The digests must be the same under every version of pydantic and of Python.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    JsonValue,
    RootModel,
    TypeAdapter,
    computed_field,
)
from typing_extensions import TypedDict

from mayura.runtime import Call, Flow, Guard, Policy, Workflow, tool, workflow
from mayura.runtime.core.digest import SCHEMA, digest
from mayura.runtime.core.schema import schema_of
from mayura.runtime.core.values import encode

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Only(StrEnum):
    ONE = "one"


class Address(BaseModel):
    """Where somebody lives."""

    street: str = Field(title="Street", description="with its number", examples=["High St 1"])
    city: str | None = None


class Person(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=80)]
    home: Address
    work: Address | None = Field(default=None, description="where to send letters")
    addresses: list[Address] = Field(default_factory=list, max_length=3)


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Expression(BaseModel):
    operator: Literal["+", "-"]
    left: Term
    right: Term


class Term(BaseModel):
    inner: Expression | float


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: Annotated[int, Field(ge=0, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    good: bool = True


class Pet(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")


class Page(BaseModel, Generic[T]):
    items: list[T]
    following: int | None = None


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    known: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int


class Renamed(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    order_id: str = Field(alias="orderId")


class Area(BaseModel):
    width: int
    height: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def size(self) -> int:
        return self.width * self.height


class Tags(RootModel[list[str]]):
    pass


@dataclass
class Point:
    x: float
    y: float = 0.0
    labels: list[str] = field(default_factory=list)


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    first: int
    second: str = "none"


class Everything(BaseModel):
    amount: Annotated[Decimal, Field(max_digits=10, decimal_places=2, ge=0)]
    price: Decimal = Decimal("1.10")
    at: datetime
    day: date = date(2026, 1, 31)
    hour: time | None = None
    lasts: timedelta = timedelta(minutes=5)
    colour: Colour = Colour.RED
    levels: set[Level] = {Level.LOW, Level.HIGH}
    words: frozenset[str] = frozenset({"a", "b", "c"})
    raw: bytes = b""
    key: UUID
    names: dict[str, int]
    by_number: dict[int, str]
    pair: tuple[int, str]
    many: tuple[int, ...] = ()
    code: Annotated[str, Field(pattern=r"^[A-Z]{2}\d+$")] = "AB1"
    ratio: float = 0.5
    multiple: Annotated[int, Field(multiple_of=5)] = 5


TYPES: Final[dict[str, object]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": float,
    "none": type(None),
    "any": Any,
    "object": object,
    "json": JsonValue,
    "bytes": bytes,
    "short bytes": Annotated[bytes, Field(max_length=3)],
    "datetime": datetime,
    "date": date,
    "time": time,
    "timedelta": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
    "positive decimal": Annotated[Decimal, Field(gt=0, lt=Decimal("10.5"))],
    "complex": complex,
    "url": HttpUrl,
    "path": PurePosixPath,
    "ip": IPv4Address,
    "enum": Colour,
    "int enum": Level,
    "enum of one": Only,
    "literal": Literal["b", "a", 3],
    "literal of one": Literal["a"],
    "literal or none": Literal["a", None],
    "optional": int | None,
    "union": int | str | list[int],
    "union with none in the middle": int | None | str,
    "list": list[int],
    "bare list": list,
    "bare dict": dict,
    "set": set[str],
    "frozenset": frozenset[int],
    "tuple": tuple[int, str],
    "long tuple": tuple[int, ...],
    "empty tuple": tuple[()],
    "dict": dict[str, int],
    "dict of anything": dict[str, Any],
    "dict by number": dict[int, str],
    "dict by colour": dict[Colour, int],
    "dict with few": Annotated[dict[str, int], Field(max_length=3)],
    "bounds": Annotated[int, Field(gt=1, le=9)],
    "model": Address,
    "nested models": Person,
    "recursive": Node,
    "mutually recursive": Expression,
    "recursive inside": list[Term | None],
    "discriminated": Pet,
    "generic": Page[Address],
    "closed": Closed,
    "open": Open,
    "alias": Renamed,
    "computed": Area,
    "root": Tags,
    "dataclass": Point,
    "typed dict": Movie,
    "named tuple": Pair,
    "everything": Everything,
}


@tool(
    "orders.price",
    version="3",
    effects="read",
    capabilities=["prices:read"],
    cost_micros=5,
    timeout=2.5,
    input_guards=[Guard("limits", "2", lambda value, about: True)],
)
async def price(call: Call, order: Everything, person: Person) -> Decimal:
    """Say what an order costs."""
    raise NotImplementedError


@tool("orders.send", version="1", effects="write", once="to.street", timeout=60)
def send(call: Call, to: Address, note: str = "none") -> None:
    """Send it."""


@tool("orders.pack", version="1", effects="none")
async def pack(call: Call, pet: Cat) -> Point:
    """Pack one item."""
    raise NotImplementedError


class Order(BaseModel):
    everything: Everything
    person: Person
    pets: list[Cat]
    by: datetime


@workflow("orders.all", version="7")
def all_kinds(flow: Flow, order: Order) -> list[Point | None] | None:
    """Every kind of node."""
    flow.timer("pause", datetime(2026, 1, 31, 12, tzinfo=UTC))
    priced = flow.tool("price", price.on(order.everything, order.person), approval=True)
    asked = flow.human("ask", bool, prompt="Send it?", context=priced.output, deadline=order.by)
    paid = flow.signal("paid", Address, name="payment.received", after=[asked])
    sent = flow.tool("send", send.on(paid.output), when=asked.output)
    packed = flow.fan_out("pack", pack, order.pets, max=3, when=asked.output, after=[sent])
    both = flow.join("both", [sent, priced])
    flow.tool("again", send.on(order.person.home, note="again"), after=[both])
    return packed.output


WORKFLOWS: Final[dict[str, Workflow[Any, Any]]] = {"all kinds of nodes": all_kinds}
POLICIES: Final = {
    "default": Policy(version="1"),
    "everything set": Policy(
        version="2",
        allow=["tool:b", "tool:a", "effect:write"],
        budget_micros=10,
        output_bytes_max=1000,
        approval_lifetime=60,
        unverified_people=True,
        separation_of_duties=True,
    ),
}


def schemas() -> dict[str, Any]:
    """Each type's schema in normal form."""
    return {name: schema_of(TypeAdapter(kind), name) for name, kind in TYPES.items()}  # type: ignore[arg-type]


def digests() -> dict[str, dict[str, str]]:
    """What must never change by itself."""
    return {
        "schemas": {n: digest(SCHEMA, encode(s)).hex()[:32] for n, s in schemas().items()},
        "definitions": {n: w.definition.digest.hex() for n, w in WORKFLOWS.items()},
        "policies": {n: p.digest.hex() for n, p in POLICIES.items()},
    }


if __name__ == "__main__":
    found = schemas() if "--schemas" in sys.argv else digests()
    sys.stdout.write(json.dumps(found, indent=1, sort_keys=True) + "\n")
