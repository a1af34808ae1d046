"""Which edits of a workflow are cosmetic and which are not, one by one (case K8, G12)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Annotated, Any, Final, Literal

import pytest
from pydantic import BaseModel, Field, create_model

from mayura.runtime import Absent, Call, Flow, Guard, GuardContext, tool, workflow
from mayura.runtime.core.definition import Effects, HumanKind

NOON: Final = datetime(2030, 1, 1, 12, tzinfo=UTC)


def allow(value: object, about: GuardContext) -> bool:
    return True


def allow_differently(value: object, about: GuardContext) -> bool:
    return bool(value) or True


class Item(BaseModel):
    """What is sold."""

    sku: str
    count: int = 1


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Farbe(Enum):
    BLAU = "blue"
    ROT = "red"


def order_model(name: str = "Order", **changes: Any) -> type[BaseModel]:  # noqa: ANN401
    """The input's type, with some of its fields changed."""
    fields: dict[str, Any] = {
        "order_id": (str, ...),
        "amount": (Annotated[int, Field(ge=0)], 5),
        "items": (list[Item], ...),
        "colour": (Colour, Colour.RED),
        "urgent": (bool, False),
    }
    return create_model(name, **{**fields, **changes})


ORDER: Final = order_model()


@dataclass(frozen=True)
class Written:
    """Everything that the workflow below may be written with."""

    id: str = "shop.sell"
    version: str = "1"
    order: type[BaseModel] = ORDER
    tool_id: str = "stock.take"
    tool_version: str = "1"
    effects: Effects = "write"
    capabilities: tuple[str, ...] = ("a", "b")
    cost_micros: int = 3
    timeout: float = 30
    once: str | None = "item.sku"
    key_lifetime: float | None = 86_400
    absent_after: float | None = 60
    lookup: bool = True
    input_guards: tuple[Guard, ...] = (Guard("g1", "1", allow), Guard("g2", "1", allow))
    output_guards: tuple[Guard, ...] = ()
    concurrency: int | None = None
    docstring: str = "Take it."
    default: int = 7
    step: str = "take"
    approval: bool = True
    conditional: bool = True
    late: bool = False
    kind: HumanKind = "information"
    prompt: str = "Go on?"
    schema_id: str = "shop.answer"
    answer: Any = bool
    context: object = None
    deadline: datetime | None = NOON
    fire_at: datetime = NOON
    signal: str = "paid"
    payload: Any = int
    slots: int = 2
    surplus: Literal["fail", "ignore"] = "fail"
    bound: Literal["items", "constant"] = "items"
    backwards: bool = False
    result: Literal["take", "note"] = "take"
    bind_default: bool = False


def digest(written: Written) -> bytes:
    """The digest of the workflow, written like this."""
    take, note = _tools(written)

    def sell(flow: Flow, order: Any) -> object:  # noqa: ANN401
        def timer() -> Any:  # noqa: ANN401
            return flow.timer("pause", written.fire_at)

        def signal() -> Any:  # noqa: ANN401
            return flow.signal("pay", written.payload, name=written.signal)

        first, second = (signal, timer) if written.backwards else (timer, signal)
        waited = [first(), second()]
        asked = flow.human(
            "ask",
            written.answer,
            kind=written.kind,
            prompt=written.prompt,
            schema_id=written.schema_id,
            context=written.context,
            subject_digest="0" * 64 if written.kind == "correction" else None,
            deadline=written.deadline,
            after=waited if written.late else [],
        )
        item = order.items[0] if written.bound == "items" else Item(sku="s")
        bound = take.on(item, 7) if written.bind_default else take.on(item)
        when = {"when": order.urgent} if written.conditional else {}
        taken = flow.tool(written.step, bound, approval=written.approval, after=[asked], **when)
        noted = flow.tool("note", note.on(order.order_id))
        flow.fan_out("all", note, order.items, max=written.slots, surplus=written.surplus)
        return taken.output if written.result == "take" else noted.output

    sell.__annotations__.update(order=written.order)
    sell.__doc__ = written.docstring
    return workflow(written.id, version=written.version)(sell).definition.digest


