"""Workflows: which functions are one, and how values are checked against their types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from mayura.runtime import Code, Flow, MayuraError, workflow
from mayura.runtime.core.code import Invalid
from mayura.runtime.core.definition import JsonValue
from mayura.runtime.core.mistake import DefinitionError
from mayura.runtime.ids import NodeId
from tests.core.shop import Answer, Charge, Order, charge, reserve
from tests.core.test_flow_mistakes import Secretive, mistake

AT: Final = datetime(2026, 1, 31, tzinfo=UTC)
STORED: Final[JsonValue] = {"charge_id": "c", "at": "2026-01-31T00:00:00Z"}


@workflow("shop.checkout", version="1")
def checkout(flow: Flow, order: Order) -> Charge | None:
    asked = flow.human("ask", Answer, prompt="Go on?")
    paid = flow.signal("paid", Charge, name="payment.received", after=[asked])
    reserved = flow.tool("reserve", reserve.on(order), after=[paid])
    return flow.tool("charge", charge.on(order, reserved.output), when=asked.output.publish).output


ORDER = Order(order_id="o", amount_cents=1, sha256="0" * 64)


def refusal(check: Callable[[], object]) -> MayuraError:
    with pytest.raises(MayuraError) as caught:
        check()
    return caught.value


def test_an_input_is_stored_through_its_type() -> None:
    stored: Any = checkout.input_json(ORDER)
    assert stored["order_id"] == "o"
    assert stored["ship_at"] == "2030-01-01T12:00:00Z"
    assert checkout.check_input({"order_id": "o", "amount_cents": 1}) == stored


def test_an_input_that_does_not_fit_names_workflow_and_field() -> None:
    wrong: Any = Order.model_construct(order_id=4111)
    error = refusal(lambda: checkout.input_json(wrong))
    assert error.code is Code.INVALID_INPUT
    assert str(error).startswith("workflow 'shop.checkout': input.")
    assert "4111" not in str(error)
    large = ORDER.model_copy(update={"amount_cents": 2**63})
    error = refusal(lambda: checkout.input_json(large))
    assert error.code is Code.INVALID_INPUT
    assert "input.amount_cents is an integer beyond" in str(error)


def test_a_result_comes_back_as_its_type() -> None:
    assert checkout.check_result(STORED) == STORED
    assert checkout.output_value(STORED) == Charge(charge_id="c", at=AT)
    assert checkout.output_value(None) is None
    assert refusal(lambda: checkout.output_value({})).code is Code.INVALID_OUTPUT


def test_values_of_steps_are_checked_against_their_types() -> None:
    ask, paid, charged = NodeId("ask"), NodeId("paid"), NodeId("charge")
    assert checkout.check_answer(ask, {"publish": True}) == {"publish": True, "note": None}
    assert checkout.check_signal(paid, STORED) == STORED
    assert checkout.check_tool_output(charged, STORED) == STORED
    order = checkout.input_json(ORDER)
    call_input = {"order": order, "reservation_id": "r"}
    assert checkout.check_tool_input(charged, call_input) == call_input
    checks: list[Callable[[], object]] = [
        lambda: checkout.check_answer(ask, {}),
        lambda: checkout.check_signal(paid, None),
        lambda: checkout.check_tool_output(charged, None),
        lambda: checkout.check_tool_input(charged, {"order": order}),
        lambda: checkout.check_result("x"),
        lambda: checkout.check_input({}),
    ]
    for check in checks:
        with pytest.raises(Invalid):
            check()


def test_typed_answers_and_signals_are_stored_through_their_types() -> None:
    ask = NodeId("ask")
    assert checkout.answer_json(ask, Answer(publish=True)) == {"publish": True, "note": None}
    assert checkout.signal_node("payment.received") == "paid"
    assert checkout.signal_json("payment.received", Charge(charge_id="c", at=AT)) == {
        "charge_id": "c",
        "at": "2026-01-31T00:00:00Z",
    }
    assert refusal(lambda: checkout.answer_json(ask, True)).code is Code.INVALID_INPUT
    assert refusal(lambda: checkout.signal_json("payment.received", 1)).code is Code.INVALID_INPUT


def test_an_unknown_name_is_not_found_and_the_nearest_is_named() -> None:
    for look, near in (
        (lambda: checkout.signal_node("payment.recieved"), "payment.received"),
        (lambda: checkout.tool(NodeId("charged")), "charge"),
        (lambda: checkout.answer_json(NodeId("asked"), 1), "ask"),
    ):
        error = refusal(look)
        assert error.code is Code.NOT_FOUND
        assert f"did you mean {near!r}" in str(error)


@pytest.mark.parametrize(
    ("workflow_id", "version", "said"),
    [
        ("", "1", "an id is a letter"),
        ("1", "1", "an id is a letter"),
        ("w" * 129, "1", "an id is a letter"),
        ("w", "", "version"),
        ("w", "v" * 129, "at most 128"),
    ],
)
def test_ids_and_versions_have_a_form(workflow_id: str, version: str, said: str) -> None:
    error = mistake(lambda f, o: f.tool("a", reserve.on(o)), workflow_id, version)
    assert said in str(error)


async def _is_async(flow: Flow, order: Order) -> None: ...
def _takes_two(flow: Flow, order: Order, more: int) -> None: ...
def _takes_none(flow: Flow) -> None: ...
def _takes_no_flow(order: Order, flow: Flow) -> None: ...
def _says_nothing(flow: Flow, order): ...  # type: ignore[no-untyped-def]
def _returns_nothing(flow: Flow, order: Order): ...  # type: ignore[no-untyped-def]
def _takes_secrets(flow: Flow, order: Secretive) -> None: ...


def _returns_a_step(flow: Flow, order: Order) -> object:
    return flow.tool("a", reserve.on(order))


def _returns_another(flow: Flow, order: Order) -> int:
    return flow.tool("a", reserve.on(order)).output  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_is_async, "declare it with a plain `def`"),
        (_takes_two, "takes (flow: Flow, <its one input>)"),
        (_takes_none, "takes (flow: Flow, <its one input>)"),
        (_takes_no_flow, "takes (flow: Flow, <its one input>)"),
        (_says_nothing, "parameter 'order': has no annotation"),
        (_returns_nothing, "has no return annotation"),
        (_takes_secrets, "input field password: is a secret"),
        (_returns_a_step, "result: takes a value: write a.output"),
        (_returns_another, "result: the value is string where integer is expected"),
    ],
)
def test_a_function_that_cannot_be_a_workflow_is_refused(
    function: Callable[..., object], said: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        workflow("shop.wrong", version="1")(function)
    assert str(caught.value).startswith("workflow 'shop.wrong'")
    assert said in str(caught.value)
