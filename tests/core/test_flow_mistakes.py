"""Mistakes in a workflow: each is named by workflow, node and field, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, cast

import pytest
from pydantic import BaseModel, SecretStr

from mayura.runtime import Call, Flow, tool, workflow
from mayura.runtime.core.mistake import DefinitionError
from tests.core.shop import (
    NOON,
    Answer,
    Line,
    Order,
    add,
    charge,
    pick,
    reserve,
    show,
    take,
)

Trace = Callable[[Any, Any], object]


def mistake(trace: Trace, workflow_id: str = "shop.wrong", version: str = "1") -> DefinitionError:
    """The error of a workflow whose function does `trace`."""

    def function(flow: Flow, order: Order) -> object:
        trace(flow, order)
        return order

    with pytest.raises(DefinitionError) as caught:
        workflow(workflow_id, version=version)(function)
    return caught.value


class Secretive(BaseModel):
    password: SecretStr


@tool("dates.take", version="1", effects="none")
async def date_taker(call: Call, at: datetime, lines: list[Line], kind: Answer | None) -> None: ...


@tool("many.take", version="1", effects="none")
async def numbers(call: Call, many: list[int]) -> list[str]:
    raise NotImplementedError


def other_flow_step() -> Any:  # noqa: ANN401 - a step of a workflow that is complete
    held: list[Any] = []

    @workflow("shop.other", version="1")
    def other(flow: Flow, order: Order) -> str:
        held.append(flow.tool("reserve", reserve.on(order)))
        return held[-1].output  # type: ignore[no-any-return]

    return held[-1]


OTHER: Final = other_flow_step()

MISTAKES: Final[list[tuple[str, Trace, str, str]]] = [
    ("no nodes", lambda f, o: 1, "", "has no nodes"),
    ("bad id", lambda f, o: f.tool("a/b", reserve.on(o)), "node 'a/b'", "a node id is a letter"),
    ("id of 129", lambda f, o: f.tool("a" * 129, reserve.on(o)), "", "a node id is a letter"),
    (
        "two nodes of one id",
        lambda f, o: [f.tool("a", reserve.on(o)), f.tool("a", reserve.on(o))],
        "node 'a'",
        "two nodes have this id",
    ),
    (
        "a slot's id",
        lambda f, o: [f.tool("p.1", reserve.on(o)), f.fan_out("p", pick, o.lines, max=1)],
        "node 'p.1'",
        "two nodes have this id",
    ),
    ("a tool, unbound", lambda f, o: f.tool("a", reserve), "node 'a'", "tool.on(...)"),
    (
        "a step, not its output",
        lambda f, o: f.tool("b", show.on(f.tool("a", reserve.on(o)))),
        "node 'b' text",
        "write a.output",
    ),
    (
        "a call in a call",
        lambda f, o: f.tool("b", show.on(cast(Any, reserve.on(o)))),
        "node 'b' text",
        "make the call a step",
    ),
    (
        "a wrong value",
        lambda f, o: f.tool("a", add.on(cast(Any, "x"))),
        "node 'a' left",
        "should be",
    ),
    ("a wrong model", lambda f, o: f.tool("a", pick.on(o.extras)), "node 'a' line", "Extras"),
    (
        "a large value",
        lambda f, o: f.tool("a", show.on("x" * 2**20)),
        "node 'a' text",
        "a value is at most 1048576 bytes",
    ),
    (
        "text for a number",
        lambda f, o: f.tool("a", add.on(o.order_id)),
        "node 'a' left",
        "string where integer is expected (str for int)",
    ),
    (
        "a number for text",
        lambda f, o: f.tool("a", show.on(o.amount_cents)),
        "node 'a' text",
        "is integer where string or null is expected",
    ),
    (
        "a number for a time",
        lambda f, o: f.tool("a", date_taker.on(o.amount_cents, o.lines, None)),
        "node 'a' at",
        "is integer where string is expected",
    ),
    (
        "a list of the wrong kind",
        lambda f, o: f.tool("a", numbers.on(o.lines)),
        "node 'a' many",
        "the value[0] is object where integer is expected",
    ),
    (
        "a missing field",
        lambda f, o: f.tool("a", charge.on(o.lines[0], "r")),
        "node 'a' order",
        "is required and missing",
    ),
    (
        "a null for an object",
        lambda f, o: f.tool("a", date_taker.on(NOON, cast(Any, None), None)),
        "node 'a' lines",
        "should be an array",
    ),
    (
        "when a value",
        lambda f, o: f.tool("a", reserve.on(o), when=True),
        "node 'a' when",
        "takes a part of the input",
    ),
    (
        "when a step",
        lambda f, o: f.tool("b", reserve.on(o), when=f.tool("a", reserve.on(o))),
        "node 'b' when",
        "write a.output",
    ),
    (
        "approval by a symbol",
        lambda f, o: f.tool("a", reserve.on(o), approval=o.amount_cents),
        "node 'a' approval",
        "a condition belongs into when=",
    ),
    (
        "after a symbol",
        lambda f, o: f.tool("b", reserve.on(o), after=[f.tool("a", reserve.on(o)).output]),
        "node 'b' after",
        "takes steps",
    ),
    (
        "after a step, bare",
        lambda f, o: f.tool("b", reserve.on(o), after=f.tool("a", reserve.on(o))),
        "node 'b' after",
        "is a list: write [a]",
    ),
    (
        "after a step of another workflow",
        lambda f, o: f.tool("a", reserve.on(o), after=[OTHER]),
        "node 'a' after",
        "takes a part of workflow 'shop.other'",
    ),
    (
        "the output of another workflow's step",
        lambda f, o: f.tool("a", show.on(OTHER.output)),
        "node 'a' text",
        "takes a part of workflow 'shop.other'",
    ),
    (
        "fan-out of no list",
        lambda f, o: f.fan_out("p", pick, o.order_id, max=2),
        "node 'p' items",
        "is str, not a list",
    ),
    (
        "fan-out of a list at hand",
        lambda f, o: f.fan_out("p", pick, [Line(sku="s")], max=2),
        "node 'p' items",
        "takes a list out of the input",
    ),
    (
        "fan-out of others' items",
        lambda f, o: f.fan_out("p", add, o.lines, max=2),
        "node 'p'",
        "a tool with one parameter",
    ),
    (
        "fan-out of wrong items",
        lambda f, o: f.fan_out("p", show, o.lines, max=2),
        "node 'p' items",
        "each item: the value is object where",
    ),
    ("fan-out of none", lambda f, o: f.fan_out("p", pick, o.lines, max=0), "max", "at least 1"),
    (
        "fan-out of how many",
        lambda f, o: f.fan_out("p", pick, o.lines, max=o.amount_cents),
        "node 'p' max",
        "whole number",
    ),
    (
        "surplus",
        lambda f, o: f.fan_out("p", pick, o.lines, max=1, surplus="ignored"),
        "node 'p' surplus",
        "did you mean 'ignore'",
    ),
    ("a join of nothing", lambda f, o: f.join("j", []), "node 'j'", "one or more steps"),
    (
        "a join of the same",
        lambda f, o: f.join("j", [f.tool("a", reserve.on(o))] * 2),
        "node 'j'",
        "different steps",
    ),
    ("a join of values", lambda f, o: f.join("j", [o.order_id]), "node 'j' after", "takes steps"),
    (
        "kind",
        lambda f, o: f.human("h", bool, prompt="?", kind="informaton"),
        "node 'h' kind",
        "did you mean 'information'",
    ),
    ("no prompt", lambda f, o: f.human("h", bool, prompt=" "), "node 'h' prompt", "is empty"),
    (
        "a computed prompt",
        lambda f, o: f.human("h", bool, prompt=o.order_id),
        "node 'h' prompt",
        "known when the workflow is defined",
    ),
    (
        "a secret answer",
        lambda f, o: f.human("h", Secretive, prompt="?"),
        "node 'h' response field password",
        "is a secret",
    ),
    (
        "correction of nothing",
        lambda f, o: f.human("h", bool, prompt="?", kind="correction"),
        "node 'h' subject_digest",
        "names what is corrected",
    ),
    (
        "subject of no correction",
        lambda f, o: f.human("h", bool, prompt="?", subject_digest=o.digest),
        "node 'h' subject_digest",
        "for no other kind",
    ),
    (
        "no digest",
        lambda f, o: f.human("h", bool, prompt="?", kind="correction", subject_digest="abc"),
        "node 'h' subject_digest",
        "64 lower-case hex",
    ),
    (
        "schema id",
        lambda f, o: f.human("h", bool, prompt="?", schema_id="a b"),
        "node 'h' schema_id",
        "is written like",
    ),
    (
        "naive time",
        lambda f, o: f.timer("t", datetime(2030, 1, 1)),  # noqa: DTZ001 - the mistake
        "node 't' at",
        "has no time zone",
    ),
    ("no time", lambda f, o: f.timer("t", o.amount_cents), "node 't' at", "is integer where"),
    ("a duration", lambda f, o: f.timer("t", 60), "node 't' at", "date and time"),
    (
        "naive deadline",
        lambda f, o: f.signal("s", int, deadline=datetime(2030, 1, 1)),  # noqa: DTZ001
        "node 's' deadline",
        "has no time zone",
    ),
    (
        "two signals of one name",
        lambda f, o: [f.signal("a", int, name="s"), f.signal("s", int)],
        "node 's'",
        "two signals are named 's'",
    ),
    ("signal name", lambda f, o: f.signal("a", int, name="a b"), "node 'a' name", "like a node id"),
    (
        "when built",
        lambda f, o: f.tool("a", reserve.on(o), when=[o.order_id]),
        "node 'a' when",
        "is built around input.order_id",
    ),
]


@pytest.mark.parametrize(
    ("trace", "where", "said"),
    [(trace, where, said) for _, trace, where, said in MISTAKES],
    ids=[name for name, _, _, _ in MISTAKES],
)
def test_a_mistake_is_named_where_it_was_made(trace: Trace, where: str, said: str) -> None:
    error = mistake(trace)
    assert str(error).startswith("workflow 'shop.wrong'")
    assert where in error.where
    assert said in error.what


def test_a_flow_is_of_no_use_after_the_workflow_is_traced() -> None:
    kept: list[Flow] = []

    @workflow("shop.kept", version="1")
    def keeps(flow: Flow, order: Order) -> str:
        kept.append(flow)
        return flow.tool("a", reserve.on(order)).output

    with pytest.raises(DefinitionError, match="is complete"):
        kept[0].timer("late", NOON)


def test_two_tools_of_one_id_are_one_too_many() -> None:
    @tool("stock.reserve", version="2", effects="write")
    async def newer(call: Call, order: Order) -> str:
        raise NotImplementedError

    error = mistake(lambda f, o: [f.tool("a", reserve.on(o)), f.tool("b", newer.on(o))])
    assert "two different tools are called 'stock.reserve'" in str(error)


def test_a_mistake_of_the_function_itself_is_left_as_it_is() -> None:
    def function(flow: Flow, order: Order) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        workflow("shop.wrong", version="1")(function)


def test_what_may_fit_is_not_refused() -> None:
    """Only a clear mismatch is an error; what fits sometimes is checked when it is there."""

    @workflow("shop.fits", version="1")
    def fits(flow: Flow, order: Order) -> object:
        maybe = flow.tool("maybe", reserve.on(order), when=order.extras)
        flow.tool("null", charge.on(order, maybe.output))  # type: ignore[arg-type]
        anything = flow.tool("any", take.on(order))
        flow.tool("object", add.on(anything.output))  # type: ignore[arg-type]
        flow.tool("time", show.on(order.ship_at))  # type: ignore[arg-type]
        flow.tool("optional", date_taker.on(order.pay_by, order.lines, None))  # type: ignore[arg-type]
        return anything.output

    assert len(fits.definition.nodes) == 6