def _tools(written: Written) -> tuple[Any, Any]:
    async def take(call: Call, item: Item, extra: int = 0) -> object: ...

    take.__doc__ = written.docstring
    take.__defaults__ = (written.default,)

    async def lookup(call: Call, item: Item, extra: int = 0) -> Absent:
        return Absent()

    @tool("notes.write", version="1", effects="none")
    async def note(call: Call, text: object) -> object: ...

    made = tool(
        written.tool_id,
        version=written.tool_version,
        effects=written.effects,
        capabilities=written.capabilities,
        cost_micros=written.cost_micros,
        timeout=written.timeout,
        once=written.once,
        key_lifetime=written.key_lifetime,
        absent_after=written.absent_after,
        input_guards=written.input_guards,
        output_guards=written.output_guards,
        concurrency=written.concurrency,
    )(take)
    if written.lookup:
        made.lookup(lookup)
    return made, note


BASE: Final = Written()

REAL: Final[dict[str, dict[str, Any]]] = {
    "id": {"id": "shop.sells"},
    "version": {"version": "2"},
    "tool's id": {"tool_id": "stock.takes"},
    "tool's version": {"tool_version": "2"},
    "effects": {"effects": "host"},
    "capabilities": {"capabilities": ("a", "c")},
    "cost": {"cost_micros": 4},
    "timeout": {"timeout": 30.001},
    "once": {"once": None},
    "once of another field": {"once": "extra"},
    "key lifetime": {"key_lifetime": 86_401},
    "absent after": {"absent_after": 61},
    "no lookup": {"lookup": False, "absent_after": None},
    "guard's name": {"input_guards": (Guard("g1", "1", allow), Guard("g3", "1", allow))},
    "guard's version": {"input_guards": (Guard("g1", "2", allow), Guard("g2", "1", allow))},
    "one guard more": {"output_guards": (Guard("g1", "1", allow),)},
    "default that is bound": {"default": 8},
    "node's id": {"step": "takes"},
    "approval": {"approval": False},
    "when": {"conditional": False},
    "dependencies": {"late": True},
    "kind": {"kind": "plan_selection"},
    "prompt": {"prompt": "Go on!"},
    "schema id": {"schema_id": "shop.answers"},
    "answer": {"answer": str},
    "context": {"context": "more"},
    "deadline": {"deadline": None},
    "time": {"fire_at": NOON.replace(microsecond=1)},
    "signal's name": {"signal": "pays"},
    "payload": {"payload": float},
    "slots": {"slots": 3},
    "surplus": {"surplus": "ignore"},
    "binding": {"bound": "constant"},
    "result": {"result": "note"},
    "field's type": {"order": order_model(order_id=(int, ...))},
    "field's constraint": {"order": order_model(amount=(Annotated[int, Field(ge=1)], 5))},
    "field's default": {"order": order_model(amount=(Annotated[int, Field(ge=0)], 6))},
    "field's name": {"order": order_model(urgently=(bool, False))},
    "field's alias": {"order": order_model(amount=(int, Field(5, ge=0, alias="sum")))},
    "field that may be null": {"order": order_model(order_id=(str | None, ...))},
    "enum": {"order": order_model(colour=(Literal["red", "green"], "red"))},
}

COSMETIC: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "docstrings": {"docstring": "Take it away."},
    "concurrency": {"concurrency": 5},
    "order of capabilities": {"capabilities": ("b", "a")},
    "order of guards": {"input_guards": BASE.input_guards[::-1]},
    "guard's function": {
        "input_guards": (Guard("g1", "1", allow_differently), Guard("g2", "1", allow))
    },
    "order of nodes": {"backwards": True},
    "default given by hand": {"bind_default": True},
    "default that is not used": {"bind_default": True, "default": 8},
    "class": {"order": order_model("Bestellung")},
    "description": {
        "order": order_model(
            amount=(int, Field(5, ge=0, description="cents", title="Sum", examples=[1]))
        )
    },
    "enum's names and order": {"order": order_model(colour=(Farbe, Farbe.ROT))},
    "seconds as a float": {"timeout": 30.0000001},
    "zone of a time": {"fire_at": NOON.astimezone(timezone(timedelta(hours=2)))},
}


@pytest.mark.parametrize("change", REAL.values(), ids=REAL)
def test_a_real_edit_changes_the_digest(change: dict[str, Any]) -> None:
    assert digest(replace(BASE, **change)) != digest(BASE)


@pytest.mark.parametrize("change", COSMETIC.values(), ids=COSMETIC)
def test_a_cosmetic_edit_does_not(change: dict[str, Any]) -> None:
    assert digest(replace(BASE, **change)) == digest(BASE)


def test_every_edit_is_another_definition() -> None:
    digests = [digest(replace(BASE, **change)) for change in ({}, *REAL.values())]
    assert len(set(digests)) == len(digests)
